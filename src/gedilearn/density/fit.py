"""The base before a training, and the density after it."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from gedilearn.density.base import CHECKED, HEALTHY, Base, HeldOut, base_in_columns
from gedilearn.density.coordinates import Coordinates, coordinates_in_columns
from gedilearn.density.density import Density, bits_per_dimension
from gedilearn.density.outliers import Subsamples
from gedilearn.density.principal import base_in_directions, coordinates_in_directions
from gedilearn.density.stein import stein_test
from gedilearn.sampling.langevin import LogDensity, look
from gedilearn.settings import Settings, has_base_in_columns

FEWEST = 10  # rows: fewer are repeated
MOST_IN_STEIN = 500
REFUTED = 0.01  # a p-value below it
UNSURE = 0.1  # of what the network adds: an error of log Gamma beyond it is worth a word
SURE = 0.05  # an error of log Gamma beyond it is made smaller by more proposals:
MORE = 20_000


def fit_base(data: Tensor, labels: np.ndarray | None, settings: Settings) -> Base:
    """Fitted to data (n, *point), given the labels (n,) of its initial clustering, if any."""
    data, seed = _enough(data), settings.training.seed
    labels = None if labels is None else np.resize(labels, len(data))
    if has_base_in_columns(tuple(data.shape)):
        generator = Generator().manual_seed(seed)
        return base_in_columns(data, labels, settings.density.base, seed, generator)
    return base_in_directions(data, seed, Generator(data.device).manual_seed(seed))


def subsamples_of(data: Tensor, seed: int) -> tuple[Coordinates, Subsamples]:
    """Those of the density of data (n, *point), and where they lie; no base is fitted."""
    data = _enough(data)
    if has_base_in_columns(tuple(data.shape)):
        coordinates = coordinates_in_columns(data)
    else:
        generator = Generator(data.device).manual_seed(seed)
        coordinates = coordinates_in_directions(data, seed, generator)[0]
    return coordinates, subsamples_in(coordinates, data, seed)


def subsamples_in(coordinates: Coordinates, data: Tensor, seed: int) -> Subsamples:
    """Subsamples of data (n, *point) in these coordinates."""
    return Subsamples.of(coordinates.leading(data).cpu(), seed, len(coordinates.directions) > 0)


def _enough(data: Tensor) -> Tensor:
    """Few points are repeated."""
    times = max(-(-FEWEST // len(data)), 1)
    return data.repeat(times, *[1] * (data.dim() - 1)) if times > 1 else data


@dataclass(frozen=True)
class Findings:
    """How far to trust a density."""

    base: str  # in words
    estimator: str  # of GEN: 'importance' or 'chains'; 'none' where it was not trained
    weight: float  # w, of the network
    held_out: float  # mean log p(x) of the test rows, in the network's units
    gain: float  # the part of it that the network adds to the mixture
    gain_error: float  # the standard error of that
    rows: int  # the number of test rows
    log_normaliser: float
    log_normaliser_error: float
    ess_share: float  # effective sample size of the proposals, as a share of their number
    stein: float  # p-value of a goodness-of-fit test that needs no normaliser
    bits: float | None = None  # per dimension, of images
    ess_at_stop: float | None = None  # of `CHECKED` proposals, if too few ended GEN

    @property
    def words(self) -> str:
        """What the network adds to the base, and whether the density fits, in short sentences."""
        if self.weight > 0:
            words = f"The network adds {self.gain:.3g} ± {self.gain_error:.2g} nats to its base."
            if not self.log_normaliser_error < UNSURE * max(self.gain, 1):
                words += f" Standard error of the log-normaliser: {self.log_normaliser_error:.2g}."
        elif self.bits is not None:
            words = "log p(x) is that of the base. The network only draws samples."
        elif self.ess_at_stop is not None:
            words = (
                "log p(x) is that of the base: the network learned no density "
                f"(effective sample size {self.ess_at_stop:.0f}, at least {HEALTHY} are needed)."
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
    base: Base,
    network: LogDensity,
    estimator: str,
    seed: int,
    run: tuple[int, float] = (0, 0.0),
    ess_at_stop: float | None = None,
) -> tuple[Density, Findings]:
    """The density of a network that was trained on a base, and how far to trust it.

    `run`: number and length of the steps of the short runs that it was trained with; `ess_at_stop`:
    the effective sample size, if too small a one ended GEN. Validation rows choose the weight of
    the network, test rows measure what it adds.
    """
    density = copy.deepcopy(base.density)
    generator = Generator(density.coordinates.centre.device).manual_seed(seed)
    density.run = torch.tensor(run).to(density.run)
    density.subsamples = subsamples_in(density.coordinates, base.data, seed)
    if density.elsewhere is not None and estimator != "none" and ess_at_stop is None:
        found = base.evaluate(lambda x: network(x)[None])
        weight, share = float(found.weight), found.ess_share[0]
        if weight and CHECKED * float(share) > HEALTHY:
            density.set_weight(weight, found.log_gamma[0], share, CHECKED)
            if float(density.error) > SURE:
                density.normalise(MORE, network, weight, generator)
    held_out, gain = _levels(density, base.test, network)
    sampling = gain.var() / len(gain) if len(gain) > 1 else torch.tensor(math.inf)
    log_p = float(held_out.mean())
    y = density.coordinates(base.test.values[:MOST_IN_STEIN])[0]
    slopes = look(lambda y: density.of_coordinates(y, network), y)[1]
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
        ess_share=float(density.effective),
        stein=stein_test(y.double(), slopes.double(), generator)[1],
        bits=bits_per_dimension(log_p, y.shape[1], cell) if density.is_of_images else None,
        ess_at_stop=ess_at_stop,
    )
    return density, findings


def _levels(density: Density, rows: HeldOut, network: LogDensity) -> tuple[Tensor, Tensor]:
    """log p(x) of held-out rows, and what the network adds to the mixture: (m,), (m,)."""
    volume = density.coordinates(rows.values)[1]
    points = torch.split(density.coordinates.points(rows.values), density.at_once)
    log_network, mixture = torch.cat([network(part) for part in points]), rows.log_mixture
    gain = density.weight * (rows.log_base + log_network - mixture) - density.log_normaliser
    return (mixture + gain + volume).double(), gain.double()
