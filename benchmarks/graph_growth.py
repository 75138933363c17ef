"""How time and memory of the neighbour graph and the walk tables grow with the number of points.

Every size runs in a process of its own. Two half moons in 2 dimensions take the exact search of the
k-d tree, ten Gaussian groups in 50 dimensions all distances. If growth is n log n, the last column
stays about the same from row to row.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIZES = (1_000, 5_000, 20_000, 50_000, 100_000, 200_000)
KINDS = {"moons": 2, "groups": 50}  # name: dimensions


def forget_peak() -> None:
    """Start the peak anew at what is resident now; only Linux can.

    Elsewhere a compilation before it hides growth that stays below its own peak.
    """
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def peak_resident() -> int:
    """Largest resident memory of this process since the peak was forgotten, in bytes."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def data(kind: str, n: int) -> tuple[Any, int]:
    """Standardised points (n, d), and the number of clusters among them."""
    import numpy as np
    from sklearn.datasets import make_blobs, make_moons

    if kind == "moons":
        x, clusters = make_moons(n, noise=0.05, random_state=0)[0], 2
    else:
        # Groups that just touch, so that the graph is one piece, as most data give.
        x = make_blobs(n, KINDS[kind], centers=10, cluster_std=2.5, random_state=0)[0]
        x[: n // 100] = np.random.default_rng(0).uniform(x.min(0), x.max(0), (n // 100, x.shape[1]))
        clusters = 10
    return (x - x.mean(axis=0)) / x.std(axis=0), clusters


def measure(kind: str, n: int) -> dict[str, float]:
    """One row; to be called in a fresh process."""
    from gedilearn.graph.neighbours import nearest_neighbours
    from gedilearn.graph.walks import walk_tables

    small, clusters = data(kind, 1_000)
    walk_tables(small, clusters)  # the imports of the first call are not counted
    x, clusters = data(kind, n)
    forget_peak()
    before = peak_resident()
    start = time.perf_counter()
    nearest_neighbours(x, 10)
    searched = time.perf_counter() - start
    totals = []
    for _ in range(3 if n <= 5_000 else 1):
        start = time.perf_counter()
        tables = walk_tables(x, clusters)
        totals.append(time.perf_counter() - start)
    return {
        "n": n,
        "search_seconds": searched,
        "seconds": min(totals),
        "bytes_per_point": (peak_resident() - before) / n,
        "table_bytes_per_point": tables.ends.numel() * tables.ends.element_size() / n,
        "levels": tables.ends.shape[0],
    }


def in_fresh_process(kind: str, n: int) -> dict[str, float]:
    # One thread everywhere, and freed memory is given back: what is resident is in use.
    limits = {
        "OMP_NUM_THREADS": "1",
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }
    done = subprocess.run(
        [sys.executable, __file__, "--measure", kind, "--sizes", str(n)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **limits},
    )
    row: dict[str, float] = json.loads(done.stdout)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of points")
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    parser.add_argument("--measure", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.sizes[0])))
        return
    result: dict[str, list[dict[str, float]]] = {}
    for kind, dimensions in KINDS.items():
        if not args.json:
            print(f"{kind}, {dimensions} dimensions")
            print(
                f"{'n':>8}{'search s':>10}{'all s':>9}{'levels':>8}{'tables B/point':>16}"
                f"{'peak B/point':>14}{'s / (n log n)':>15}"
            )
        rows = result[kind] = []
        for n in args.sizes:
            row = in_fresh_process(kind, n)
            rows.append(row)
            per_step = [r["seconds"] / (r["n"] * math.log(r["n"])) for r in (rows[0], row)]
            row["growth"] = per_step[1] / per_step[0]
            if not args.json:
                print(
                    f"{n:>8}{row['search_seconds']:>10.2f}{row['seconds']:>9.2f}"
                    f"{row['levels']:>8}{row['table_bytes_per_point']:>16.0f}"
                    f"{row['bytes_per_point']:>14.0f}{row['growth']:>15.2f}",
                    flush=True,
                )
    if args.json:
        print(json.dumps({"benchmark": "graph_growth", "rows": result}))
    else:
        print("s / (n log n) as a ratio to the first row of the same table")


if __name__ == "__main__":
    main()
