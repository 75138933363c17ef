"""Speed of two ranks against one, as a ratio, and what the machine allows.

Each case is a fit of random images with the defaults of images, every process with one thread:

* `one`: one rank;
* `two`: two ranks, which share every batch;
* `halves`: two fits at the same time, each with half the batch and half the chains, that do not
  know of each other. What they are faster than one by is the most that two ranks can reach: cores
  share memory and caches, and half a batch is not computed in half the time.

Counted are the seconds between the first and the last row of the metrics, checks included. The
cases take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gedilearn.settings import IMAGES

TARGET = 1.7
FIT = """
import sys, json, numpy as np
from gedilearn import GEDI
shape, settings, run = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
GEDI(10, random_state=0, settings=settings, run_dir=run).fit(x)
"""


def start(shape: tuple[int, ...], settings: dict[str, object], run: Path) -> subprocess.Popen[str]:
    script = run.parent / "fit.py"  # a file, which the first rank starts once more for the second
    script.write_text(FIT)
    command = [sys.executable, str(script), json.dumps(shape), json.dumps(settings), str(run)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    if process.returncode:
        raise SystemExit(errors)


def rate(run: Path) -> float:
    """Iterations a second."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    first, last = rows[0], rows[-1]
    return float((last["iteration"] - first["iteration"]) / (last["seconds"] - first["seconds"]))


def measure(shape: tuple[int, ...], stage: str, iterations: int, folder: Path) -> dict[str, float]:
    """Iterations a second of each case."""
    clusters, density = (1, iterations) if stage == "density" else (iterations, 0)
    batch, chains = IMAGES["optimizer.batch_size"], IMAGES["sampler.chains"]
    common: dict[str, object] = {
        "training.max_iter": clusters,
        "training.early_stopping": False,
        "training.check_every": max(iterations // 4, 1),
        "weights.gen": IMAGES["weights.gen"] if density else 0.0,
        "density.iterations": density,
        "density.base": "none",  # on a base, the density is learnt without ranks
        "device.threads": 1,
    }
    halved = common | {"optimizer.batch_size": batch // 2, "sampler.chains": chains // 2}
    cases = {"one": [common], "two": [common | {"device.devices": 2}], "halves": [halved, halved]}
    found = {}
    for name, fits in cases.items():
        runs = [folder / f"{stage}-{name}-{k}" for k in range(len(fits))]
        for process in [start(shape, *pair) for pair in zip(fits, runs, strict=True)]:
            finish(process)
        found[name] = statistics.fmean(rate(run) for run in runs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--side", type=int, default=28)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--points", type=int, default=4_000)
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    args = parser.parse_args()
    shape = (args.points, args.channels, args.side, args.side)
    rows = []
    for stage in ("clusters", "density"):
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as folder:
                rates = measure(shape, stage, args.iterations, Path(folder))
            rows.append({"stage": stage, **rates})
    if args.json:
        print(json.dumps({"benchmark": "two_ranks", "target": TARGET, "rows": rows}))
        return
    print(f"{'stage':<10} {'one, its/s':>10} {'two ranks':>10} {'most possible':>14}")
    for stage in ("clusters", "density"):
        own = [row for row in rows if row["stage"] == stage]
        two, most = (
            statistics.median(row[name] / row["one"] for row in own) for name in ("two", "halves")
        )
        one = statistics.median(row["one"] for row in own)
        print(f"{stage:<10} {one:>10.1f} {two:>10.2f} {most:>14.2f}")
    print(f"target: two ranks {TARGET} times as fast as one")


if __name__ == "__main__":
    main()
