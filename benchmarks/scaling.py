"""How processor time and memory of a whole fit grow with the number of points.

    python benchmarks/scaling.py                      the table of docs/scaling.md
    python benchmarks/scaling.py --rows ROWS          and its rows, as JSON lines, in a new file
    python benchmarks/scaling.py --draw ROWS PICTURE  the picture of rows that were kept
    python benchmarks/scaling.py --command            `gedi fit` of 1,000,000 points
    python benchmarks/scaling.py --memory             memory of a process, phase by phase

Every fit runs in a process of its own, on one thread, without the density (w_gen=0), on data that
is mapped from an .npy file. Counted is the processor time of all threads within `fit` and the peak
of the resident memory of the whole process, libraries and mapped pages included. With two ranks,
which torchrun starts, it is that of rank 0; the other one has as much.

With --memory it is the peak of the anonymous memory (RssAnon): what a process holds for itself. It
leaves out pages of mapped files, which ranks share and which go when others need the room. These
fits end after 50 iterations, which memory does not depend on.

    groups      16 columns, 16 Gaussian groups; each has 0.84 times the points of the one before
    embeddings  384 columns on the sphere, 12 unequal groups, 5% of the points noise, not scored
    hundred     2 columns, 100 groups on a grid
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# (set, points, ranks)
CASES = (
    ("groups", 10_000, 1),
    ("groups", 100_000, 1),
    ("groups", 1_000_000, 1),
    ("groups", 100_000, 2),
    ("embeddings", 20_000, 1),
    ("hundred", 100_000, 1),
)
# (points of groups, ranks)
MEMORY = ((1_000_000, 1), (1_000_000, 2), (3_000_000, 1))
CLUSTERS = {"groups": 16, "embeddings": 12, "hundred": 100}
NOISE = -1


def draw(kind: str, n: int) -> tuple[Any, Any]:
    """Points (n, d), float32, and labels (n,), `NOISE` for those that are of no group."""
    import numpy as np

    rng = np.random.default_rng(1)
    k = CLUSTERS[kind]
    if kind == "hundred":
        label = rng.integers(k, size=n)
        grid = np.stack(np.meshgrid(np.arange(10), np.arange(10)), -1).reshape(-1, 2)
        centre = grid + rng.uniform(-0.1, 0.1, grid.shape)
        return (centre[label] + 0.1 * rng.normal(size=(n, 2))).astype(np.float32), label
    if kind == "groups":
        share = 2.0 ** (-np.arange(k) / 4)
        label = rng.choice(k, n, p=share / share.sum())
        x = 3 * rng.normal(size=(k, 16))[label] + rng.normal(size=(n, 16))
        return x.astype(np.float32), label
    share = 2.0 ** (-np.arange(k) / 3)
    label = rng.choice(k, n, p=share / share.sum())
    centre = rng.normal(size=(k, 384))
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    x = centre[label] + rng.normal(size=(n, 384)) * 0.8 / np.sqrt(384)
    noise = rng.random(n) < 0.05
    x[noise] = rng.normal(size=(int(noise.sum()), 384))
    label[noise] = NOISE
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), label


def measure(kind: str, n: int, folder: Path) -> dict[str, Any]:
    """One row; to be called in a fresh process."""
    import numpy as np
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

    from gedilearn import GEDI

    x, label = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    processor, wall = time.process_time(), time.perf_counter()
    model = GEDI(CLUSTERS[kind], w_gen=0, random_state=0, device="cpu").fit(x)
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    scored = label != NOISE
    pair = label[scored], model.labels_[scored]
    return {
        "set": kind,
        "points": n,
        "columns": x.shape[1],
        "ranks": int(os.environ.get("WORLD_SIZE", "1")),
        "processor_seconds": round(processor, 1),
        "wall_seconds": round(wall, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "iterations": model.n_iter_,
        "ami": round(float(adjusted_mutual_info_score(*pair)), 4),
        "nmi": round(float(normalized_mutual_info_score(*pair)), 4),
        "grade": model.grade_,
    }


def memory(n: int, folder: Path) -> dict[str, Any]:
    """The peak of the process's own memory in each phase, in MB; in a fresh process."""
    import numpy as np

    from gedilearn import GEDI
    from gedilearn.progress import Progress

    def own() -> float:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) * 1024 / 1e6

    peaks: dict[str, float] = {}
    phase = "reading"

    class Phases(Progress):
        def phase(self, name: str, at_once: bool = False) -> None:
            nonlocal phase
            phase = name

    def watch() -> None:
        while True:
            peaks[phase] = max(peaks.get(phase, 0.0), own())
            time.sleep(0.005)

    x = np.load(folder / "x.npy", mmap_mode="r")
    before = own()
    threading.Thread(target=watch, daemon=True).start()
    model = GEDI(CLUSTERS["groups"], w_gen=0, random_state=0, device="cpu", max_iter=50)
    model.fit_run(x, None, progress=Phases())
    return {"points": n, "before": before} | peaks


