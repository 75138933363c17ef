"""Cases, and what is asked of every one of them.

A case is a folder of files and a command or a program that `server.py` plays in it. It must end
within its time and memory, with the exit code 0, or with 2 and one line that says what is wrong;
without a traceback, without having changed a file that it was not to write, without leftovers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

LIMITS = (10.0, 2 * 2**30)  # of one process: seconds, and bytes of resident memory
PATIENCE = 2.0  # seconds until Ctrl-C, where a case may rightly train for long
HERE = Path(__file__).parent
HASHED = 2**22  # bytes; of larger files the time of the last change is compared


class Entry(Protocol):
    """Something in the folder of a case."""

    def put(self, folder: Path) -> None:
        """Make it there."""


@dataclass(frozen=True)
class Case:
    """`gedi ARGUMENTS`, or a Python script, in a folder with these entries.

    writes: names that it may write or change, and all that is in folders of these names
    adds: folders that it may add files to
    """

    entries: tuple[Entry, ...]
    arguments: tuple[str, ...] = ()
    script: str = ""
    writes: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()

    def command(self) -> str:
        """For a shell, or what is particular of the script."""
        return self.script.rpartition("# the case\n")[2] or shlex.join(["gedi", *self.arguments])


@dataclass(frozen=True)
class Interruption:
    """A signal for one rank, some seconds after it has entered a phase for the n-th time."""

    phase: str
    turn: int
    delay: float
    signal: int
    rank: int = 0


@dataclass(frozen=True)
class End:
    """How a process ended; `code` is minus the signal that ended it."""

    code: int
    seconds: float
    memory: int
    late: bool
    entered: list[str]  # the phases, where an interruption was asked for
    out: str
    err: str


@dataclass
class Player:
    """The server, the folder that cases are played in, and what has been counted so far."""

    root: Path
    server: subprocess.Popen[str]
    counts: Counter[str] = field(default_factory=Counter)  # cases by kind
    sound: set[str] = field(default_factory=set)  # the cases that were played without a fault
    codes: Counter[int] = field(default_factory=Counter)
    limits: tuple[float, int] = LIMITS
    memory: int = 0  # the most so far
    seconds: float = 0.0

    @classmethod
    def start(cls) -> Player:
        root = Path(tempfile.mkdtemp(prefix="gedi-fuzz-")).resolve()
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        others = {"PYTHONIOENCODING": "utf-8:strict", "PYTHONHASHSEED": "0", "COLUMNS": "200"}
        # No thread may run in the server when it forks: pyarrow would have one.
        home = {"GEDI_CACHE": "cache", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
        server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads | others | home,
        )
        player = cls(root, server)
        assert player._line() == "ready"
        return player

    def stop(self) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait(60)
        shutil.rmtree(self.root, ignore_errors=True)

    def play(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        script: str = "",
        *,
        patient: bool = False,
        interruption: Interruption | None = None,
        environments: Sequence[Mapping[str, str]] = ({},),
        seconds: float | None = None,
    ) -> list[End]:
        """Play a command or a script; one end for each rank, whose variables `environments` are."""
        output = self.root / "output"
        request = {
            "folder": str(folder),
            "output": str(output),
            "arguments": list(arguments),
            "script": script,
            "seconds": seconds or self.limits[0],
            "patience": PATIENCE if patient else None,
            "interruption": interruption and vars(interruption),
            "environments": [dict(each) for each in environments],
        }
        assert self.server.stdin is not None
        print(json.dumps(request), file=self.server.stdin, flush=True)
        answer = json.loads(self._line())
        ends = []
        for rank, end in enumerate(answer["ends"]):
            out, err = (
                Path(f"{output}.{name}{rank}").read_text(errors="backslashreplace")
                for name in ("out", "err")
            )
            ends.append(End(**end, out=out, err=err))
            self.codes[end["code"]] += 1
            self.memory = max(self.memory, end["memory"])
            self.seconds = max(self.seconds, end["seconds"])
        return ends

    def _line(self) -> str:
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of the cases ended with {self.server.wait(60)}")
        return line.strip()

    def faults(self, case: Case) -> list[str]:
        """What is wrong with how a case went: nothing, or one line each."""
        folder = self.empty_folder("case")
        for entry in case.entries:
            entry.put(folder)
        before = snapshot(folder)
        long = trains_long(case, folder)
        (end,) = self.play(folder, case.arguments, case.script, patient=long)
        return judge(case, end, before, snapshot(folder), folder, long, self.limits[1])

    def empty_folder(self, name: str) -> Path:
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder


# --- the verdict --------------------------------------------------------------------------------

# Iterations without end, in the words of --set, of options, of YAML and of Python.
LONG = re.compile(r"(max_iter|iterations|steps)['\"]?(=|: ?| )\+?([\d_]{3,}|\d(\.\d*)?e\+?\d)")
ERROR = re.compile(r"^(error|Error): .", re.MULTILINE)


def judge(
    case: Case,
    end: End,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    folder: Path,
    may_be_stopped: bool,
    most: int,
) -> list[str]:
    faults = judge_end(end, most)
    interrupted = may_be_stopped and end.code == 130
    if end.code not in (0, 2) and not interrupted and not faults:
        faults.append(f"exit code {end.code}: {last_line(end.err)}")
    if end.code == 2 and len(ERROR.findall(end.err)) != 1:
        faults.append(f"not one line of error: {end.err[-300:]!r}")
    refused = end.code != 0 and not interrupted
    by = " by a refusal" if refused else ""
    why = f" ({last_line(end.err)})" if refused else ""
    writes = () if refused else case.writes
    gone = [name for name in before if name not in after and not _allowed(name, writes)]
    changed = [
        n for n in before if n in after and after[n] != before[n] and not _allowed(n, writes)
    ]
    added = (*writes, *(() if refused else case.adds))
    new = [name for name in after if name not in before and not _allowed(name, added)]
    left = [name for name in after if name not in before and name.endswith(".part")]
    found = {"lost": gone, "changed": changed, "written": new, "left behind": left}
    faults += [f"{what}{by}: {', '.join(names[:4])}{why}" for what, names in found.items() if names]
    if end.code == 0:
        faults += not_finite(end.out, folder)
    return faults


def trains_long(case: Case, folder: Path) -> bool:
    """Whether a case asks for a training that ends only when a person stops it."""
    config = folder / "t" / "run" / "config.yaml"
    small = config.is_file() and config.stat().st_size < 2**20
    text = config.read_text(errors="replace") if small else ""
    several = case.arguments[:1] in [("choose",), ("reproduce",), ("demo",)]  # fits
    return several or bool(LONG.search(f"{' '.join(case.arguments)} {case.script} {text}"))


def judge_end(end: End, most: int = LIMITS[1]) -> list[str]:
    """What holds for every process: time, memory, no traceback, no crash."""
    faults = []
    if end.late:
        faults.append(f"a hang: {end.seconds:.1f} s{asleep(end.err)}")
    elif end.code in (-4, -6, -7, -8, -11):
        faults.append(f"a crash: signal {-end.code}")
    if end.memory > most:
        faults.append(f"memory: {end.memory / 2**20:.0f} MB")
    if "Traceback (most recent call last)" in end.err + end.out:
        faults.append(f"traceback: {last_frame(end.err)}: {last_line(end.err)}")
    return faults


def not_finite(out: str, folder: Path) -> list[str]:
    """Probabilities, scores and points that are no numbers, though all is said to be well."""
    texts = {"output": out} | {
        str(p.parent.name): p.read_text() for p in folder.glob("*/labels.csv")
    }
    return [
        f"nan in {where}" for where, text in texts.items() if re.search(r"(?i),nan\b|\bnan,", text)
    ]


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""


def asleep(text: str) -> str:
    """Where a process was that waited for something."""
    frames = re.findall(r"^  File .*", text.partition("(most recent call first)")[2], re.MULTILINE)
    return f" ({'; '.join(frame.strip() for frame in frames[:6])})" if frames else ""


def last_frame(text: str) -> str:
    """Where in the library a traceback ends."""
    frames = re.findall(r'File "[^"]*?(gedilearn/[^"]+)", line \d+, in (\S+)', text)
    return ":".join(frames[-1]) if frames else "?"


def _allowed(name: str, writes: Sequence[str]) -> bool:
    return any(name == allowed or name.startswith(f"{allowed}/") for allowed in writes)


def snapshot(folder: Path) -> dict[str, Any]:
    """Every entry below a folder, with what tells whether it has changed."""
    found: dict[str, Any] = {}
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = Path(path, name)
            found[str(entry.relative_to(folder))] = _content(entry)
    return found


def _content(entry: Path) -> Any:
    if entry.is_symlink():
        return os.readlink(entry)
    if not entry.is_file():
        return entry.stat().st_mode
    status = entry.stat()
    if status.st_size > HASHED:
        return status.st_size, status.st_mtime_ns
    return hashlib.sha256(entry.read_bytes()).hexdigest()
