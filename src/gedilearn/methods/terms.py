"""The three terms of GEDI and the bound of Proposition 1, as pure functions of logits.

Logits are (..., batch, clusters). Every term is the quantity to **minimise**: it reduces over the
last two axes and leaves the rest, so the same functions serve one network and many members. All of
it stays in the log domain: logits of +-1e4 neither overflow nor turn into NaN.

Each term also takes a `Reading` in the place of logits: what several terms need is then computed
once.

Paper's words: L_GEN, L_INV and L_PRIOR are the negatives of these, and sums over the data set where
these are means.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gedilearn.models.energy import Reading, read


def generative(
    logits_data: Tensor | Reading,
    logits_samples: Tensor | Reading,
    log_weights: Tensor | None = None,
) -> Tensor:
    """Estimate of -L_GEN = CE(p, p_Theta), Eq. 5, up to a constant: (..., batch, c) -> (...).

    Its gradient is that of the cross-entropy when `logits_samples` come from p_Theta (Eq. 11). Its
    value is then the difference in log-density between samples and data, near 0 for a model in
    balance. Samples of proposals q have `log_weights`, log b - log q, (..., batch). The logarithm
    of their mean weight estimates log Gamma, and the value is minus what the network adds to log b
    of the data.
    """
    data, samples = _read(logits_data).log_density, _read(logits_samples).log_density
    if log_weights is None:
        return samples.mean(-1) - data.mean(-1)
    level = torch.logsumexp(samples + log_weights, -1) - math.log(samples.shape[-1])
    return level - data.mean(-1)


def invariance(
    logits: Tensor | Reading, logits_view: Tensor | Reading, symmetric: bool = False
) -> Tensor:
    """-L_INV = mean over the batch of CE(p(y|x'), p(y|x)), Eq. 3: (..., batch, clusters) -> (...).

    One direction, gradients through both sides, as in the paper. It contains the entropy of
    p(y|x'), so it is 0 only for predictions that agree *and* are confident. `symmetric` averages
    both directions.
    """
    if symmetric:
        x, view = _read(logits), _read(logits_view)
        return (invariance(x, view) + invariance(view, x)) / 2
    log_p, log_p_view = _read(logits).log_posterior, _read(logits_view).log_posterior
    return _cross_entropy(log_p_view.exp(), log_p).mean(-1)


def start(logits: Tensor | Reading, labels: Tensor) -> Tensor:
    """Mean of -log p(label|x): (..., batch, clusters), (..., batch) -> (...). Not in the paper."""
    log_p = _read(logits).log_posterior
    return -log_p.gather(-1, labels[..., None])[..., 0].mean(-1)


def prior(logits: Tensor | Reading, target: Tensor | None = None) -> Tensor:
    """-L_PRIOR = CE(p(y), q(y)) with q the batch mean of p(y|x), Eq. 3: (..., b, c) -> (...).

    `target` is p(y), any distribution over the clusters, (..., clusters); uniform when not given.
    The minimum is the entropy of the target, reached when q equals it.
    """
    log_q = log_marginal(logits)
    if target is None:
        return -log_q.mean(-1)
    return _cross_entropy(target.to(log_q), log_q)


def log_marginal(logits: Tensor | Reading) -> Tensor:
    """log q(y), q the batch mean of p(y|x): (..., batch, clusters) -> (..., clusters)."""
    log_p = _read(logits).log_posterior
    return torch.logsumexp(log_p, dim=-2) - math.log(log_p.shape[-2])


def energy_scale(logits_data: Tensor | Reading, logits_samples: Tensor | Reading) -> Tensor:
    """Mean squared log-density of data and samples, (..., batch, clusters) -> (...).

    Not in the paper. p_Theta does not change when a constant is added to log p(x), so nothing in
    GEN keeps energies from drifting, and chains that hardly move leave it unbounded: a small
    multiple of this holds both.
    """
    data, samples = _read(logits_data).log_density, _read(logits_samples).log_density
    return data.square().mean(-1) + samples.square().mean(-1)


def target_entropy(target: Tensor | None, n_clusters: int) -> Tensor:
    """H(p(y)), the least value of `prior`: (..., clusters) -> (...), log(clusters) when uniform."""
    if target is None:
        return torch.tensor(n_clusters, dtype=torch.float64).log()
    entropy: Tensor = torch.special.entr(target.double()).sum(-1)
    return entropy


def bound_gap(
    logits: Tensor | Reading, logits_view: Tensor | Reading, target: Tensor | None = None
) -> Tensor:
    """Distance in nats to the optimum of Proposition 1: (..., batch, clusters) -> (...).

    The proposition bounds L_INV + L_PRIOR by -H(p(y)), so

        gap = invariance + (prior - H(target)) >= 0,

    with equality only for predictions that are confident, invariant and in the target's
    proportions. It needs no labels, and weights play no part in it: gaps of different training
    settings compare.
    """
    logits = _read(logits)
    least = target_entropy(target, logits.log_posterior.shape[-1]).to(logits.log_posterior)
    return invariance(logits, logits_view) + (prior(logits, target) - least).clamp_min(0)


def _read(logits: Tensor | Reading) -> Reading:
    return logits if isinstance(logits, Reading) else read(logits)


def _cross_entropy(p: Tensor, log_q: Tensor) -> Tensor:
    """-sum_y p log q. `log_q` is finite for finite logits, so p = 0 contributes exactly 0."""
    return -(p * log_q).sum(-1)
