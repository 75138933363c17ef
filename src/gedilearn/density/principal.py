"""The base of images, and of vectors with many columns: a mixture in principal directions.

All choices are made by what rows that were held out say: how far pixels are stretched, and how many
components the mixture has.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.base import (
    CLUSTERS,
    FLOOR,
    Framed,
    Gaussians,
    Rules,
    clusters_mixture,
    gaussian_mixture,
)
from gedilearn.density.density import Coordinates, Squash
from gedilearn.ranks import ONE_AT_A_TIME

EDGES = (0.0, 0.05, 0.01, 1e-3, 1e-4)  # of `Squash`
COMPONENTS = (1, 40)
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


class Principal(NamedTuple):
    """A base with the coordinates that it lives in."""

    name: str
    coordinates: Coordinates
    base: Framed


def fit_principal(
    x: Tensor, labels: np.ndarray, held: Tensor, seed: int, generator: Generator
) -> Principal:
    """The base of x (n, *point) in clusters, labels (n,), without the rows `held` (m,)."""
    device, point = x.device, tuple(x.shape[1:])
    flat = x.flatten(1).float()
    varies = flat.amax(0) > flat.amin(0)
    images = len(point) > 1
    used = torch.arange(flat.shape[1], device=device) if images else varies.nonzero()[:, 0]
    kept = torch.ones(len(x), dtype=torch.bool, device=device)
    kept[held] = False
    rows = kept.nonzero()[:, 0]
    most = min(MOST_ROWS, max(MOST_VALUES // len(used), 1))
    rows = rows[torch.from_numpy(evenly_spaced(len(rows), most)).to(device)]
    squash = Squash(0.0, 0.0, 1.0, 0.0)
    if images:
        squash = choose_squash(flat, rows, held, generator)
    values = squash.spread(flat[rows][:, used], generator)
    coordinates = directions_of(squash.apply(values)[0], point, used, squash, seed)
    coordinates.resting = flat[0].view(point).to(coordinates.resting)
    coordinates = coordinates.float().to(device)
    frame = coordinates.directions[: max(1, min(FRAME, len(rows) // ROWS_EACH))]

    def along(values: Tensor) -> np.ndarray:
        return np.asarray((coordinates(values)[0] @ frame.T).cpu().numpy())

    inside = along(values)
    fresh = along(squash.spread(flat[held][:, used], generator))
    # More threads than one only wait for each other here; the limit is the whole process's.
    with ONE_AT_A_TIME, threadpool_limits(1):
        name, mixture = choose_mixture(inside, labels[rows.cpu().numpy()], fresh, seed)
    base = Framed(len(used), len(frame), len(mixture))
    base.mixture, base.frame = mixture, frame
    return Principal(name, coordinates, base.float().to(device))


def choose_squash(flat: Tensor, rows: Tensor, held: Tensor, generator: Generator) -> Squash:
    """The edge under which one Gaussian makes held-out pixels likeliest; of some pixels, all rows.

    Cells are those of the values that there are.
    """
    levels = torch.unique(flat[rows[:ROWS]])
    cell = float(levels.diff().median()) if len(levels) > 1 else FLOOR**0.5
    low, high = float(flat.min()), float(flat.max())
    some = torch.from_numpy(evenly_spaced(flat.shape[1], PIXELS)).to(flat.device)
    squashes = [Squash(edge, low, high, cell) for edge in EDGES]
    inside, fresh = (
        squashes[0].spread(flat[part][:, some], generator) for part in (rows[:ROWS], held)
    )
    return max(squashes, key=lambda squash: _one_gaussian(squash, inside, fresh))


def _one_gaussian(squash: Squash, inside: Tensor, fresh: Tensor) -> float:
    """The mean log-density of values (m, d), by a Gaussian fitted to others (n, d)."""
    u = squash.apply(inside)[0].double()
    v, volume = squash.apply(fresh)
    d = u.shape[1]
    spread = u.T.cov().reshape(d, d) + FLOOR * torch.eye(d, dtype=u.dtype, device=u.device)
    factor = torch.linalg.cholesky(spread)
    away = torch.linalg.solve_triangular(factor, (v.double() - u.mean(0)).T, upper=False)
    logs = -away.square().sum(0) / 2 - factor.diagonal().log().sum()
    return float((logs + volume).mean() - d / 2 * math.log(2 * math.pi))


def directions_of(
    u: Tensor, point: tuple[int, ...], used: Tensor, squash: Squash, seed: int
) -> Coordinates:
    """Centre, principal directions and deviations of u (n, d)."""
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
        _, singular, found = randomized_svd(away.cpu().numpy(), most, random_state=seed)
        variances = torch.from_numpy(singular.astype(np.float64) ** 2 / n)
        directions = torch.from_numpy(found)
    left = (whole - float(variances.sum())) / max(d - most, 1)
    made = Coordinates(point, d, most)
    made.used, made.centre = used, centre.double()
    made.directions, made.rest = directions.double(), torch.tensor(max(left, FLOOR)).double().sqrt()
    made.deviations = variances.clamp_min(FLOOR).double().sqrt()
    made.squash_ = torch.tensor(squash).double()
    return made


def choose_mixture(
    inside: np.ndarray, labels: np.ndarray, fresh: np.ndarray, seed: int
) -> tuple[str, Gaussians]:
    """The mixture of rows (n, m) that makes other rows likeliest, and its name."""
    rules = Rules(NARROW, ROUNDS, MOST_IN_MIXTURE)
    rows = torch.from_numpy(fresh)
    made = {
        f"a mixture of {c}": gaussian_mixture(inside, c, seed, rules)
        for c in COMPONENTS
        if c == 1 or c * inside.shape[1] < len(inside)
    }
    made[CLUSTERS] = clusters_mixture(inside, labels, seed, rules)
    name = max(made, key=lambda one: float(made[one].log_density(rows).mean()))
    return name, made[name]
