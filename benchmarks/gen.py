"""What GEN costs on the network that clusters, and what it does to it.

    python benchmarks/gen.py            seconds and effects, moons and shapes
    python benchmarks/gen.py --large    also 20,000 embeddings of 384 columns

Each fit is made with and without GEN (`w_gen=0`), one after the other, on the same data and seed.
Ratios are of seconds in the same run. Rank: the directions that the features of the encoder use
(effective rank). Far: the mean confidence, `predict_proba`'s largest, of points at five times the
data's distance from its centre, of the network itself, without the density. Random: AMI on fresh
points from a random start.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.metrics import normalized_mutual_info_score as nmi

from gedilearn import GEDI
from gedilearn.data.toy import circles, moons
from plane_sets import ANISOTROPIC, BLOBS_7, rings, spirals
from scaling import CLUSTERS, NOISE, draw

SETS = {
    "moons": moons,
    "circles": circles,
    "rings": rings,
    "spirals": spirals,
    "anisotropic": ANISOTROPIC.draw,
    "blobs-7": BLOBS_7.draw,
}
SEEDS = (1000, 1001, 1002)
WITHOUT = {"w_gen": 0.0}


def timed(work: Callable[[], GEDI]) -> tuple[GEDI, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


def effects(name: str, seed: int, **changes: Any) -> tuple[float, float, float, float]:
    """Seconds, effective rank, confidence far away, AMI from a random start."""
    seen, fresh = (SETS[name](1_000, random_state=s) for s in (seed, seed + 500))
    x, clusters = seen.x, len(np.unique(seen.y))
    model, seconds = timed(lambda: GEDI(clusters, random_state=seed, **changes).fit(x))
    rank = model.diagnose(x)["effective rank"].value
    far = torch.from_numpy(model.scaling_.apply(x.mean(0) + 5 * (x - x.mean(0))))
    with torch.no_grad():
        logits = model.model_.double()(far.double()[None]).logits[0]
    random = {"settings": {"training.start": "random"}} | changes
    other = GEDI(clusters, random_state=seed, **random).fit(x)
    found = adjusted_mutual_info_score(fresh.y, other.predict(fresh.x))
    return seconds, rank, float(logits.softmax(-1).amax(-1).mean()), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also 20,000 x 384")
    asked = parser.parse_args()
    GEDI(2, random_state=0, max_iter=10).fit(np.random.default_rng(0).normal(size=(200, 2)))
    print("data        GEN      seconds  ratio   rank    far  random start")
    for name in SETS:
        both = [
            np.mean([effects(name, seed, **changes) for seed in SEEDS], axis=0)
            for changes in ({}, WITHOUT)
        ]
        for word, row in zip(("with", "without"), both, strict=True):
            ratio = row[0] / both[1][0]
            print(
                f"{name:<11} {word:<8} {row[0]:7.2f} {ratio:6.1f} {row[1]:6.1f} {row[2]:6.3f} "
                f"{row[3]:8.3f}"
            )
    if asked.large:
        x, y = draw("embeddings", 20_000)
        scored, clusters = y != NOISE, CLUSTERS["embeddings"]
        for word, changes in (("with", {}), ("without", WITHOUT)):
            model, seconds = timed(lambda c=changes: GEDI(clusters, random_state=1000, **c).fit(x))
            found = nmi(y[scored], model.labels_[scored])
            print(f"embeddings  {word:<8} {seconds:7.1f}  NMI {found:.4f}")


if __name__ == "__main__":
    main()
