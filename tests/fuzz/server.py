"""Plays cases in forked children, with limits; a request in JSON on each line, an answer for each.

Started by `player.py` as a process of its own. It imports everything once and computes nothing, so
that a child begins in milliseconds with a fresh library. A child is ended when its time is over or
when the request says so: a signal, some time after it has entered a phase of a fit.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import json
import math
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODULES = (
    *("torch.distributed", "lightning_fabric", "kornia", "matplotlib.pyplot", "scipy.io"),
    *("pandas", "pyarrow.parquet", "PIL.Image", "sklearn.base", "rich.table", "yaml"),
    *("gedilearn.cli.use", "gedilearn.evaluation", "gedilearn.report.page"),
    *("gedilearn.selection", "gedilearn.training.loop", "gedilearn.data.image_views"),
)
MORE_MEMORY = 6 * 2**30  # bytes beside those of the imports: spares the machine
LARGEST_FILE = 2**30
# Time is that of the processor, for the machine may have other work. Who sleeps is late as well.
LONGEST = 3  # times as long by the clock
TICK = 0.001
# Where each phase of `gedi fit` begins; an iteration of the clusters says itself that it is one.
PHASES = {
    "reading": "gedilearn.data.load.load",
    "neighbours": "gedilearn.data.views.landmark_tables",
    "start": "gedilearn.training.setup.choose_start",
    "clusters": "gedilearn.training.loop.step",
    "density": "gedilearn.density.importance.log_mean_exp",
    "checkpoint": "gedilearn.training.journal.Journal.save",
    "model": "gedilearn.estimator.GEDI.save",
    "profile": "gedilearn.training.run.RunDirectory.write_profile",
    "preview": "gedilearn.training.run.RunDirectory.write_preview",
    "summary": "gedilearn.training.run.RunDirectory.write_summary",
    "labels": "gedilearn.cli.fit.write_columns",
}


def main() -> None:
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for module in MODULES:
        importlib.import_module(module)
    importlib.import_module("torch").set_num_threads(1)
    # A shell lets what runs in the background ignore it, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["__main__"].__spec__ = None  # or ranks would be started as this module
    gc.collect()
    gc.freeze()  # or the collector of every child would copy all pages
    print("ready", file=answers, flush=True)
    for line in requests:
        print(json.dumps(play(json.loads(line))), file=answers, flush=True)


def play(request: dict[str, Any]) -> dict[str, Any]:
    """Begin a child for each rank, wait for all of them, and tell how each ended."""
    heard, told = os.pipe()
    os.set_blocking(heard, False)
    began = time.monotonic()
    children = []
    for rank, environment in enumerate(request["environments"]):
        child = os.fork()
        if child == 0:
            os.close(heard)
            run_child(request, rank, environment, told)
        children.append(child)
    os.close(told)
    try:
        return {"ends": watch(request, children, heard, began)} | {"strays": end_strays(children)}
    finally:
        os.close(heard)


def watch(
    request: dict[str, Any], children: list[int], heard: int, began: float
) -> list[dict[str, Any]]:
    """Wait for the children; send the signals that the request asks for, and end who is late."""
    seconds, patience, stop = request["seconds"], request["patience"], request["interruption"]
    cuts = [(LONGEST * seconds, signal.SIGKILL, children)]
    if patience:  # as a person does who does not want to wait any longer
        cuts += [(patience * times, signal.SIGINT, children) for times in (1, 1.5)]
    ends: dict[int, dict[str, Any]] = {}
    entered: Counter[str] = Counter()
    while len(ends) < len(children):
        now = time.monotonic() - began
        entered.update(_read(heard).split())
        if stop and entered[stop["phase"]] >= stop["turn"]:
            cuts.append((now + stop["delay"], stop["signal"], [children[stop["rank"]]]))
            stop = None
        for cut in [cut for cut in cuts if cut[0] <= now]:
            cuts.remove(cut)
            for child in set(cut[2]) - ends.keys():
                os.kill(child, cut[1])
        for child in set(children) - ends.keys():
            pid, status, usage = os.wait4(child, os.WNOHANG)
            if pid:
                worked = usage.ru_utime + usage.ru_stime
                ends[child] = {
                    "code": os.waitstatus_to_exitcode(status),
                    "memory": usage.ru_maxrss * 1024,
                    "seconds": worked,
                    "late": worked > seconds or now > LONGEST * seconds,
                }
        select.select([], [], [], TICK)
    return [ends[child] | {"entered": list(entered)} for child in children]


def _read(pipe: int) -> str:
    with contextlib.suppress(BlockingIOError):
        return os.read(pipe, 65536).decode()
    return ""


def end_strays(groups: list[int]) -> int:
    """End what the children have started and left behind; how many groups there were."""
    found = 0
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
            found += 1
    return found


# --- in the child -------------------------------------------------------------------------------


def run_child(request: dict[str, Any], rank: int, environment: dict[str, str], told: int) -> None:
    """Become the process that was asked for; never returns."""
    code: Any = 1
    try:
        os.setsid()
        for number, name in ((1, "out"), (2, "err")):
            path = f"{request['output']}.{name}{rank}"
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.environ.update(environment)
        os.chdir(request["folder"])
        limit(request["seconds"])
        # Where a process sleeps that is about to be ended is worth knowing.
        faulthandler.dump_traceback_later(0.9 * LONGEST * request["seconds"])
        if request["interruption"]:
            announce(told)
        code = run_script(request["script"]) if request["script"] else run_command(request)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what comes is the interpreter's end
        sys.stdout.flush()
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def limit(seconds: float) -> None:
    """Bounds that a sound case never meets."""
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + MORE_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds) + 1,) * 2)


def run_command(request: dict[str, Any]) -> int:
    """`gedi ARGUMENTS`; ranks that it starts run the same file."""
    cli = importlib.import_module("gedilearn.cli")
    sys.argv = [str(Path(cli.__file__).with_name("__main__.py")), *request["arguments"]]
    cli.main()
    return 0


def run_script(script: str) -> int:
    """A program that uses the library; what it may raise is told as the command line does it."""
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


def announce(told: int) -> None:
    """Say on the pipe `told` whenever a phase is entered."""
    for phase, place in PHASES.items():
        owner, name = _owner(place)
        setattr(owner, name, _announced(getattr(owner, name), phase, told))


def _owner(place: str) -> tuple[Any, str]:
    path, _, name = place.rpartition(".")
    try:
        return importlib.import_module(path), name
    except ModuleNotFoundError:  # a class
        module, _, inner = path.rpartition(".")
        return getattr(importlib.import_module(module), inner), name


def _announced(function: Callable[..., Any], phase: str, told: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        stage = getattr(arguments[1], "stage", None) if len(arguments) > 1 else None
        if phase != "clusters" or (stage and stage.name == phase):
            os.write(told, f"{phase}\n".encode())
        return function(*arguments, **options)

    return wrapped


if __name__ == "__main__":
    main()
