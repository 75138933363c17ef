"""Processor seconds of `gedi fit FILE` for small tables, divided by those of a plain reference.

The reference imports torch and scikit-learn, and fits scikit-learn's SpectralClustering and
Gaussian mixtures of 1 to 10 components to the same numbers, with one thread. Goals: a fit with the
default number of threads takes at most 2.5 times as long, and 1.15 times as long as with one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

REFERENCE = """
import sys
import numpy as np
import torch
from sklearn.cluster import SpectralClustering
from sklearn.mixture import GaussianMixture
x = np.loadtxt(sys.argv[1], delimiter=",")
SpectralClustering(3, affinity="nearest_neighbors", random_state=0).fit(x)
for n in range(1, 11):
    GaussianMixture(n, reg_covar=1e-3, random_state=0).fit(x)
"""


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """Rows in 3 groups: 5 columns of numbers and 2 categories."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    means = 2.5 * rng.normal(size=(3, 5))
    numbers = means[group] + rng.normal(size=(n, 5)) @ rng.normal(size=(5, 5)) / 2
    columns = {f"x{k}": column.round(2) for k, column in enumerate(numbers.T)}
    mostly = np.where(rng.random(n) < 0.8, group, rng.integers(0, 3, n))
    columns["colour"] = np.array(["red", "green", "blue"])[mostly]
    columns["size"] = np.array(["small", "large"])[rng.integers(0, 2, n)]
    return pd.DataFrame(columns)


def numbers(rows: pd.DataFrame) -> np.ndarray:
    """The same rows as standardised numbers, a column for each level of a category."""
    x = pd.get_dummies(rows).to_numpy(float)
    return (x - x.mean(0)) / x.std(0)


def processor_seconds(command: list[str], folder: Path, threads: int | None) -> float:
    """User and system seconds of one fresh process."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(n: int, repeats: int, folder: Path) -> dict[str, float]:
    """Medians over fresh processes, which take turns."""
    rows = table(n)
    file, plain = folder / f"table-{n}.csv", folder / f"numbers-{n}.csv"
    rows.to_csv(file, index=False)
    np.savetxt(plain, numbers(rows), delimiter=",")
    fit = [sys.executable, "-m", "gedilearn", "fit", str(file)]
    reference = [sys.executable, "-c", REFERENCE, str(plain)]
    turns = {"fit": (fit, None), "fit, 1 thread": (fit, 1), "reference": (reference, 1)}
    taken: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(repeats):
        for name, (command, threads) in turns.items():
            taken[name].append(processor_seconds(command, folder, threads))
    found = {name: statistics.median(values) for name, values in taken.items()}
    found["fit / reference"] = found["fit"] / found["reference"]
    found["default / 1 thread"] = found["fit"] / found["fit, 1 thread"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {n: measure(n, args.repeats, Path(folder)) for n in args.rows}
    if args.json:
        print(json.dumps({"benchmark": "small_fit", "rows": found}))
        return
    names = list(found[args.rows[0]])
    print(f"Median processor seconds of {args.repeats} fresh processes")
    print("  rows" + "".join(f"{name:>20}" for name in names))
    for n, row in found.items():
        print(f"{n:>6}" + "".join(f"{row[name]:>20.2f}" for name in names))
    print("goals: fit / reference at most 2.5, default / 1 thread at most 1.15")


if __name__ == "__main__":
    main()
