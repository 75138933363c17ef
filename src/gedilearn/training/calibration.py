"""Probabilities that mean what they say: how sure to be of a cluster, measured under walks.

Trained to be the same under views, predictions are more confident than where clusters overlap they
should be. One number mends that, a temperature that divides the logits: it makes the prediction at
x fit the clusters in which walks from x end. Walks that go about as far as points of one cluster
differ from each other were right: shorter ones leave predictions too sure, longer ones make them
too careful. No label enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from gedilearn.data.views import WalkViews
from gedilearn.data.walks import draw
from gedilearn.methods.terms import start

# How far walks go, in units of the spread within clusters (root mean squares). Chosen on mixtures
# of Gaussians of 300 to 3,000 points in 2 to 10 columns (docs/how-it-trains.md).
DISTANCE = 0.6
HOTTEST = 100.0
MOST_POINTS = 4_000
REPEATS = 4
ROWS = 65_536  # looked at at once: data may be larger than memory


@torch.no_grad()
def temperature(
    logits: Callable[[Tensor], Tensor],
    labels: Tensor,
    data: Tensor,
    views: WalkViews,
    generator: Generator,
) -> float:
    """What divides a network's logits on its data (n, d); at least 1.

    logits: of the points with these numbers, (k,) -> (k, clusters); labels: of all points, (n,).
    """
    index = torch.randperm(len(data), generator=generator, device=data.device)[:MOST_POINTS]
    own = logits(index).repeat(REPEATS, 1)
    index = index.repeat(REPEATS)
    spread = _within(data, labels)
    ends, away = [], []
    for level in range(views.tables.ends.shape[0]):
        ends.append(draw(views.tables, index, 1 << level, generator))
        away.append(float((data[ends[-1]] - data[index]).square().sum(1).mean().sqrt()))
        if away[-1] > 2 * DISTANCE * spread:
            break
    nearest = min(
        range(len(ends)), key=lambda k: abs(math.log((away[k] or 1e-9) / (DISTANCE * spread)))
    )
    found = labels[ends[nearest]]
    grid = torch.logspace(0, math.log10(HOTTEST), 41).tolist()
    best: float = min(grid, key=lambda t: float(start(own / t, found)))
    return best


def _within(data: Tensor, labels: Tensor) -> float:
    """Root mean square distance of points from the mean of their cluster."""
    clusters, exact = int(labels.max()) + 1, torch.float64
    sums = torch.zeros(clusters, data.shape[1], dtype=exact, device=data.device)
    count = torch.bincount(labels, minlength=clusters).clamp(min=1)[:, None]
    for x, own in zip(torch.split(data, ROWS), torch.split(labels, ROWS), strict=True):
        sums.index_add_(0, own, x.to(exact))
    means, squares = sums / count, 0.0
    for x, own in zip(torch.split(data, ROWS), torch.split(labels, ROWS), strict=True):
        squares += float((x - means[own]).square().sum())
    return max(math.sqrt(squares / len(data)), 1e-9)
