"""Whether the energies of moons and circles fit the data, for the models of `gedi reproduce toy`.

    gedi reproduce toy --preset paper/toy --seeds 5 --first 5000 --out OUT
    python benchmarks/energies.py OUT/paper-toy

Printed are means over the seeds:

- rank correlation (Spearman) of logsumexp f with the true log density, on 1,000 fresh points and on
  1,000 uniform points in a box around the data, a quarter wider on each side
- squared MMD of 500 samples and fresh points, times 1,000, after as many steps as in the pictures;
  `real points` is that of other fresh points, the best possible, and `uniform` that of the box
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from density import JOINTS, squared_mmd, widened_box
from gedilearn import GEDI
from gedilearn.paper.toy import FRESH, LEAST_STEPS, N_POINTS, N_SAMPLES, SETS, steps_for
from gedilearn.training.run import RunDirectory

OTHER = 2 * FRESH  # seeds of points that no model has seen either


def measure(data: str, seed: int, model: GEDI) -> dict[str, float]:
    fresh = SETS[data](N_POINTS, seed + FRESH).x
    other = SETS[data](N_SAMPLES, seed + OTHER).x
    low, high = widened_box(fresh, 1 / 4)
    box = np.random.default_rng(seed).uniform(low, high, fresh.shape)

    def rank(x: np.ndarray) -> float:
        true = np.logaddexp.reduce(JOINTS[data](x), axis=1)
        return float(spearmanr(model.score_samples(x, kind="energy"), true)[0])

    samples = model.sample(N_SAMPLES, steps=max(LEAST_STEPS, steps_for(model)), random_state=seed)
    drawn = {"samples": samples[0], "real points": other, "uniform": box[:N_SAMPLES]}
    found = {f"MMD, {name}": 1_000 * squared_mmd(x, fresh) for name, x in drawn.items()}
    return {"rank, fresh points": rank(fresh), "rank, box": rank(box)} | found


def main() -> None:
    parser = argparse.ArgumentParser(description="Energies of moons and circles against the truth.")
    parser.add_argument("folder", type=Path, metavar="OUT")
    parser.add_argument("--methods", default="gedi,jem", metavar="A,B")
    options = parser.parse_args()
    rows = defaultdict(list)
    for data in SETS:
        for method in options.methods.split(","):
            for folder in sorted((options.folder / "models" / data / method).glob("seed-*")):
                seed = int(folder.name.removeprefix("seed-"))
                model = GEDI.load(RunDirectory(folder).model)
                rows[data, method].append(measure(data, seed, model))
    if not rows:
        parser.error(f"{options.folder}: there are no models, run gedi reproduce toy first")
    columns = list(next(iter(rows.values()))[0])
    table = Table("data", "method", "seeds", *columns)
    for (data, method), own in rows.items():
        means = [f"{np.mean([row[column] for row in own]):.2f}" for column in columns]
        table.add_row(data, method, str(len(own)), *means)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
