"""Cases, the forked processes that play them, and the requirements on each.

A case is a folder of files and a command or a program. It must end within its time and memory, with
exit code 0, or with 2 and one line that says what is wrong; without a traceback, without a change
of files that it was not to write, without leftovers. A process is forked from one that has imported
everything and computed nothing, so it begins in milliseconds.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import hashlib
import importlib
import math
import os
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

SECONDS, MEMORY = 10.0, 2 * 2**30  # of one process: processor time, and resident bytes
LONGEST = 3  # times as long by the clock
PATIENCE = 2.0  # seconds until Ctrl-C, where a case may rightly train for long
MORE_MEMORY, LARGEST_FILE = 6 * 2**30, 2**30  # bounds that a sound case never meets
HASHED = 2**22  # bytes; of larger files the time of the last change is compared
MODULES = (
    *("torch.distributed", "lightning_fabric", "kornia", "matplotlib.pyplot", "scipy.io"),
    *("pandas", "pyarrow.parquet", "PIL.Image", "sklearn.base", "rich.table", "yaml"),
    *("gedilearn.cli", "gedilearn.evaluation", "gedilearn.report", "gedilearn.selection"),
    *("gedilearn.training.loop", "gedilearn.data.image_views"),
)


@dataclass(frozen=True)
class Entry:
    """Something at a place of the folder; what was there before goes.

    kind: file, folder, link (to `target`), pipe, gone, or template (a copy of the folder `target`)
    times: how often the content is repeated; size: the bytes of a sparse file
    """

    name: str
    content: bytes = b""
    kind: str = "file"
    target: str = ""
    times: int = 1
    size: int = 0

    def put(self, folder: Path) -> None:
        path = folder / self.name
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.is_dir() or path.parent.resolve() != path.parent:
            return  # an earlier entry put something else there
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if self.kind == "folder":
            path.mkdir()
        elif self.kind == "link":
            path.symlink_to(self.target)
        elif self.kind == "pipe":
            os.mkfifo(path)
        elif self.kind == "template":
            shutil.copytree(self.target, path)
        elif self.kind == "file":
            path.write_bytes(self.content * self.times)
            if self.size:
                os.truncate(path, self.size)


@dataclass(frozen=True)
class Case:
    """`gedi ARGUMENTS`, or a Python script, in a folder with these entries.

    writes: names that it may write or change, with all that is in folders of these names
    """

    entries: tuple[Entry, ...]
    arguments: tuple[str, ...] = ()
    script: str = ""
    writes: tuple[str, ...] = ()

    def command(self) -> str:
        """For a shell, or the part of the script that is the case's own."""
        return self.script.rpartition("# the case\n")[2] or shlex.join(["gedi", *self.arguments])


@dataclass(frozen=True)
class Stop:
    """A signal that a rank sends itself when it calls a function for the n-th time."""

    place: str
    turn: int
    signal: int
    rank: int = 0


@dataclass(frozen=True)
class End:
    """How a process ended; `code` is minus the signal that ended it."""

    code: int
    seconds: float
    memory: int
    late: bool
    out: str
    err: str


