"""Seconds from nothing to help, and to each import, as medians over fresh processes."""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

REFERENCE = "import torch"


def commands() -> dict[str, list[str] | str]:
    """What to start, by name; a string says why something cannot be started."""
    python = sys.executable
    installed = Path(python).with_name("gedi")
    help_command: list[str] | str
    if importlib.util.find_spec("gedilearn.cli") is None:
        help_command = "there is no gedilearn.cli"
    elif installed.exists():
        help_command = [str(installed), "--help"]
    else:
        help_command = [python, "-m", "gedilearn", "--help"]
    imports = [REFERENCE, "import gedilearn", "from gedilearn import GEDI"]
    return {
        "python": [python, "-c", "pass"],
        "gedi --help": help_command,
        **{line: [python, "-c", line] for line in imports},
    }


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of one fresh process; fails if it does."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def measure(repeats: int) -> dict[str, float | str]:
    """Median seconds by name, or the reason why there are none. Commands take turns."""
    found: dict[str, float | str] = {}
    times: dict[str, list[float]] = {}
    for turn in range(1 + repeats):  # the first turn fills the caches of the file system
        for name, command in commands().items():
            if isinstance(command, str) or name in found:
                found.setdefault(name, str(command))
                continue
            try:
                taken = seconds(command)
            except subprocess.CalledProcessError as error:
                lines = error.stderr.decode(errors="replace").strip().splitlines()
                found[name] = f"failed: {lines[-1] if lines else error}"
                continue
            if turn > 0:
                times.setdefault(name, []).append(taken)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {name: found.get(name, medians.get(name, "not measured")) for name in commands()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    args = parser.parse_args()
    rows = measure(args.repeats)
    if args.json:
        print(json.dumps({"benchmark": "startup", "seconds": rows}))
        return
    reference = rows[REFERENCE]
    print(f"Median seconds of {args.repeats} fresh processes")
    print(f"{'':<28}{'seconds':>8}   less '{REFERENCE}'")
    for name, value in rows.items():
        if isinstance(value, str):
            print(f"{name:<28}{'-':>8}   {value}")
        else:
            against = f"{value - reference:+.3f}" if isinstance(reference, float) else "-"
            print(f"{name:<28}{value:>8.3f}   {against}")
    print("target: 'gedi --help' and 'import gedilearn' do not wait for torch")


if __name__ == "__main__":
    main()