def in_fresh_process(kind: str, n: int, ranks: int, what: str = "--measure") -> dict[str, Any]:
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, array in zip(("x.npy", "y.npy"), draw(kind, n), strict=True):
            np.save(folder / file, array)
        start = [sys.executable]
        if ranks > 1:
            start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command = [*start, __file__, what, kind, str(n), str(folder)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
        row: dict[str, Any] = json.loads((folder / "row.json").read_text())
    return row


def command() -> str:
    """Processor time and memory of the whole command on the largest set of groups."""
    import numpy as np

    n = max(case[1] for case in CASES)
    with tempfile.TemporaryDirectory() as name:
        np.save(Path(name) / "big.npy", draw("groups", n)[0])
        words = "fit big.npy -k 16 --seed 0 --quiet --out run --set weights.gen=0"
        start = [sys.executable, "-m", "gedilearn", *words.split()]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(start, check=True, cwd=name, env=env)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9
    return f"gedi {words}: {n:,} points, {processor:.1f} s of processor, {peak:.2f} GB"


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds and memory over the number of points, both axes logarithmic."""
    from matplotlib.figure import Figure

    own = [row for row in rows if row["set"] == "groups" and row["ranks"] == 1]
    points = [row["points"] for row in own]
    figure = Figure(figsize=(8, 3.4), dpi=130, facecolor="white", layout="constrained")
    names = {"processor_seconds": "seconds of processor", "peak_gb": "peak memory, GB"}
    for axes, (name, words) in zip(figure.subplots(1, 2), names.items(), strict=True):
        values = [row[name] for row in own]
        line = [values[-1] * n / points[-1] for n in points]
        axes.loglog(points, values, "o-", color="#0072B2", label="measured")
        axes.loglog(points, line, ":", color="#8A8A8A", label="in proportion to the points")
        axes.set(xlabel="points (16 columns, 16 groups)", title=words)
        axes.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=Path, help="a new file for the rows")
    parser.add_argument("--draw", type=Path, nargs=2, help="rows that were kept, and the picture")
    parser.add_argument("--command", action="store_true", help="measure `gedi fit` instead")
    parser.add_argument("--memory", action="store_true", help="measure memory instead")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--watch", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure or args.watch:
        kind, n, folder = args.measure or args.watch
        row = measure(kind, int(n), Path(folder)) if args.measure else memory(int(n), Path(folder))
        if os.environ.get("RANK", "0") == "0":
            (Path(folder) / "row.json").write_text(json.dumps(row))
        return
    if args.draw:
        rows = [json.loads(line) for line in args.draw[0].read_text().splitlines()]
        picture(rows, args.draw[1])
        return
    if args.command:
        print(command())
        return
    if args.memory:
        for n, ranks in MEMORY:
            row = in_fresh_process("groups", n, ranks, "--watch")
            words = [f"{name} {value:.0f}" for name, value in row.items() if name != "points"]
            print(f"{n:,} points, {ranks} ranks, MB: {', '.join(words)}", flush=True)
        return
    print("| set | points | columns | ranks | processor s | peak GB | iterations | AMI | grade |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for case in CASES:
        row = in_fresh_process(*case)
        if args.rows:
            with args.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(
            f"| {row['set']} | {row['points']:,} | {row['columns']} | {row['ranks']} "
            f"| {row['processor_seconds']} | {row['peak_gb']} | {row['iterations']} "
            f"| {row['ami']:.3f} | {row['grade']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