class Player:
    """The folder that cases are played in, and the limits of a case."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or Path(tempfile.mkdtemp(prefix="gedi-fuzz-"))).resolve()
        self.seconds, self.memory = SECONDS, MEMORY

    def empty_folder(self, name: str) -> Path:
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def faults(self, case: Case) -> list[str]:
        """The faults of a case, one line each."""
        folder = self.empty_folder("case")
        for entry in case.entries:
            entry.put(folder)
        before, long = snapshot(folder), trains_long(case, folder)
        (end,) = self.play(folder, case.arguments, case.script, patient=long)
        return judge(case, end, before, folder, long, self.memory)

    def play(
        self,
        folder: Path,
        arguments: Sequence[str] = (),
        script: str = "",
        *,
        patient: bool = False,
        stop: Stop | None = None,
        ranks: Sequence[Mapping[str, str]] = ({},),
        seconds: float | None = None,
    ) -> list[End]:
        """The ends of a command or script, one for each rank with its environment."""
        limit, children = seconds or self.seconds, []
        sys.stdout.flush()
        for rank, environment in enumerate(ranks):
            child = os.fork()
            if child == 0:
                output = [self.root / f"{rank}.{name}" for name in ("out", "err")]
                own = stop if stop and stop.rank == rank else None
                work = partial(_run_script, script) if script else partial(_run_command, arguments)
                _become(folder, output, limit, environment, own, work)
            children.append(child)
        return watch(self.root, children, limit, PATIENCE if patient else None)


def watch(root: Path, children: list[int], seconds: float, patience: float | None) -> list[End]:
    """Wait for all; interrupt those that may train for long, end those that are late."""
    began, ends = time.monotonic(), {}
    cuts = [(LONGEST * seconds, signal.SIGKILL)]
    if patience:  # as a person does who does not want to wait any longer
        cuts += [(patience, signal.SIGINT), (1.5 * patience, signal.SIGINT)]
    while len(ends) < len(children):
        now = time.monotonic() - began
        for cut in [cut for cut in cuts if cut[0] <= now]:
            cuts.remove(cut)
            for child in set(children) - ends.keys():
                os.kill(child, cut[1])
        for rank, child in enumerate(children):
            pid, status, usage = (0, 0, None) if child in ends else os.wait4(child, os.WNOHANG)
            if pid and usage:
                worked = usage.ru_utime + usage.ru_stime
                late = worked > seconds or now > LONGEST * seconds
                texts = [
                    (root / f"{rank}.{name}").read_text(errors="backslashreplace")
                    for name in ("out", "err")
                ]
                code, memory = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
                ends[child] = End(code, worked, memory, late, *texts)
        time.sleep(0.002)
    for child in children:  # and what they have started: each has a group of its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    return [ends[child] for child in children]


# --- the forked process -------------------------------------------------------------------------


def get_ready() -> None:
    """Import everything, once, with one thread; to be called before the first case."""
    os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")})
    # pyarrow would have a thread of its own, which no process may have that forks.
    os.environ |= {"JE_ARROW_MALLOC_CONF": "background_thread:false", "GEDI_CACHE": "cache"}
    for module in MODULES:
        importlib.import_module(module)
    importlib.import_module("torch").set_num_threads(1)
    sys.modules["__main__"].__spec__ = None  # or ranks would be started as this module
    gc.collect()
    gc.freeze()  # or the collector of every child would copy all pages


def _become(
    folder: Path,
    output: Sequence[Path],
    seconds: float,
    environment: Mapping[str, str],
    stop: Stop | None,
    work: Callable[[], int],
) -> None:
    """Become the process that was asked for; never returns."""
    code: Any = 1
    try:
        os.setsid()
        # A shell lets its background processes ignore Ctrl-C, and children inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin = open(os.devnull)  # noqa: SIM115
        os.dup2(sys.stdin.fileno(), 0)
        for number, (name, path) in enumerate(zip(("stdout", "stderr"), output, strict=True), 1):
            file = open(path, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
            os.dup2(file.fileno(), number)
            setattr(sys, name, file)
        os.environ.update(environment)
        os.chdir(folder)
        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used + MORE_MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds) + 1,) * 2)
        faulthandler.disable()  # pytest's own would write to its output
        faulthandler.dump_traceback_later(0.9 * LONGEST * seconds, file=sys.stderr)
        if stop:
            _stop_at(stop)
        code = work()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the rest is the interpreter's end
        sys.stdout.flush()
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _stop_at(stop: Stop) -> None:
    """Send the signal to this process at the n-th call of a function `module.name`."""
    module, _, name = stop.place.rpartition(".")
    owner = importlib.import_module(module)
    function, calls = getattr(owner, name), []

    @functools.wraps(function)
    def wrapped(*given: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == stop.turn:
            os.kill(os.getpid(), stop.signal)
        return function(*given, **options)

    setattr(owner, name, wrapped)


def _run_command(arguments: Sequence[str]) -> int:
    """`gedi ARGUMENTS`; ranks that it starts run the same file."""
    main = importlib.import_module("gedilearn.__main__")
    sys.argv = [str(main.__file__), *arguments]
    main.main()
    return 0


def _run_script(script: str) -> int:
    """A program that uses the library; an error that it may raise is told as by a command."""
    try:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    except (ValueError, TypeError) as error:  # InputError and NotFittedError are ValueErrors
        if isinstance(error, UnicodeError):
            raise
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


# --- the verdict --------------------------------------------------------------------------------

# Iterations without end, in the words of --set, of options, of YAML and of Python.
LONG = re.compile(r"(max_iter|iterations|steps)['\"]?(=|: ?| )\+?([\d_]{3,}|\d(\.\d*)?e\+?\d)")
ERROR = re.compile(r"^(error|Error): .", re.MULTILINE)


def judge(
    case: Case, end: End, before: Mapping[str, Any], folder: Path, stoppable: bool, memory: int
) -> list[str]:
    faults, after = judge_end(end, memory), snapshot(folder)
    interrupted = stoppable and end.code == 130
    if end.code not in (0, 2) and not interrupted and not faults:
        faults.append(f"exit code {end.code}: {last_line(end.err)}")
    if end.code == 2 and len(ERROR.findall(end.err)) != 1:
        faults.append(f"not one line of error: {end.err[-300:]!r}")
    refused = end.code != 0 and not interrupted
    writes = () if refused else case.writes
    new, both = set(after) - set(before), set(before) & set(after)
    found = {
        "lost": [n for n in before if n not in after and not _in(n, writes)],
        "changed": [n for n in both if after[n] != before[n] and not _in(n, writes)],
        "written": [n for n in new if not _in(n, writes)],
        "left behind": [n for n in new if n.endswith(".part")],
    }
    why = f" by a refusal ({last_line(end.err)})" if refused else ""
    faults += [f"{what}: {', '.join(sorted(n)[:4])}{why}" for what, n in found.items() if n]
    labels = [path.read_text() for path in folder.glob("*/labels.csv") if path.is_file()]
    if end.code == 0 and any(re.search(r"(?i),nan\b|\bnan,", text) for text in (end.out, *labels)):
        faults.append("nan in output")
    return faults


def judge_end(end: End, memory: int = MEMORY) -> list[str]:
    """The faults of any process: time, memory, a traceback, a crash."""
    faults = []
    if end.late:
        frames = re.findall(r"^  File .*", end.err.partition("call first)")[2], re.MULTILINE)
        faults.append(f"a hang: {end.seconds:.1f} s ({'; '.join(frames[:6])})")
    elif end.code in (-4, -6, -7, -8, -11):
        faults.append(f"a crash: signal {-end.code}")
    if end.memory > memory:
        faults.append(f"memory: {end.memory / 2**20:.0f} MB")
    if "Traceback (most recent call last)" in end.err + end.out:
        frames = re.findall(r'File "[^"]*?(gedilearn/[^"]+)", line \d+, in (\S+)', end.err)
        faults.append(f"traceback: {':'.join(frames[-1]) if frames else '?'}: {last_line(end.err)}")
    return faults


def trains_long(case: Case, folder: Path) -> bool:
    """Whether a case asks for a training that ends only when a person stops it."""
    config = folder / "t/run/config.yaml"
    small = config.is_file() and config.stat().st_size < 2**20
    text = config.read_text(errors="replace") if small else ""
    several = case.arguments[:1] in [("choose",), ("reproduce",)]  # fits
    return several or bool(LONG.search(f"{' '.join(case.arguments)} {case.script} {text}"))


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:300]


def _in(name: str, allowed: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}/") for each in allowed)


def snapshot(folder: Path) -> dict[str, Any]:
    """Every entry below a folder, with what tells whether it has changed."""
    found = (Path(at, name) for at, *parts in os.walk(folder) for names in parts for name in names)
    return {str(path.relative_to(folder)): _content(path) for path in found}


def _content(path: Path) -> Any:
    if path.is_symlink():
        return os.readlink(path)
    status = path.stat()
    if not path.is_file():
        return status.st_mode
    if status.st_size > HASHED:
        return status.st_size, status.st_mtime_ns
    return hashlib.sha256(path.read_bytes()).hexdigest()
