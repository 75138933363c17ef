"""What the density costs in passes through its network, and what it gives for them.

For each set, one fit after another: the paper's way (`density.base=none`, chains) with its former
default of 260 iterations, and importance weights on a base with fewer and fewer iterations. Counted
are points that pass the network while the density is learnt, forward: a pass back to the weights
counts two more, one back to the points (a Langevin step) one more. Given for them: the squared MMD
of samples to fresh points and the AUROC of fresh points against uniform ones; seconds are those of
the whole fit.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from density import squared_mmd
from gedilearn import GEDI
from gedilearn.data import toy
from gedilearn.density.importance import PROPOSALS, ROWS
from gedilearn.evaluation.ood import roc

FORWARD, BACK_TO_WEIGHTS, BACK_TO_POINTS = 1, 2, 1
SETS = {"moons": toy.moons, "circles": toy.circles}
CHAINS = {"density.base": "none", "density.iterations": 260}


def passes(model: GEDI) -> int:
    """Points through the network of the density while it is learnt."""
    settings, found = model.settings_, model.density_
    if found is not None:
        members = 3  # one a fold
        each = members * (ROWS + PROPOSALS) * (FORWARD + BACK_TO_WEIGHTS)
        return found.iterations * each
    chains = settings.sampler.chains or settings.optimizer.batch_size
    moved = chains * settings.sampler.steps * (FORWARD + BACK_TO_POINTS)
    trained = (2 * settings.optimizer.batch_size + chains) * (FORWARD + BACK_TO_WEIGHTS)
    return settings.density.iterations * (moved + trained)


def measure(name: str, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    x, fresh = (SETS[name](1_000, random_state=s).x for s in (seed, seed + 1_000))
    begin = time.perf_counter()
    model = GEDI(2, random_state=seed, settings=changes).fit(x)
    seconds = time.perf_counter() - begin
    low, high = x.min(0), x.max(0)
    box = np.random.default_rng(seed).uniform(low, high, (1_000, 2))
    return {
        "data": name,
        "density": "chains" if changes == CHAINS else f"{changes['density.iterations']} iterations",
        "passes": passes(model),
        "mmd": 1_000 * squared_mmd(model.sample(500, random_state=seed)[0], fresh),
        "auroc": roc(model.score_samples(fresh), model.score_samples(box)).auroc,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    args = parser.parse_args()
    ways = [CHAINS, *({"density.iterations": n} for n in (800, 200, 50))]
    rows = [measure(name, args.seed, way) for name in SETS for way in ways]
    if args.json:
        print(json.dumps({"benchmark": "density_cost", "rows": rows}))
        return
    print(
        f"{'data':<8} {'density':<15} {'passes':>10} {'ratio':>6} {'MMD':>7} {'AUROC':>6} {'s':>6}"
    )
    for row in rows:
        ratio = row["passes"] / next(r["passes"] for r in rows if r["data"] == row["data"])
        print(
            f"{row['data']:<8} {row['density']:<15} {row['passes']:>10} {ratio:>6.2f} "
            f"{row['mmd']:>7.2f} {row['auroc']:>6.3f} {row['seconds']:>6.1f}"
        )
    print("MMD: squared, times 1000. ratio: passes to those of chains, the first line of a set")


if __name__ == "__main__":
    main()
