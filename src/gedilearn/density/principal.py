"""The base of images, and of vectors with many columns: a mixture in principal directions.

Rows that are held out make all choices: how far pixels are stretched, and how many components the
mixture has.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.base import (
    FLOOR,
    Base,
    HeldOut,
    Rules,
    gaussian_mixture,
    split,
)
from gedilearn.density.coordinates import Coordinates, Stretch
from gedilearn.density.density import Density
from gedilearn.density.gaussians import Framed, Gaussians
from gedilearn.ranks import ONE_AT_A_TIME

EDGES = (0.0, 0.05, 0.01, 1e-3, 1e-4)  # of `Stretch`
COMPONENTS = (1, 10, 40)
MOST_ROWS = 20_000  # that a base is fitted to,
MOST_VALUES = 60_000_000  # and values of them
MOST_IN_MIXTURE = 10_000
MOST_DIRECTIONS = 256
FRAME = 64  # directions with a mixture
ROWS_EACH = 8  # for each of these, at least
EXACT = 1_024  # columns up to which all directions are computed
PIXELS, ROWS = 256, 4_000  # that the choice of an edge looks at
NARROW = 0.01  # added to variances of the mixture, of coordinates with deviation 1
ROUNDS = 20  # of expectation maximisation


def base_in_directions(x: Tensor, seed: int, generator: Generator) -> Base:
    """The base of points x (n, *point)."""
    device, point = x.device, tuple(x.shape[1:])
    flat = x.flatten(1).float()
    images = len(point) > 1
    varies = flat.amax(0) > flat.amin(0)
    used = torch.arange(flat.shape[1], device=device)
    used = used if images or not varies.any() else varies.nonzero()[:, 0]
    order, held = split(len(x), seed)
    places = torch.from_numpy(order).to(device)
    training = places[2 * held :]
    most = min(MOST_ROWS, max(MOST_VALUES // len(used), 1))
    rows = training[torch.from_numpy(evenly_spaced(len(training), most)).to(device)]
    stretch = Stretch(0.0, 0.0, 1.0, 0.0)
    if images:
        stretch = choose_stretch(flat, rows, places[:held], generator)
    cells = torch.tensor(stretch.cell, device=device)
    coordinates = Coordinates(used, flat[0].view(point), cells)
    values = coordinates.spread(flat[rows][:, used], generator)
    coordinates = directions_of(stretch.apply(values)[0], coordinates, stretch, seed)
    frame = coordinates.directions[: max(1, min(FRAME, len(rows) // ROWS_EACH))]
    fresh = [
        coordinates.spread(flat[places[k * held : (k + 1) * held]][:, used], generator)
        for k in range(2)
    ]

    def along(values: Tensor) -> np.ndarray:
        return np.asarray((coordinates(values)[0] @ frame.T).cpu().numpy())

    # More threads than one only wait for each other here; the limit is the whole process's.
    with ONE_AT_A_TIME, threadpool_limits(1):
        name, mixture = choose_mixture(along(values), along(fresh[0]), seed)
    density = Density(coordinates, Framed(frame, mixture.float().to(device)))
    known = [density.mixture.log_density(coordinates(own)[0]) for own in fresh]
    held_out = [HeldOut(own, level, level) for own, level in zip(fresh, known, strict=True)]
    return Base(name, density, training, *held_out)


def choose_stretch(flat: Tensor, rows: Tensor, held: Tensor, generator: Generator) -> Stretch:
    """The edge under which one Gaussian makes held-out pixels likeliest; of some pixels, all rows.

    Cells are those of the values that there are.
    """
    levels = torch.unique(flat[rows[:ROWS]])
    cell = float(levels.diff().median()) if len(levels) > 1 else FLOOR**0.5
    low, high = float(flat.min()), float(flat.max())
    some = torch.from_numpy(evenly_spaced(flat.shape[1], PIXELS)).to(flat.device)
    parts = [flat[part][:, some] for part in (rows[:ROWS], held)]
    inside, fresh = (
        own + cell * (torch.empty_like(own).uniform_(generator=generator) - 0.5) for own in parts
    )
    stretches = [Stretch(edge, low, high, cell) for edge in EDGES]
    return max(stretches, key=lambda stretch: _one_gaussian(stretch, inside, fresh))


def _one_gaussian(stretch: Stretch, inside: Tensor, fresh: Tensor) -> float:
    """The mean log-density of values (m, d), by a Gaussian fitted to others (n, d)."""
    u = stretch.apply(inside)[0].double()
    v, volume = stretch.apply(fresh)
    d = u.shape[1]
    spread = u.T.cov().reshape(d, d) + FLOOR * torch.eye(d, dtype=u.dtype, device=u.device)
    factor = torch.linalg.cholesky(spread)
    away = torch.linalg.solve_triangular(factor, (v.double() - u.mean(0)).T, upper=False)
    logs = -away.square().sum(0) / 2 - factor.diagonal().log().sum()
    return float((logs + volume).mean() - d / 2 * math.log(2 * math.pi))


def directions_of(u: Tensor, plain: Coordinates, stretch: Stretch, seed: int) -> Coordinates:
    """With centre, principal directions and deviations of u (n, d)."""
    n, d = u.shape
    most = max(1, min(MOST_DIRECTIONS, d, n - 1))
    centre = u.mean(0)
    away = u - centre
    whole = float(away.square().sum()) / n
    if d <= EXACT:
        spread = (away.T @ away / n).double()
        variances, vectors = torch.linalg.eigh(spread)
        variances, directions = variances.flip(0)[:most], vectors.flip(1)[:, :most].T
    else:
        _, singular, right = randomized_svd(away.cpu().numpy(), most, random_state=seed)
        variances = torch.from_numpy(singular.astype(np.float64) ** 2 / n)
        directions = torch.from_numpy(right)
    left = (whole - float(variances.sum())) / max(d - most, 1)
    rest = torch.tensor(max(left, FLOOR)).sqrt()
    found = {
        "centre": centre,
        "directions": directions,
        "deviations": variances.clamp_min(FLOOR).sqrt(),
        "rest": rest,
        "stretched": torch.tensor(stretch),
    }
    found = {name: tensor.to(u) for name, tensor in found.items()}
    return Coordinates(plain.used, plain.resting, plain.cells, **found)


def choose_mixture(inside: np.ndarray, fresh: np.ndarray, seed: int) -> tuple[str, Gaussians]:
    """The mixture of rows (n, m) that makes other rows likeliest, and its name."""
    rules = Rules(NARROW, ROUNDS, MOST_IN_MIXTURE)
    rows = torch.from_numpy(fresh)
    made = {
        f"a mixture of {c}": gaussian_mixture(inside, c, seed, rules)
        for c in COMPONENTS
        if c == 1 or c * inside.shape[1] < len(inside)
    }
    name = max(made, key=lambda one: float(made[one].log_density(rows).mean()))
    return name, made[name]
