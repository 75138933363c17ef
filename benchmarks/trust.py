"""Whether trust follows how right clusters are, on sets of every difficulty, drawn at random.

The sets of `shapes.py` are chosen, and half of them are solved in full, so that their
order says little. Here each set is drawn: mixtures of Gaussians or heavier tails, moons, circles,
spirals and tables with discrete and noise columns, of 300 to 1,000 points, from clearly separated
to hopeless. Printed are the rank correlation of trust with AMI over all sets, for each grade the
AMI of its sets, and the accuracy on the most trusted points beside that on all.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import make_circles, make_moons

from gedilearn import GEDI
from gedilearn.evaluation.clustering import classes_of_clusters, clustering_scores

FIRST_SEED = 2_000
MOST_TRUSTED = 0.8
Drawn = tuple[np.ndarray, np.ndarray]
Rng = np.random.Generator


def mixture(n: int, rng: Rng, k: int | None = None, d: int | None = None) -> Drawn:
    """Clusters of random place, shape and share; a third of the sets have heavier tails."""
    k, d = k or int(rng.integers(2, 10)), d or int(rng.integers(2, 9))
    shares = np.maximum(rng.dirichlet(np.full(k, rng.choice([1.0, 5.0, 50.0]))), 0.03)
    y = rng.choice(k, n, p=shares / shares.sum())
    centres = rng.normal(size=(k, d)) * rng.uniform(1, 6) / np.sqrt(d)
    turns = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
    shapes = turns * np.exp(rng.normal(0, 0.5, (k, 1, d)))
    heavy = rng.random() < 1 / 3
    noise = rng.standard_t(4, (n, d)) if heavy else rng.normal(size=(n, d))
    return centres[y] + 0.5 * np.einsum("nij,nj->ni", shapes[y], noise), y


def moons(n: int, rng: Rng) -> Drawn:
    return make_moons(n, noise=rng.uniform(0.03, 0.3), random_state=int(rng.integers(2**31)))


def circles(n: int, rng: Rng) -> Drawn:
    noise, factor = rng.uniform(0.02, 0.2), rng.uniform(0.3, 0.8)
    return make_circles(n, noise=noise, factor=factor, random_state=int(rng.integers(2**31)))


def spirals(n: int, rng: Rng) -> Drawn:
    k, turns = int(rng.integers(2, 4)), rng.uniform(0.5, 1.5)
    y = np.arange(n) % k
    radius = np.sqrt(rng.random(n))
    angle = 2 * np.pi * (turns * radius + y / k)
    x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + rng.uniform(0.005, 0.06) * rng.normal(size=x.shape), y


def table(n: int, rng: Rng) -> Drawn:
    """A mixture with a rounded column, one of two values, and three of noise."""
    x, y = mixture(n, rng, k=int(rng.integers(2, 6)), d=6)
    x[:, 3], x[:, 4] = np.round(x[:, 3]), x[:, 4] > 0
    return np.concatenate([x, rng.normal(size=(n, 3))], 1), y


SOURCES: tuple[Callable[[int, Rng], Drawn], ...] = (
    mixture, mixture, mixture, moons, circles, spirals, table,
)  # fmt: skip


def measured(seed: int) -> dict[str, Any]:
    """One set: what it is, how right its clusters are, and what the fit says of them."""
    rng = np.random.default_rng(seed)
    source = SOURCES[int(rng.integers(len(SOURCES)))]
    x, y = source(int(rng.choice([300, 600, 1_000])), rng)
    k = len(np.unique(y))
    model = GEDI(k, random_state=seed, settings={"weights.gen": 0.0}).fit(x)
    right = classes_of_clusters(y, model.labels_, k)[model.labels_] == y
    order = np.argsort(-model.trust_, kind="stable")
    return {
        "set": source.__name__,
        "seed": seed,
        "ami": clustering_scores(y, model.labels_)["ami"],
        "grade": model.grade_,
        "trust": model.summary()["trust"],
        "accuracy": float(right.mean()),
        "most_trusted": float(right[order[: int(MOST_TRUSTED * len(y))]].mean()),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ami, trust = ([row[name] for row in rows] for name in ("ami", "trust"))
    grades = {
        grade: [row["ami"] for row in rows if row["grade"] == grade]
        for grade in ("certified", "supported", "doubtful", "no structure found")
    }
    errors = [row for row in rows if row["accuracy"] < 1]
    return {
        "sets": len(rows),
        "rank_correlation": float(spearmanr(ami, trust)[0]),
        "grades": {
            grade: {"sets": len(own), "median_ami": statistics.median(own), "least": min(own)}
            for grade, own in grades.items()
            if own
        },
        "sets_with_errors": len(errors),
        "more_accurate_where_trusted": sum(r["most_trusted"] > r["accuracy"] for r in errors),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=90)
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the first set")
    parser.add_argument("--json", action="store_true", help="one line a set, and one of all")
    asked = parser.parse_args()
    found = []
    for each in range(asked.seed, asked.seed + asked.sets):
        found.append(measured(each))
        if asked.json:
            print(json.dumps(found[-1]), flush=True)
    whole = summary(found)
    if asked.json:
        print(json.dumps(whole))
    else:
        print(f"{whole['sets']} sets, seeds from {asked.seed}")
        print(f"rank correlation of trust with AMI: {whole['rank_correlation']:.2f}")
        for grade, own in whole["grades"].items():
            print(
                f"{grade}: {own['sets']} sets, AMI {own['median_ami']:.2f} in the median, "
                f"{own['least']:.2f} at least"
            )
        more, errors = whole["more_accurate_where_trusted"], whole["sets_with_errors"]
        trusted = f"the {MOST_TRUSTED:.0%} most trusted points"
        print(f"more accurate on {trusted}: {more} of {errors} sets with errors")
