"""Probabilities that mean what they say: how sure to be of a cluster, measured under walks.

Trained to be the same under views, predictions are more confident than where clusters overlap they
should be. One number mends that, a temperature that divides the logits: it makes the prediction at
x fit the clusters in which walks from x end. Walks that go about as far as points of one cluster
differ from each other were right: shorter ones leave predictions too sure, longer ones make them
too careful. No label enters.
"""

from __future__ import annotations

import math

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


@torch.no_grad()
def temperature(logits: Tensor, data: Tensor, views: WalkViews, generator: Generator) -> float:
    """What divides a network's logits (n, clusters) on its data (n, d); at least 1."""
    index = torch.randperm(len(data), generator=generator, device=data.device)[:MOST_POINTS]
    labels = logits.argmax(-1)
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
    own, found = logits[index], labels[ends[nearest]]
    grid = torch.logspace(0, math.log10(HOTTEST), 41).tolist()
    best: float = min(grid, key=lambda t: float(start(own / t, found)))
    return best


def _within(data: Tensor, labels: Tensor) -> float:
    """Root mean square distance of points from the mean of their cluster."""
    squares = torch.zeros((), dtype=data.dtype, device=data.device)
    for label in range(int(labels.max()) + 1):
        own = data[labels == label]
        if not len(own):
            continue
        squares += (own - own.mean(0)).square().sum()
    return max(float((squares / len(data)).sqrt()), 1e-9)
