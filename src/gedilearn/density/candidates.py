"""Gaussians that a base may be made of: a wide one, kernels at the points, and mixtures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.gaussians import Gaussians
from gedilearn.density.parts import Fit, Rows
from gedilearn.ranks import fitting

COMPONENTS = (1, 2, 3, 4, 6, 9, 13, 19, 32)
STARTS, FEW_COLUMNS = 3, 4  # fits of a mixture, whose mean is smoother; in more columns one
FEW_ROWS, MANY_ROWS = 3, 80  # the least number for each component, of up to 19 and of more
PATIENCE = 3  # numbers of components in a row that are no better than fewer
WIDTHS = (0.15, 0.25, 0.4, 0.6, 0.9, 1.3, 2.0)  # of kernels
FLOOR = 1e-6  # added to variances, in the network's units
NEIGHBOUR = 7  # the distance to it is the unit of a kernel's width
MOST_KERNELS = 2_000  # of a candidate
MOST_ROWS = 5_000  # that a mixture is fitted to
RISE = 0.003  # of the mean log-density in a round, below which a mixture is fitted; in nats
WIDER = 1.5  # the wide Gaussian's deviations, in units of the data's
OUTSIDE = 6.0  # the same of the Gaussian for outliers


class WideGaussian(Gaussians):
    """One Gaussian, wider than the data."""

    @classmethod
    def candidates(cls, rows: Rows) -> Iterator[tuple[str, Fit]]:
        yield "a wide Gaussian", partial(one_gaussian, wider=WIDER)


class Outliers(Gaussians):
    """One Gaussian, much wider than the data: single far rows must not decide a mean level."""

    least_rows = 0.25

    @classmethod
    def candidates(cls, rows: Rows) -> Iterator[tuple[str, Fit]]:
        if rows.x.shape[1] > FEW_COLUMNS:  # in fewer, the network's own base is wide
            yield "outliers", partial(one_gaussian, wider=OUTSIDE)


class Kernels(Gaussians):
    """Round Gaussians at the points."""

    @classmethod
    def candidates(cls, rows: Rows) -> Iterator[tuple[str, Fit]]:
        for width in WIDTHS:
            yield f"kernels {width:g} wide", partial(kernels, width=width)


class Mixture(Gaussians):
    """Mixtures of several sizes, and one that begins with the means of the clusters."""

    @classmethod
    def candidates(cls, rows: Rows) -> Iterator[tuple[str, Fit]]:
        """Larger ones as long as they are better on rows that they were not fitted to."""
        mixture = partial(gaussian_mixture, seed=rows.seed)
        if rows.labels is not None:
            x, own = rows.x[rows.numbers], rows.labels[rows.numbers]
            means = np.array([x[own == k].mean(0) for k in np.unique(own)])
            begun = partial(mixture, n_components=len(means), means_init=means)
            yield "a mixture that begins with the clusters", begun
        several = partial(mixture, starts=STARTS if rows.x.shape[1] <= FEW_COLUMNS else 1)
        best, worse = -math.inf, 0
        fitted_to = len(rows.numbers) - len(rows.folds[0])
        for c in COMPONENTS:
            if c > 1 and c * (FEW_ROWS if c < 20 else MANY_ROWS) > fitted_to:
                return
            fit = partial(several, n_components=c)
            yield f"a mixture of {c}", fit
            level = float(rows.held_out(fit).mean())
            best, worse = (level, 0) if level > best else (best, worse + 1)
            if worse == PATIENCE:
                return


def one_gaussian(x: np.ndarray, wider: float = 1.0) -> Gaussians:
    """With the mean of the data, and deviations `wider` times as large."""
    spread = np.atleast_2d(np.cov(x.T, bias=True)) * wider**2 + FLOOR * np.eye(x.shape[1])
    factor = torch.from_numpy(np.linalg.cholesky(spread))
    return Gaussians.full(torch.ones(1).double(), torch.from_numpy(x.mean(0))[None], factor[None])


def gaussian_mixture(
    x: np.ndarray,
    n_components: int,
    seed: int,
    floor: float = FLOOR,
    rounds: int = 100,
    starts: int = 1,
    **start: np.ndarray,
) -> Gaussians:
    """Fitted by scikit-learn's expectation maximisation, with covariances of any shape.

    It starts from points of the data, far from each other, or from the values of `start`; `floor`
    is added to variances. With several starts it is the mean of that many mixtures.
    """
    rows = x[evenly_spaced(len(x), MOST_ROWS)]
    fits = []
    for k in range(min(starts, n_components)):
        mixture = GaussianMixture(
            n_components,
            reg_covar=floor,
            max_iter=rounds,
            tol=RISE,
            random_state=seed + k,
            init_params="k-means++",
            **start,
        )
        with fitting():
            mixture.fit(rows)
        parts = (mixture.weights_, mixture.means_, np.linalg.cholesky(mixture.covariances_))
        fits.append(Gaussians.full(*(torch.from_numpy(own.astype(np.float64)) for own in parts)))
    equal = torch.full((len(fits),), -math.log(len(fits)), dtype=torch.float64)
    return Gaussians.mixed(fits, equal)


def kernels(x: np.ndarray, width: float, most: int = MOST_KERNELS) -> Gaussians:
    """A round Gaussian at each point, or at evenly spaced ones, in units of its neighbourhood."""
    points = x[evenly_spaced(len(x), most)]
    k = min(NEIGHBOUR, len(points) - 1)
    away = NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(points)[0][:, -1]
    widths = torch.from_numpy(width * away / np.sqrt(x.shape[1])).clamp_min(FLOOR**0.5)
    return Gaussians.round(torch.from_numpy(points), widths)
