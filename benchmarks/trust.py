"""Whether the verdict holds: on clear clusters, on data without any, on sets of every difficulty.

    python benchmarks/trust.py nulls --seeds 20
    python benchmarks/trust.py clear --seeds 20
    python benchmarks/trust.py random --seeds 90

Every set is drawn from its seed, and so are its size and its number of clusters. All are fitted
without the density. Seeds from 1000 on are for reports: no number of the rule was chosen on them.

nulls: curves, sheets and clouds without clusters; none should be certified, few supported.
clear: clusters that are far apart, of unequal sizes, many, or in many columns. Where the fit finds
    them (AMI of at least 0.9), few should be called structureless.
separated: shapes that should be certified.
untrained: networks that were stopped at once or collapsed; none should be supported.
random: from clearly separated to hopeless: does trust follow how right the clusters are?
overlap: mixtures that overlap: are rows as often right as their trust says?
choose: the number of clusters of sets without any, and of random ones, by `GEDI("auto")` and two
    others.
auto: the same on the sets of `shapes.py`.
seconds: what the choice of the number costs, on moons.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons, make_s_curve, make_swiss_roll
from sklearn.metrics import silhouette_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from gedilearn import GEDI
from gedilearn.evaluation.clustering import clustering_scores
from gedilearn.starts.choose import best_assignment
from shape_sets import SHAPES

FIRST_SEED = 1_000
MOST_TRUSTED = 0.8
FOUND = 0.9  # the AMI from which on a fit has found clear clusters
BINS = 10
Rng = np.random.Generator
Drawn = tuple[np.ndarray, np.ndarray]
Row = dict[str, Any]

# --- without clusters: (n, rng) -> (n, d) ---------------------------------------------------------


def crescent(n: int, rng: Rng) -> np.ndarray:
    angle = rng.uniform(0, np.pi, n)
    x = np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + rng.uniform(0.03, 0.2) * rng.normal(size=x.shape)


def s_curve(n: int, rng: Rng) -> np.ndarray:
    return make_s_curve(n, noise=rng.uniform(0, 0.2), random_state=int(rng.integers(2**31)))[0]


def ring(n: int, rng: Rng) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, n)
    x = np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + rng.uniform(0.02, 0.2) * rng.normal(size=x.shape)


def swiss_roll(n: int, rng: Rng) -> np.ndarray:
    return make_swiss_roll(n, noise=rng.uniform(0, 1), random_state=int(rng.integers(2**31)))[0]


def random_walk(n: int, rng: Rng) -> np.ndarray:
    return rng.normal(size=(n, int(rng.integers(2, 6)))).cumsum(0)


def ball(n: int, rng: Rng) -> np.ndarray:
    """Evenly in a ball, or on its surface, of 2 to 50 columns."""
    d = int(rng.choice([2, 3, 5, 10, 20, 50]))
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x * rng.random((n, 1)) ** (1 / d) if d < 3 or rng.random() < 0.7 else x


def cube(n: int, rng: Rng) -> np.ndarray:
    return rng.random((n, int(rng.integers(1, 11))))


def skewed(n: int, rng: Rng) -> np.ndarray:
    """Exponential, lognormal or gamma columns."""
    shape = (n, int(rng.integers(1, 11)))
    kind = rng.integers(3)
    if kind == 0:
        return rng.exponential(size=shape)
    return rng.lognormal(0, 1, shape) if kind == 1 else rng.gamma(2.0, size=shape)


def elongated(n: int, rng: Rng) -> np.ndarray:
    d = int(rng.integers(2, 11))
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * np.exp(rng.normal(0, 1.5, d)) @ turn


def correlated(n: int, rng: Rng) -> np.ndarray:
    d = int(rng.integers(2, 21))
    return rng.normal(size=(n, 1)) + rng.uniform(0.1, 1) * rng.normal(size=(n, d))


def heavy(n: int, rng: Rng) -> np.ndarray:
    return rng.standard_t(3, (n, int(rng.integers(1, 11))))


def lattice(n: int, rng: Rng) -> np.ndarray:
    side = round(n**0.5)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    return grid + rng.uniform(0, 0.3) * rng.normal(size=grid.shape)


def discrete(n: int, rng: Rng) -> np.ndarray:
    """Dice, counts, coins, rounded values, or categories."""
    d, kind = int(rng.integers(2, 9)), rng.integers(5)
    if kind == 0:
        return rng.integers(1, 7, (n, d)).astype(float)
    if kind == 1:
        return rng.poisson(rng.uniform(1, 6), (n, d)).astype(float)
    if kind == 2:
        return rng.integers(0, 2, (n, d + 3)).astype(float)
    if kind == 3:
        return np.round(rng.normal(size=(n, d)))
    return np.concatenate([np.eye(c)[rng.integers(0, c, n)] for c in (2, 3, 4)], 1)


def arc(n: int, rng: Rng) -> np.ndarray:
    """A single spiral, a helix or a wave."""
    t, kind = rng.random(n), rng.integers(3)
    if kind == 0:
        angle = 2 * np.pi * rng.uniform(0.7, 2) * np.sqrt(t)
        x = np.sqrt(t)[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    elif kind == 1:
        x = np.stack([np.cos(9 * t), np.sin(9 * t), 2 * t], 1)
    else:
        x = np.stack([4 * t, np.sin(2 * np.pi * rng.uniform(0.5, 2) * t)], 1)
    return x + rng.uniform(0.01, 0.1) * rng.normal(size=x.shape)


def wide(n: int, rng: Rng) -> np.ndarray:
    """Some directions of many columns vary most, as in embeddings without groups."""
    d, rank = int(rng.integers(50, 400)), int(rng.integers(3, 30))
    x = rng.normal(size=(n, rank)) * np.exp(-np.arange(rank) / rank * rng.uniform(0, 3))
    return x @ rng.normal(size=(rank, d)) + rng.uniform(0.3, 2) * rng.normal(size=(n, d))


NULLS: tuple[Callable[[int, Rng], np.ndarray], ...] = (
    crescent, s_curve, ring, swiss_roll, random_walk, ball, cube, skewed, elongated, correlated,
    heavy, lattice, discrete, arc, wide,
)  # fmt: skip

# --- clear clusters: rng -> points, labels ------------------------------------------------------


def apart(rng: Rng, k: int, d: int, least: float) -> np.ndarray:
    """k centres in d columns, no two of them closer than `least` deviations."""
    side = least
    while True:
        centres: list[np.ndarray] = []
        for one in rng.uniform(0, side, (20 * k, d)):
            if all(np.linalg.norm(one - other) >= least for other in centres):
                centres.append(one)
        if len(centres) >= k:
            return np.array(centres[:k])
        side *= 1.2


def unequal(rng: Rng) -> Drawn:
    """Sizes up to 1:50."""
    k, d = int(rng.integers(2, 6)), int(rng.integers(2, 11))
    sizes = np.exp(np.linspace(np.log(20), np.log(1_000), k)).astype(int)
    y = np.repeat(np.arange(k), sizes)
    return apart(rng, k, d, rng.uniform(8, 12))[y] + rng.normal(size=(len(y), d)), y


def many(rng: Rng) -> Drawn:
    """30 to 100 clusters in 2 to 5 columns."""
    k, d = int(rng.integers(30, 101)), int(rng.integers(2, 6))
    y = np.arange(k * int(rng.integers(20, 41))) % k
    return apart(rng, k, d, rng.uniform(6, 9))[y] + rng.normal(size=(len(y), d)), y


def embeddings(rng: Rng) -> Drawn:
    """100 to 800 columns, in which clusters differ in few directions; one may be of 1%."""
    k, d, n = int(rng.integers(3, 16)), int(rng.integers(100, 801)), int(rng.integers(1_000, 3_001))
    shares = rng.dirichlet(np.full(k, 3.0))
    shares[0] = rng.choice([0.01, shares[0]])
    shares = np.maximum(shares, 0.01) / np.maximum(shares, 0.01).sum()
    y = rng.choice(k, n, p=shares)
    x = (rng.normal(size=(k, d)) * rng.uniform(0.6, 1.2))[y] + rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), y


def few_columns(rng: Rng) -> Drawn:
    """120 rows of 3,000 columns, of which 100 tell three clusters apart."""
    y = np.arange(120) % 3
    x = rng.normal(size=(120, 3_000))
    x[:, :100] += (rng.normal(size=(3, 100)) * rng.uniform(1.5, 2.5))[y]
    return x, y


def noisy(rng: Rng) -> Drawn:
    """5 to 15% of the points are anywhere; they count for the clusters of the nearest centres."""
    k, d, n = int(rng.integers(3, 9)), int(rng.integers(2, 6)), int(rng.integers(500, 2_001))
    centres, y = apart(rng, k, d, rng.uniform(7, 10)), rng.integers(0, k, n)
    x = centres[y] + rng.normal(size=(n, d))
    anywhere = rng.random(n) < rng.uniform(0.05, 0.15)
    low, high = x.min(0), x.max(0)
    x[anywhere] = rng.uniform(low, high, (int(anywhere.sum()), d))
    distance = ((x[anywhere, None] - centres) ** 2).sum(-1)
    y[anywhere] = distance.argmin(1)
    return x, y


CLEAR: tuple[Callable[[Rng], Drawn], ...] = (unequal, many, embeddings, few_columns, noisy)

# --- shapes that are certified --------------------------------------------------------------------


def two_moons(rng: Rng) -> Drawn:
    return make_moons(1_000, noise=0.05, random_state=int(rng.integers(2**31)))


def two_circles(rng: Rng) -> Drawn:
    return make_circles(1_000, noise=0.05, factor=0.5, random_state=int(rng.integers(2**31)))


def rings(rng: Rng) -> Drawn:
    y = np.arange(1_000) % 3
    angle = rng.uniform(0, 2 * np.pi, len(y))
    x = (1 + 2 * y)[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + 0.1 * rng.normal(size=x.shape), y


def two_spirals(rng: Rng) -> Drawn:
    y, t = np.arange(1_000) % 2, rng.uniform(0.2, 1, 1_000)
    angle = 3 * np.pi * t + np.pi * y
    x = t[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + 0.01 * rng.normal(size=x.shape), y


def blobs(rng: Rng) -> Drawn:
    y = rng.integers(0, 4, 1_000)
    return apart(rng, 4, 2, 12)[y] + rng.normal(size=(1_000, 2)), y


SEPARATED: tuple[Callable[[Rng], Drawn], ...] = (two_moons, two_circles, rings, two_spirals, blobs)

# --- of every difficulty: (n, rng) -> points, labels ----------------------------------------------


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


def overlap(n: int, rng: Rng) -> Drawn:
    """Gaussians of one size that overlap; right is what has the highest true posterior."""
    k, d = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    centres, y = apart(rng, k, d, rng.uniform(2.5, 5)), rng.integers(0, k, n)
    return centres[y] + rng.normal(size=(n, d)), y


# --- fits -----------------------------------------------------------------------------------------

Named = tuple[str, np.ndarray, np.ndarray | None, int]  # kind, points, labels, number of clusters


def null_sets(seed: int) -> Iterator[Named]:
    """200 to 2,000 points, 2 to 10 clusters asked for."""
    for kind, draw in enumerate(NULLS):
        rng = np.random.default_rng((seed, kind))
        n, k = int(rng.integers(200, 2_001)), int(rng.integers(2, 11))
        yield draw.__name__, draw(n, rng), None, k


def labelled(draws: tuple[Callable[[Rng], Drawn], ...], seed: int) -> Iterator[Named]:
    for kind, draw in enumerate(draws):
        x, y = draw(np.random.default_rng((seed, kind)))
        yield draw.__name__, x, y, len(np.unique(y))


def random_sets(seed: int) -> Iterator[Named]:
    rng = np.random.default_rng(seed)
    source = SOURCES[int(rng.integers(len(SOURCES)))]
    x, y = source(int(rng.choice([300, 600, 1_000])), rng)
    yield source.__name__, x, y, len(np.unique(y))


def overlap_sets(seed: int) -> Iterator[Named]:
    rng = np.random.default_rng((seed, 77))
    x, y = overlap(int(rng.choice([300, 1_000])), rng)
    yield "overlap", x, y, len(np.unique(y))


FAMILIES: dict[str, Callable[[int], Iterator[Named]]] = {
    "nulls": null_sets,
    "clear": partial(labelled, CLEAR),
    "separated": partial(labelled, SEPARATED),
    "untrained": partial(labelled, SEPARATED),
    "random": random_sets,
    "overlap": overlap_sets,
}
# Networks that are not trained: stopped at once, or without PRIOR and the start. Most of the latter
# collapse, and those that find the clusters all the same are left out.
SPOILT: dict[str, dict[str, Any]] = {
    "stopped at once": {"max_iter": 1},
    "after three iterations": {"max_iter": 3},
    "without PRIOR": {"w_prior": 0.0, "settings": {"weights.start": 0.0}},
}


def measured(seed: int, kind: str, x: np.ndarray, y: np.ndarray | None, k: int, **how: Any) -> Row:
    """One fit: how right its clusters are, and what it says of them."""
    model = GEDI(k, random_state=seed, w_gen=0.0, **how).fit(x)
    row = {"kind": kind, "seed": seed, "n": len(x), "d": x.shape[1], "k": k}
    row |= {name: model.summary()[name] for name in ("grade", "stability", "trust", "bound_gap")}
    if y is None:
        return row
    y = np.unique(y, return_inverse=True)[1]
    right = best_assignment(model.labels_, y, k)[model.labels_] == y
    row |= {"ami": clustering_scores(y, model.labels_)["ami"], "accuracy": float(right.mean())}
    if model.trust_ is not None:
        order = np.argsort(-model.trust_, kind="stable")
        row["most_trusted"] = float(right[order[: int(MOST_TRUSTED * len(y))]].mean())
        # Of rows in bins of trust: how many, the sum of their trust, how many are right.
        place = np.minimum((BINS * model.trust_).astype(int), BINS - 1)
        each = (None, model.trust_, right)
        row["bins"] = [np.bincount(place, weights, BINS).tolist() for weights in each]
    return row


def rows_of(family: str, seed: int) -> Iterator[Row]:
    if family in NUMBERS:
        yield from NUMBERS[family](seed)
        return
    for kind, x, y, k in FAMILIES[family](seed):
        if family != "untrained":
            yield measured(seed, kind, x, y, k)
            continue
        for name, how in SPOILT.items():
            row = measured(seed, f"{kind}, {name}", x, y, k, **how)
            if "max_iter" in how or row["ami"] < FOUND:
                yield row


MOST_CLUSTERS = 8


def by_silhouette(x: np.ndarray, seed: int) -> int:
    labels = [KMeans(k, n_init=10, random_state=seed).fit_predict(x) for k in NUMBERS_TRIED]
    return NUMBERS_TRIED[int(np.argmax([silhouette_score(x, own) for own in labels]))]


def by_bic(x: np.ndarray, seed: int) -> int:
    fits = [GaussianMixture(k, n_init=3, random_state=seed).fit(x) for k in NUMBERS_TRIED]
    return NUMBERS_TRIED[int(np.argmin([mixture.bic(x) for mixture in fits]))]


NUMBERS_TRIED = range(2, 11)
RIVALS = {"k-means, silhouette": by_silhouette, "Gaussian mixture, BIC": by_bic}


def numbered(seed: int, kind: str, x: np.ndarray, k: int, is_null: bool) -> Row:
    """The number of clusters of a set by `GEDI("auto")` and, on standardised columns, by others."""
    model = GEDI("auto", random_state=seed, w_gen=0.0).fit(x)
    scaled = StandardScaler().fit_transform(x)
    row = {"kind": kind, "seed": seed, "null": is_null, "k": k, "GEDI": model.n_clusters_}
    row["sure"] = model.grade_ in ("certified", "supported")
    return row | {name: rival(scaled, seed) for name, rival in RIVALS.items()}


def numbers_of_random(seed: int) -> Iterator[Row]:
    """For one set without clusters, and for one with some."""
    for kind, x, y, k in (list(null_sets(seed))[seed % len(NULLS)], *random_sets(seed)):
        yield numbered(seed, kind, x[:1_000], k, y is None)


def numbers_of_shapes(seed: int) -> Iterator[Row]:
    """For the sets of `shapes.py`."""
    for name, shape in SHAPES.items():
        if shape.n_clusters <= MOST_CLUSTERS:
            x = shape.draw(1_000, seed).x
            yield numbered(seed, name, x, shape.n_clusters, shape.structureless)


NUMBERS = {"choose": numbers_of_random, "auto": numbers_of_shapes}


def seconds(repeats: int = 5) -> None:
    """Processor seconds of fits of 1,000 points with the number given and chosen, in turns."""
    x, _ = make_moons(1_000, noise=0.05, random_state=0)
    GEDI("auto", random_state=0, max_iter=5).fit(x)
    print("| w_gen | number given | chosen | ratio |\n| --- | --- | --- | --- |")
    for gen in (None, 0.0):
        taken: dict[int | str, list[float]] = {2: [], "auto": []}
        for repeat, k in itertools.product(range(repeats), taken):
            started = time.process_time()
            GEDI(k, random_state=repeat, w_gen=gen).fit(x)
            taken[k].append(time.process_time() - started)
        given, auto = (float(np.median(own)) for own in taken.values())
        words = "default" if gen is None else "0"
        print(f"| {words} | {given:.2f} | {auto:.2f} | {auto / given:.1f} |")


def table_of_choices(rows: list[Row]) -> None:
    nulls = [row for row in rows if row["null"]]
    others = [row for row in rows if not row["null"] and row["k"] <= MOST_CLUSTERS]
    print(f"{len(nulls)} sets without clusters, {len(others)} with clusters")
    print("| by | a number without clusters | right | wrong | without a number |")
    print("| --- | --- | --- | --- | --- |")
    for name in ("GEDI", *RIVALS):
        sure = [row["sure"] or name != "GEDI" for row in others]
        right = sum(row[name] == row["k"] and said for row, said in zip(others, sure, strict=True))
        false = sum(row["sure"] or name != "GEDI" for row in nulls)
        print(f"| {name} | {false} | {right} | {sum(sure) - right} | {len(others) - sum(sure)} |")
    right = sum(row["GEDI"] == row["k"] for row in others)
    print(f"GEDI, the least bad numbers counted too: {right} right")


# --- tables ---------------------------------------------------------------------------------------

GRADES = ("certified", "supported", "doubtful", "no structure found")


def table_of_grades(rows: list[Row], least: float = -1.0) -> None:
    """For each kind, how many fits have each grade: of those with an AMI of at least `least`."""
    known = [row for row in rows if row.get("ami", 1.0) >= least]
    print(f"| kind | fits | {' | '.join(GRADES)} |\n| --- {'| --- ' * (len(GRADES) + 1)}|")
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    for kind in [*kinds, None]:
        own = Counter(row["grade"] for row in known if kind in (None, row["kind"]))
        counts = " | ".join(str(own[grade]) for grade in GRADES)
        print(f"| {kind or 'all'} | {own.total()} | {counts} |")
    if len(known) < len(rows):
        print(f"{len(rows) - len(known)} fits with an AMI below {least} are left out")


def calibration(rows: list[Row]) -> float:
    """The mean distance of trust and the share of right rows, over bins of trust (ECE)."""
    count, trust, right = np.sum([row["bins"] for row in rows if "bins" in row], axis=0)
    return float(np.abs(trust - right).sum() / count.sum())


def follows(rows: list[Row]) -> None:
    """How trust follows what is right."""
    ami, trust = ([row[name] for row in rows] for name in ("ami", "trust"))
    print(f"{len(rows)} sets; rank correlation of trust with AMI: {spearmanr(ami, trust)[0]:.3f}")
    for grade in GRADES:
        own = [row["ami"] for row in rows if row["grade"] == grade]
        if own:
            middle = f"AMI {np.median(own):.2f} in the median, {min(own):.2f} at least"
            print(f"{grade}: {len(own)} sets, {middle}")
    shapes = [row for row in rows if row["kind"] in ("moons", "circles", "spirals")]
    print(f"rows, ECE of trust: {calibration(rows):.3f}", end="")
    print(f"; of moons, circles and spirals {calibration(shapes):.3f}" if shapes else "")
    errors = [row for row in rows if row["accuracy"] < 1]
    more = sum(row["most_trusted"] > row["accuracy"] for row in errors)
    print(
        f"more accurate on the {MOST_TRUSTED:.0%} most trusted rows: {more} of {len(errors)} sets"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "family", choices=[*FAMILIES, *NUMBERS, "seconds"], nargs="?", default="random"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--json", action="store_true", help="one line a fit, while they are made")
    asked = parser.parse_args()
    if asked.family == "seconds":
        seconds()
        sys.exit()
    found = []
    for seed in range(asked.first, asked.first + asked.seeds):
        for row in rows_of(asked.family, seed):
            found.append(row)
            if asked.json:
                print(json.dumps(row), flush=True)
    print(f"{asked.family}, seeds {asked.first} to {asked.first + asked.seeds - 1}")
    if asked.family in NUMBERS:
        table_of_choices(found)
    elif asked.family in ("random", "overlap"):
        follows(found)
    else:
        table_of_grades(found, FOUND if asked.family == "clear" else -1.0)
