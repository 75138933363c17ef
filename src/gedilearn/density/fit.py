"""The bases of a training before it, and what became of p(x) after it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from gedilearn.density.base import CHECKED, HEALTHY, Base, Bases, HeldOut, base_in_columns
from gedilearn.density.density import Density, Energy, bits_per_dimension
from gedilearn.density.principal import base_in_directions
from gedilearn.density.stein import stein_test
from gedilearn.sampling.langevin import look
from gedilearn.settings import Settings, has_base_in_columns

FEWEST = 10  # rows: fewer are repeated
MOST_IN_STEIN = 500
REFUTED = 0.01  # a p-value below it
UNSURE = 0.1  # of what the network adds: an error of log Gamma beyond it is worth a word
SURE = 0.05  # an error of log Gamma beyond it is made smaller by more proposals:
MORE = 20_000


def fit_bases(data: Tensor, labels: Sequence[np.ndarray] | None, settings: Settings) -> Bases:
    """Of each group of data, (groups, n, *point), in clusters, labels (n,) each, if it has any."""
    n = data.shape[1]
    if n < FEWEST:
        times = -(-FEWEST // n)
        data = data.repeat(1, times, *[1] * (data.dim() - 2))
        labels = labels and [np.tile(own, times) for own in labels]
    seed, bases = settings.training.seed, list[Base]()
    for k, own in enumerate(data):
        if has_base_in_columns(tuple(own.shape)):
            generator = Generator().manual_seed(seed)
            begun = None if labels is None else labels[k % len(labels)]
            kind, rows = settings.density.base, own.cpu().numpy()
            bases.append(base_in_columns(rows, begun, kind, seed, generator))
        else:
            generator = Generator(data.device).manual_seed(seed)
            bases.append(base_in_directions(own, seed, generator))
    return Bases(data, bases)


@dataclass(frozen=True)
class Findings:
    """How far to trust a density."""

    base: str  # in words
    estimator: str  # of GEN: 'importance', 'chains', 'amortised'; 'none' where it was not trained
    weight: float  # w, of the network
    held_out: float  # mean log p(x), in the network's units, of rows that nothing was chosen on
    gain: float  # what of it the network adds to the mixture
    gain_error: float  # the standard error of that
    rows: int  # that both were measured on
    log_normaliser: float
    log_normaliser_error: float
    effective: float  # share of the proposals that counts
    stein: float  # p-value of a goodness-of-fit test that needs no normaliser
    bits: float | None = None  # per dimension, of images
    counted: float | None = None  # effective proposals of `CHECKED` when GEN ended for want of them

    @property
    def words(self) -> str:
        """What the network adds to the base, and whether the density fits, in short sentences."""
        if self.weight > 0:
            words = f"The network adds {self.gain:.3g} ± {self.gain_error:.2g} nats to its base."
            if not self.log_normaliser_error < UNSURE * max(self.gain, 1):
                words += f" Standard error of the log-normaliser: {self.log_normaliser_error:.2g}."
        elif self.bits is not None:
            words = "log p(x) is that of the base. The network only draws samples."
        elif self.counted is not None:
            words = (
                "log p(x) is that of the base: the network learned no density "
                f"(effective sample size {self.counted:.0f}, at least {HEALTHY} are needed)."
            )
        elif self.estimator == "none":
            words = "log p(x) is that of the base: GEN is not trained in so many columns."
        else:
            words = "log p(x) is that of the base, to which the network adds nothing."
        if self.stein < REFUTED:
            words += f" A goodness-of-fit test rejects it (p = {self.stein:.2g})."
        return words

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"words": self.words}


@torch.no_grad()
def conclude(
    bases: Bases,
    group: int,
    energy: Energy,
    estimator: str,
    seed: int,
    run: tuple[int, float] = (0, 0.0),
    counted: float | None = None,
) -> tuple[Density, Findings]:
    """The density of a network that was trained on the base of a group, and how far to trust it.

    `run` are the steps of the short runs that it was trained with, and their length; `counted` the
    effective proposals, where GEN ended for want of them. Rows that choose give the network its
    weight; other rows tell what it adds.
    """
    base = bases.bases[group]
    density = copy.deepcopy(base.density)
    generator = Generator(density.coordinates.centre.device).manual_seed(seed)
    density.run = torch.tensor(run).to(density.run)
    if density.proposal is not None and estimator != "none" and counted is None:
        judged = bases.select([group]).judge(lambda x: energy(x[0])[None])
        weight, share = float(judged.weight), judged.share[0]
        if weight and CHECKED * float(share) > HEALTHY:
            density.settle(weight, judged.log_gamma[0], share, CHECKED)
            if float(density.error) > SURE:
                density.normalise(MORE, energy, weight, generator)
    held_out, gain = _levels(density, base.measuring, energy)
    sampling = gain.var() / len(gain) if len(gain) > 1 else torch.tensor(math.inf)
    log_p = float(held_out.mean())
    y = density.coordinates(base.measuring.values[:MOST_IN_STEIN])[0]
    slopes = look(lambda y: density.of_coordinates(y, energy), y)[1]
    cell = float(density.coordinates.cells.max())
    findings = Findings(
        base=base.name,
        estimator=estimator,
        weight=float(density.weight),
        held_out=log_p,
        gain=float(gain.mean()),
        gain_error=float((sampling + density.error**2).sqrt()),
        rows=len(gain),
        log_normaliser=float(density.log_normaliser),
        log_normaliser_error=float(density.error),
        effective=float(density.effective),
        stein=stein_test(y.double(), slopes.double(), generator)[1],
        bits=bits_per_dimension(log_p, y.shape[1], cell) if density.is_of_images else None,
        counted=counted,
    )
    return density, findings


def _levels(density: Density, rows: HeldOut, energy: Energy) -> tuple[Tensor, Tensor]:
    """log p(x) of held-out rows, and what of it the network adds to the mixture: (m,), (m,)."""
    volume = density.coordinates(rows.values)[1]
    points = torch.split(density.coordinates.points(rows.values), density.at_once)
    energies, weight = torch.cat([energy(part) for part in points]), density.weight
    network = weight * (rows.based + energies - rows.known) - density.log_normaliser
    return (rows.known + network + volume).double(), network.double()
