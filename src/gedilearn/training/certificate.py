"""The certificate: how far a clustering is from the known optimum of Proposition 1.

Measured on the training data without labels, it picks the best of several initialisations, ends
training early, and is kept with the model.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gedilearn.data.views import Views
from gedilearn.methods.gedi import share
from gedilearn.methods.priors import Prior
from gedilearn.methods.terms import bound_gap
from gedilearn.models.energy import EnergyModel
from gedilearn.training.monitor import Diagnosis, diagnose

# Points looked at: for vectors a look then costs about one training step; images cost more each.
MOST_VECTORS = 10_000
MOST_IMAGES = 2_000
CHUNK = 2_000
# Views of each point behind a certificate.
REPEATS = 8


class Measurement(NamedTuple):
    """What all members say of the same points and of one view of each."""

    gap: Tensor  # (members,) nats; infinite where a member's predictions are not finite
    features: Tensor  # (members, n, h)
    logits: Tensor  # (members, n, clusters)
    logits_view: Tensor  # (members, n, clusters)
    target: Tensor | None  # (members, clusters): the prior p(y); None is uniform


@torch.no_grad()
def measure(
    model: EnergyModel,
    data: Tensor,
    views: Views,
    prior: Prior,
    progress: float | None = None,
    repeats: int = 1,
) -> Measurement:
    """The gap of every member on `data`, (n, ...), or on evenly spaced points of a large set.

    Under the certifying views the gap is the certificate; `progress` asks for the training's views
    at that moment instead. With `repeats`, every point is looked at with that many views.
    """
    most = MOST_VECTORS if data.dim() == 2 else MOST_IMAGES
    n = min(len(data), most)
    index = (torch.arange(n, device=data.device) * len(data) // n).repeat(repeats)
    was_training = model.training
    model.eval()
    parts = []
    for chunk in torch.split(index, CHUNK):
        x = data[chunk]
        view = views.certify(chunk, x) if progress is None else views.draw(chunk, x, progress)
        both = torch.cat([x, view])
        features, logits = model(share(both, model))
        parts.append((features[:, : len(x)], logits[:, : len(x)], logits[:, len(x) :]))
    model.train(was_training)
    features, logits, logits_view = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    target = prior.final(logits)
    gap = bound_gap(logits, logits_view, target).nan_to_num(nan=torch.inf)
    return Measurement(gap, features, logits, logits_view, target)


def examine(
    model: EnergyModel,
    data: Tensor,
    views: Views,
    prior: Prior,
    tol: float,
    gap: float | None = None,
) -> Diagnosis:
    """Certificate and findings of a single-member model on `data`, (n, ...).

    The findings are measured under the views of the end of training; the gap, unless it is given,
    under the certifying ones.
    """
    if gap is None:
        gap = float(measure(model, data, views, prior, repeats=REPEATS).gap[0])
    seen = measure(model, data, views, prior, progress=1.0)
    target = None if seen.target is None else seen.target[0]
    return diagnose(seen.features[0], seen.logits[0], seen.logits_view[0], target, gap, tol)
