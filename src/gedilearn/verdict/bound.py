"""The certificate: how far a clustering is from the known optimum of Proposition 1.

Measured on the training data without labels, it picks the best of several initialisations, ends
training early, and is kept with the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.graph.views import Views, WalkViews
from gedilearn.graph.walks import draw
from gedilearn.methods.method import share
from gedilearn.methods.priors import Fixed, Prior
from gedilearn.methods.terms import bound_gap, invariance, start
from gedilearn.models.energy import EnergyModel
from gedilearn.ranks import gather, own_share
from gedilearn.verdict.monitor import Diagnosis, diagnose

# Points looked at: for vectors a look then costs about one training step; images cost more each.
MOST_VECTORS = 10_000
MOST_IMAGES = 2_000
CHUNK = 2_000
# Views of each point behind a certificate.
REPEATS = 8


class Measurement(NamedTuple):
    """What all members say of the same points and of one view of each."""

    gap: Tensor  # (members,) nats; infinite where a member's predictions are not finite
    gap_prior: Tensor  # (members,) the part of it that PRIOR has
    features: Tensor  # (members, n, h)
    logits: Tensor  # (members, n, clusters)
    logits_view: Tensor  # (members, n, clusters)
    target: Tensor | None  # (members, clusters): the prior p(y); None is uniform

    def diagnose(
        self, member: int, gap: float, tol: float, gap_prior: float | None = None
    ) -> Diagnosis:
        """The findings of the triad monitor on a member, beside its gap."""
        target = None if self.target is None else self.target[member]
        own = (self.features[member], self.logits[member], self.logits_view[member])
        return diagnose(*own, target, gap, tol, gap_prior)


@torch.no_grad()
def measure(
    model: EnergyModel,
    data: Tensor,
    views: Views,
    prior: Prior,
    generator: Generator,
    progress: float | None = None,
    repeats: int = 1,
    shared: bool = False,
) -> Measurement:
    """The bound gap of every member on `data`, (n, ...), or on evenly spaced points of a large set.

    Under the certifying views the gap is the certificate; `progress` asks for the training's views
    at that moment instead. With `repeats`, every point is looked at with that many views. Ranks
    that measure at the same time may have the points `shared` out among them.
    """
    most = MOST_VECTORS if data.dim() == 2 else MOST_IMAGES
    index = torch.from_numpy(evenly_spaced(len(data), most)).to(data.device).repeat(repeats)
    if shared:
        index = own_share(index)
    was_training = model.training
    model.eval()
    parts = []
    for chunk in torch.split(index, CHUNK):
        x = data[chunk]
        if progress is None:
            view = views.certify(chunk, x, generator)
        else:
            view = views.draw(chunk, x, progress, generator)
        features, logits = model(share(torch.cat([x, view]), model))[:2]
        n = len(chunk)
        parts.append((features[:, :n], logits[:, :n], logits[:, n:]))
    model.train(was_training)
    joined = [torch.cat(part, dim=1) for part in zip(*parts, strict=True)]
    features, logits, logits_view = map(gather, joined) if shared else joined
    target = prior.final(logits)
    gap = bound_gap(logits, logits_view, target).nan_to_num(nan=torch.inf)
    gap_prior = gap - invariance(logits, logits_view)
    return Measurement(gap, gap_prior, features, logits, logits_view, target)


def examine(
    model: EnergyModel,
    data: Tensor,
    views: Views,
    target: Tensor | None,
    tol: float,
    generator: Generator,
    gap: float | None = None,
) -> Diagnosis:
    """Certificate and findings of a single-member model on `data`, (n, ...).

    The findings are measured under the views of the end of training; the gap, unless it is given,
    under the certifying ones. `target` is the prior, (clusters,); None is uniform.
    """
    prior, gap_prior = Fixed(None if target is None else target[None]), None
    if gap is None:
        close = measure(model, data, views, prior, generator, repeats=REPEATS)
        gap, gap_prior = float(close.gap[0]), float(close.gap_prior[0])
    seen = measure(model, data, views, prior, generator, progress=1.0)
    return seen.diagnose(0, gap, tol, gap_prior)


# --- calibration ----------------------------------------------------------------------------------
#
# Probabilities that mean what they say: how sure to be of a cluster, measured under walks.
#
# Trained to be the same under views, predictions are more confident than where clusters overlap
# they should be. One number mends that, a temperature that divides the logits: it makes the
# prediction at x fit the clusters in which walks from x end. Walks that go about as far as points
# of one cluster differ from each other were right: shorter ones leave predictions too sure, longer
# ones make them too careful. No label enters.


# How far walks go, in units of the spread within clusters (root mean squares). Chosen on mixtures
# of Gaussians of 300 to 3,000 points in 2 to 10 columns (docs/how-it-trains.md).
DISTANCE = 0.6
HOTTEST = 100.0
MOST_POINTS = 4_000
WALKS_EACH = 4
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
    own = logits(index).repeat(WALKS_EACH, 1)
    index = index.repeat(WALKS_EACH)
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
