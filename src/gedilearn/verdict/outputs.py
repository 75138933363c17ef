"""What a fitted model says of rows, all of it from one pass of the network over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.density import LEVELS, MOST_LEVELS, Density
from gedilearn.models.energy import MANY, EnergyModel, log_density, logits_of, posterior
from gedilearn.ranks import by_shares

RARE = 0.001  # rows less likely than this share of the training rows may come from elsewhere


@dataclass(frozen=True, eq=False)
class Outputs:
    """Each has one entry a row.

    labels: (n,) the most likely cluster
    probabilities: (n, clusters) p(y|x)
    log_density: (n,) log p(x) in the data's units; None if it was not learned
    trust: (n,) how far to believe in the cluster of a training row; None for other rows, and where
        nothing but the bound was measured
    """

    labels: np.ndarray
    probabilities: np.ndarray
    log_density: np.ndarray | None
    trust: np.ndarray | None = None

    @property
    def probability(self) -> np.ndarray:
        """(n,) p(y|x) of each row's label."""
        return np.take_along_axis(self.probabilities, self.labels[:, None], axis=1)[:, 0]

    def of(self, labels: np.ndarray) -> Outputs:
        """The same with other labels, such as given ones."""
        return replace(self, labels=labels)


def logits_and_log_density(
    model: EnergyModel, n_clusters: int, density: Density | None, x: Tensor, shared: bool = False
) -> tuple[Tensor, Tensor]:
    """Logits (n, clusters) and log p(x) (n,), in the network's units, on the processor.

    Without a density on a base, log p(x) is known up to a constant. Ranks that all do this at the
    same time may have the rows `shared` out among them.
    """

    def of_rows(rows: slice) -> Tensor:
        logits = logits_of(model, x[rows]).cpu()
        energies = log_density(logits)
        level = energies
        if density is not None:
            parts = iter(torch.split(energies, density.at_once))
            level = density.log_density(x[rows].cpu(), lambda _: next(parts))
        return torch.cat([logits, level[:, None].to(logits)], dim=1)

    kind = torch.float64 if x.dim() == 2 else torch.float32
    both = torch.zeros(len(x), n_clusters + 1, dtype=kind)
    both = by_shares(both, MANY, of_rows, shared)
    return both[:, :-1], both[:, -1]


def probabilities(
    logits: Tensor,
    log_density: Tensor,
    temperature: float,
    prior: Tensor,
    least: float | None = None,
) -> Tensor:
    """Calibrated p(y|x): (n, clusters).

    Where a row is less likely than `least`, it may come from elsewhere, where all places are as
    likely as that: about such rows nothing is known but the prior.
    """
    p = posterior(logits / temperature)
    if least is None:
        return p
    inside = torch.sigmoid(log_density - least)[:, None]
    return inside * p + (1 - inside) * prior


def quantiles(log_density: Tensor) -> Tensor:
    """log p(x) of at most `MOST_LEVELS` evenly spaced rows, evenly spaced quantiles: (LEVELS,).

    Each is the value of a row, so that no more rows are below it than its share.
    """
    some = log_density[torch.from_numpy(evenly_spaced(len(log_density), MOST_LEVELS))].double()
    places = torch.linspace(0, 1, LEVELS, dtype=torch.float64)
    return torch.quantile(some, places, interpolation="lower")
