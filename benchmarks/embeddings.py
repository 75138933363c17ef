"""Clusters of embeddings: GEDI compared with k-means, spectral clustering, UMAP, HDBSCAN and EVoC.

    python benchmarks/embeddings.py questions.npz images.npz --seeds 5
    python benchmarks/embeddings.py --noise     grades on data without structure

A file holds vectors `x` (n, d) and classes `y` (n,); without files, embeddings are made up. UMAP,
with HDBSCAN after it, and EVoC are in the extra `yardsticks`. The number of clusters is given, but
to HDBSCAN and EVoC. Printed are means over the seeds:

- AMI of all rows; of rows that a fit to the other half has not seen, and of that half
- clusters left empty
- seconds, as a ratio to UMAP and k-means in the same run, after one fit that warms up
- of GEDI: its stability, the nats by which Gaussians at its clusters are likelier than one, its
  grades; the share of errors among the 20% of rows with the lowest trust (a row is
  right if its cluster is matched to its class); the rank, by AMI, of the member with the smallest
  bound gap among those that vote
- AUROC of rows of known classes against rows of a fifth of the classes, which were held out, by
  log p(x), by the logsumexp of the network and by the distance to the nearest neighbour
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.metrics import adjusted_mutual_info_score as ami
from sklearn.metrics import roc_auc_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from gedilearn import GEDI
from gedilearn.models.energy import log_density, logits_of
from gedilearn.training import loop

Row = dict[str, float]
Array = Any


def made_up(seed: int) -> tuple[Array, Array]:
    """Vectors around 40 directions, which overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(40, size=4000)
    centres = normalize(rng.normal(size=(40, 256)))
    common = rng.normal(size=(4000, 24)) @ normalize(rng.normal(size=(24, 256))) / 24**0.5
    return (centres[y] + 1.1 * common + rng.normal(size=(4000, 256)) / 256**0.5), y


def umap(x: Array, seed: int, fresh: Array | None = None) -> tuple[Array, ...]:
    from umap import UMAP

    options: dict[str, Any] = {"n_neighbors": 15, "n_components": 10, "min_dist": 0.0}
    found = UMAP(**options, metric="cosine", random_state=seed).fit(x)
    return (found.embedding_,) if fresh is None else (found.embedding_, found.transform(fresh))


def k_means(x: Array, k: int, seed: int, fresh: Array | None) -> tuple[Array, Array | None]:
    found = KMeans(k, n_init=10, random_state=seed).fit(x)
    return found.labels_, None if fresh is None else found.predict(fresh)


def umap_k_means(x: Array, k: int, seed: int, fresh: Array | None) -> tuple[Array, Array | None]:
    maps = umap(x, seed, fresh)
    return k_means(maps[0], k, seed, None if fresh is None else maps[1])


