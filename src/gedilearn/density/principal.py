"""The base of images, and of vectors with many columns: a mixture in principal directions.

Validation rows choose how far pixels are stretched, and the number of components of the mixture.
Vectors may have kernels at the rows instead, in units of the differences between near rows.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.base import Base, HeldOut, split
from gedilearn.density.candidates import (
    FLOOR,
    NEIGHBOUR,
    WIDTHS,
    gaussian_mixture,
    kernels,
    one_gaussian,
)
from gedilearn.density.coordinates import Coordinates, Stretch, dequantise
from gedilearn.density.density import Density
from gedilearn.density.gaussians import Framed, Gaussians
from gedilearn.graph.neighbours import nearest_neighbours
from gedilearn.ranks import ONE_AT_A_TIME

EDGES = (0.0, 0.05, 0.01, 1e-3, 1e-4)  # of `Stretch`
COMPONENTS = (1, 10, 40)
MOST_ROWS = 20_000  # rows for the fit of a base
MOST_VALUES = 60_000_000  # values of these rows
MOST_DIRECTIONS = 256
FRAME = 64  # directions with a mixture
ROWS_EACH = 8  # the least number of rows for each of these directions
EXACT = 1_024  # columns up to which all directions are computed
PIXELS, ROWS = 256, 4_000  # for the choice of an edge
NARROW = 0.01  # added to variances of the mixture; coordinates have variance 1
ROUNDS = 20  # of expectation maximisation
NARROWEST = 0.1  # kernel, in units of the median width: rows may be equal


def base_in_directions(x: Tensor, seed: int, generator: Generator) -> Base:
    """The base of points x (n, *point)."""
    coordinates, values = coordinates_in_directions(x, seed, generator)
    order, held = split(len(x), seed)
    places = torch.from_numpy(order).to(x.device)
    fresh = [
        coordinates.dequantise(coordinates.values_of(x[rows]), generator)
        for rows in (places[:held], places[held : 2 * held])
    ]
    # Here several threads only wait for each other; the limit holds for the whole process.
    with ONE_AT_A_TIME, threadpool_limits(1):
        made = mixtures(coordinates, values, seed)
        if x.dim() == 2 and len(values) >= ROWS_EACH * len(coordinates.directions):
            rows = torch.from_numpy(evenly_spaced(len(x), len(values) + 2 * held)).to(x.device)
            made |= local_kernels(coordinates, coordinates.values_of(x[rows]))
        validation = coordinates(fresh[0])[0]
        name = max(made, key=lambda one: float(made[one].log_density(validation).mean()))
    density = Density(coordinates, made[name])
    held_out = []
    for rows in fresh:
        log_mixture = density.mixture.log_density(coordinates(rows)[0])
        held_out.append(HeldOut(rows, log_mixture, log_mixture))
    return Base(name, density, x, places[2 * held :], seed, *held_out)


def coordinates_in_directions(
    x: Tensor, seed: int, generator: Generator
) -> tuple[Coordinates, Tensor]:
    """Principal directions of points (n, *point), and the values that they were measured on."""
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
    plain = Coordinates(used, flat[0].view(point), cells)
    values = plain.dequantise(flat[rows][:, used], generator)
    return directions_of(stretch.apply(values)[0], plain, stretch, seed), values


def choose_stretch(flat: Tensor, rows: Tensor, held: Tensor, generator: Generator) -> Stretch:
    """The edge under which held-out pixels are most likely by one Gaussian, for some of the pixels.

    The width of cells is the median difference between values.
    """
    levels = torch.unique(flat[rows[:ROWS]])
    cell = float(levels.diff().median()) if len(levels) > 1 else FLOOR**0.5
    low, high = float(flat.min()), float(flat.max())
    some = torch.from_numpy(evenly_spaced(flat.shape[1], PIXELS)).to(flat.device)
    parts = [flat[part][:, some] for part in (rows[:ROWS], held)]
    inside, fresh = (dequantise(own, cell, generator) for own in parts)
    stretches = [Stretch(edge, low, high, cell) for edge in EDGES]
    return max(stretches, key=lambda stretch: _one_gaussian_score(stretch, inside, fresh))


def _one_gaussian_score(stretch: Stretch, inside: Tensor, fresh: Tensor) -> float:
    """The mean log-density of values (m, d), by a Gaussian fitted to others (n, d)."""
    gaussian = one_gaussian(stretch.apply(inside)[0].double().cpu().numpy())
    u, volume = (part.double().cpu() for part in stretch.apply(fresh))
    return float((gaussian.log_density(u) + volume).mean())


def directions_of(u: Tensor, plain: Coordinates, stretch: Stretch, seed: int) -> Coordinates:
    """`plain` with the centre, principal directions and deviations of u (n, d)."""
    n, d = u.shape
    most = max(1, min(MOST_DIRECTIONS, d, n - 1))
    solver = "covariance_eigh" if d <= EXACT else "randomized"
    found = PCA(most, svd_solver=solver, random_state=seed).fit(u.double().cpu().numpy())
    left = float(u.var(0).sum()) - found.explained_variance_.sum()
    given = {
        "centre": found.mean_,
        "directions": found.components_,
        "deviations": np.sqrt(found.explained_variance_.clip(FLOOR)),
        "rest": np.sqrt(max(left / max(d - most, 1), FLOOR)),
        "stretched": np.array(stretch),
    }
    tensors = {name: torch.as_tensor(value).to(u).contiguous() for name, value in given.items()}
    return Coordinates(plain.used, plain.template, plain.cells, **tensors)


def mixtures(coordinates: Coordinates, values: Tensor, seed: int) -> dict[str, Framed]:
    """Mixtures of several sizes in the leading directions of values (n, d), by their names."""
    n = len(values)
    frame = coordinates.directions[: max(1, min(FRAME, n // ROWS_EACH))]
    along = (coordinates(values)[0] @ frame.T).cpu().numpy()
    return {
        f"a mixture of {c}": Framed(
            frame, gaussian_mixture(along, c, seed, NARROW, ROUNDS).to(coordinates.centre)
        )
        for c in COMPONENTS
        if c == 1 or c * len(frame) < n
    }


def local_kernels(coordinates: Coordinates, values: Tensor) -> dict[str, Framed]:
    """Kernels of several widths at values (n, d), by their names.

    Their shape is the covariance of the differences between a row and its nearest neighbours. In
    directions that only tell one cluster from another they are narrow. Held-out rows are among the
    values: a kernel does not count at its own point.
    """
    along = coordinates(values)[0] @ coordinates.directions.T
    near = nearest_neighbours(values.cpu().numpy(), NEIGHBOUR).neighbour[:, :NEIGHBOUR]
    apart = (along[near] - along[:, None]).flatten(0, 1)
    variances, turned = torch.linalg.eigh(apart.T @ apart / len(apart))
    deviations = variances.clamp_min(FLOOR).sqrt()
    points = along @ turned / deviations
    widths = kernels(points.cpu().double().numpy(), 1.0, len(points)).round_widths.to(points)
    widths = widths.clamp_min(NARROWEST * widths.median())
    frame = turned.T @ coordinates.directions
    return {
        f"kernels {width:g} wide": Framed(
            frame, Gaussians.round(points, width * widths), deviations
        )
        for width in WIDTHS
    }