def umap_hdbscan(x: Array, k: int, seed: int, fresh: Array | None) -> tuple[Array, Array | None]:
    return HDBSCAN(min_cluster_size=max(len(x) // (5 * k), 5)).fit_predict(umap(x, seed)[0]), None


def spectral(x: Array, k: int, seed: int, fresh: Array | None) -> tuple[Array, Array | None]:
    graph = SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=15, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the graph may have several parts
        return graph.fit_predict(normalize(x)), None


def evoc(x: Array, k: int, seed: int, fresh: Array | None) -> tuple[Array, Array | None]:
    from evoc import EVoC

    return EVoC(random_state=seed).fit_predict(x.astype(np.float32)), None


FIT = Callable[[Array, int, int, Array | None], tuple[Array, Array | None]]
METHODS: dict[str, FIT] = {
    "k-means": k_means,
    "spectral": spectral,
    "UMAP + k-means": umap_k_means,
    "UMAP + HDBSCAN": umap_hdbscan,
    "EVoC": evoc,
}
YARDSTICK = "UMAP + k-means"


def ours(x: Array, y: Array, k: int, seed: int) -> Row:
    """AMI, empty clusters, grade, errors among rows of low trust, rank of the smallest gap."""
    ranks: list[float] = []
    vote = loop.vote

    def noted(setup: Any, state: Any) -> torch.Tensor:
        found = vote(setup, state)
        gaps = loop.look(setup, state, progress=1.0).gap
        scores = np.array([ami(y, own) for own in found[:, 1:].T.numpy()])
        ranks.append(float(1 + (scores > scores[int(gaps.argmin())]).sum()))
        return found

    model = GEDI(k, random_state=seed, w_gen=0.0)
    began = time.perf_counter()
    model.fit(x)
    seconds, labels = time.perf_counter() - began, model.labels_
    loop.vote = noted
    try:
        GEDI(k, random_state=seed, w_gen=0.0).fit(x)
    finally:
        loop.vote = vote
    counts = contingency_matrix(y, labels)
    matched = dict(zip(*reversed(linear_sum_assignment(-counts)), strict=True))
    place = np.searchsorted(np.unique(labels), labels)
    wrong = np.array([matched.get(own, -1) for own in place]) != np.searchsorted(np.unique(y), y)
    least = np.argsort(model.trust_)[: len(y) // 5]
    return {
        "AMI": float(ami(y, labels)),
        "empty": k - len(np.unique(labels)),
        "seconds": seconds,
        "stability": agreement(model)[0],
        "gain": agreement(model)[1],
        "doubtful or better": float(model.grade_ != "no structure found"),
        "errors at low trust": wrong[least].sum() / max(wrong.sum(), 1),
        "rank of smallest gap": float(np.mean(ranks)),
    }


def held_out_classes(x: Array, y: Array, k: int, seed: int) -> Row:
    """How well scores tell new rows of known classes from rows of other classes."""
    rng = np.random.default_rng(seed)
    other = np.isin(y, rng.permutation(np.unique(y))[: max(k // 5, 1)])
    known = rng.permutation(np.flatnonzero(~other))
    train, fresh = x[known[::2]], np.concatenate([x[known[1::2]], x[other]])
    truth = np.arange(len(fresh)) < len(known[1::2])
    model = GEDI(len(np.unique(y[~other])), random_state=seed).fit(train)
    z = torch.from_numpy(model.scaling_.apply(fresh))
    near = NearestNeighbors(n_neighbors=1).fit(normalize(train)).kneighbors(normalize(fresh))[0]
    scores = {
        "log p(x)": model.score_samples(fresh),
        "logsumexp": log_density(logits_of(model.result_.model, z)).numpy(),
        "nearest": -near[:, 0],
    }
    return {f"AUROC, {name}": float(roc_auc_score(truth, own)) for name, own in scores.items()}


def without_structure(seeds: range) -> Table:
    """Grades and stability on Gaussian data: the deviation of direction j is j to a power."""
    table = Table(
        "power", "rows", "clusters", "stability, most", "gain, most", "no structure found"
    )
    for power, n, k in itertools.product((0.2, 0.5, 1.0, 1.5), (1_000, 5_000), (5, 20, 77)):
        found = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            turned = np.linalg.qr(rng.normal(size=(384, 384)))[0]
            x = rng.normal(size=(n, 384)) * np.arange(1, 385) ** -power @ turned
            settings = {"metric": "cosine"}
            found.append(GEDI(k, random_state=seed, w_gen=0.0, settings=settings).fit(x))
        none = sum(model.grade_ == "no structure found" for model in found)
        most = [max(each) for each in zip(*map(agreement, found), strict=True)]
        table.add_row(
            f"-{power}", f"{n:,}", str(k), *map("{:.2f}".format, most), f"{none}/{len(found)}"
        )
    return table


def agreement(model: GEDI) -> tuple[float, float]:
    """The stability, and the gain of Gaussians at the clusters."""
    evidence = model.result_.diagnosis.evidence
    return evidence.stability, evidence.gain


def compare(x: Array, y: Array, seeds: range, methods: list[str]) -> dict[str, list[Row]]:
    k, rows = len(np.unique(y)), defaultdict[str, list[Row]](list)
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(x))
        half, other = order[::2], order[1::2]
        for name in methods:
            began = time.perf_counter()
            labels = METHODS[name](x, k, seed, None)[0]
            row = {"AMI": float(ami(y, labels)), "seconds": time.perf_counter() - began}
            fitted, fresh = METHODS[name](x[half], k, seed, x[other])
            if fresh is not None:
                row |= {"half": float(ami(y[half], fitted)), "new": float(ami(y[other], fresh))}
            rows[name].append(row)
        model = GEDI(k, random_state=seed, w_gen=0.0).fit(x[half])
        both = {"half": model.labels_, "new": model.predict(x[other])}
        new = {part: ami(y[own], both[part]) for part, own in (("half", half), ("new", other))}
        rows["GEDI"].append(ours(x, y, k, seed) | new | held_out_classes(x, y, k, seed))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Clusters of embeddings, compared.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.npz")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed")
    parser.add_argument("--methods", default=",".join(METHODS), metavar="A,B")
    parser.add_argument("--noise", action="store_true", help="data without structure instead")
    options = parser.parse_args()
    if options.noise:
        seeds = range(options.first, options.first + options.seeds)
        Console().print(without_structure(seeds))
        return
    methods = [name for name in options.methods.split(",") if name]
    seeds = range(options.first, options.first + options.seeds)
    sets = {path.stem: np.load(path, allow_pickle=False) for path in options.files}
    data = {name: (held["x"].astype(np.float32), held["y"]) for name, held in sets.items()}
    warm = made_up(0)[0].astype(np.float32)
    for name in methods:
        METHODS[name](warm, 40, 0, None)
    GEDI(40, random_state=0, w_gen=0.0).fit(warm)
    for name, (x, y) in (data or {"made up": made_up(1)}).items():
        rows = compare(x, y, seeds, methods)
        table = Table(title=f"{name}: {x.shape[0]:,} x {x.shape[1]}, {len(np.unique(y))} classes")
        base = rows[YARDSTICK if YARDSTICK in rows else "GEDI"]
        columns = list(dict.fromkeys(column for own in rows.values() for column in own[0]))
        for column in ("", *columns):
            table.add_column(column)
        for method, own in rows.items():
            cells = []
            for column in columns:
                values = np.array([row.get(column, np.nan) for row in own])
                if column == "seconds":
                    values = values / np.mean([row["seconds"] for row in base])
                cells.append("" if np.isnan(values).any() else f"{values.mean():.3f}")
            table.add_row(method, *cells)
        Console(width=200).print(table)


if __name__ == "__main__":
    main()
