"""Views x -> x': the distribution T(x'|x) under which predictions must not change.

All views work on batches of data in the network's units, on the data's device. They draw from the
given generator. A user's function without this argument draws from torch's global generators, which
the caller then seeds (`draws_globally`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from gedilearn.data.image_views import grey_views, paper_views
from gedilearn.errors import InputError
from gedilearn.fields import Schedule, value_at
from gedilearn.graph.neighbours import distance_features
from gedilearn.graph.walks import Nodes, WalkTables, draw, find_nodes, node_tables, resample
from gedilearn.registry import VIEWS
from gedilearn.settings import Views as ViewSettings


class Views(Protocol):
    """Draws one view for each point of a batch of its data set.

    `annealed`: whether the distribution changes with the training's progress.
    """

    annealed: bool

    def draw(self, index: Tensor, x: Tensor, progress: float, generator: Generator) -> Tensor:
        """Views of x = data[index], (batch, ...), at `progress` in [0, 1] of the training."""
        ...

    def certify(self, index: Tensor, x: Tensor, generator: Generator) -> Tensor:
        """Views for the certificate, which do not change during the training."""
        return self.draw(index, x, 0.0, generator)


# What `registry.VIEWS` holds: (settings, data, n_clusters, seed) -> views of that data.
MakeViews = Callable[[ViewSettings, Tensor, int, int], Views]


class CallableViews(Views):
    """Any function x -> x' of a batch.

    A function with an argument `generator` receives the torch.Generator to draw from. Any other one
    draws from torch's global generators.
    """

    annealed = False

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self.function = function
        self.takes_generator = _takes_generator(function)

    def draw(self, index: Tensor, x: Tensor, progress: float, generator: Generator) -> Tensor:
        given: dict[str, Any] = {"generator": generator} if self.takes_generator else {}
        view = self.function(x, **given)
        if not isinstance(view, Tensor) or view.shape != x.shape:
            got = tuple(view.shape) if isinstance(view, Tensor) else type(view).__name__
            raise InputError(
                f"views: the function must return a tensor of the batch's shape {tuple(x.shape)}, "
                f"got {got}"
            )
        return view.to(x)  # of the batch's type and on its device


def _takes_generator(function: Callable[..., Tensor]) -> bool:
    try:
        return "generator" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False


def draws_globally(views: Views) -> bool:
    """Whether they may draw from torch's global generators: a function without a generator."""
    return isinstance(views, CallableViews) and not views.takes_generator


class NoiseViews(Views):
    """x' = x + sigma * standard normal noise: the toy views of the paper.

    `sigma` may be a schedule over the training's progress; the certificate uses its first value.
    """

    def __init__(self, sigma: Schedule) -> None:
        self.sigma = sigma
        self.annealed = isinstance(sigma, tuple)

    def draw(self, index: Tensor, x: Tensor, progress: float, generator: Generator) -> Tensor:
        return x + value_at(self.sigma, progress) * torch.empty_like(x).normal_(generator=generator)


# The share of the training with the longest walks, before their length is halved in stages.
HOLD = 0.25


class WalkViews(Views):
    """x' = the end of a random walk on the nearest-neighbour graph, plus a little noise.

    Near the uniform prediction, INV amplifies every split with a correlation above 1/2 between the
    two ends of a walk. Under small noise nearly all smooth splits have it, and the smoothest one
    wins, right or wrong. Under walks so long that about as many modes as clusters survive, only the
    true ones have it. The length is then halved until single steps fix the boundary. The
    certificate is measured under the longest walks, which show a wrong split, without noise.

    `noise` is the length of the noise vector in units of the end point's distance to its last
    neighbour. In many dimensions, the same noise in every coordinate would move views far from the
    data, where the network distinguishes views from points.
    """

    annealed = True

    def __init__(self, data: Tensor, tables: WalkTables, noise: float) -> None:
        self.data = data
        self.tables = tables
        self.noise = noise
        self.sigma = (noise * tables.radius / math.sqrt(data.shape[1]))[:, None]

    def steps(self, progress: float) -> int:
        """The length of walks at `progress`: the longest, then half of it, ..., 1."""
        if progress < HOLD:
            return self.tables.longest
        levels = self.tables.longest.bit_length()
        stage = int((progress - HOLD) / (1 - HOLD) * levels) + 1
        return max(self.tables.longest >> stage, 1)

    def draw(self, index: Tensor, x: Tensor, progress: float, generator: Generator) -> Tensor:
        end = draw(self.tables, index, self.steps(progress), generator)
        if not self.noise:
            return self.data[end]
        noise = torch.empty_like(x).normal_(generator=generator)
        return self.data[end] + self.sigma[end] * noise

    def resampled(self, seed: int) -> WalkViews:
        """Views by new walks on the same graph."""
        return WalkViews(self.data, resample(self.tables, seed), self.noise)

    def certify(self, index: Tensor, x: Tensor, generator: Generator) -> Tensor:
        return self.data[draw(self.tables, index, self.tables.longest, generator)]


def walk_views(
    settings: ViewSettings,
    data: Tensor,
    n_clusters: int,
    seed: int,
    nodes: Nodes | None = None,
    metric: str = "euclidean",
) -> Views:
    """'walk': random walks on the nearest-neighbour graph of vectors; see `make_views`."""
    if data.dim() != 2:
        raise InputError(f"views.kind='walk' needs vectors (n, d), got {tuple(data.shape)}")
    if nodes is None:
        points = distance_features(data.cpu().numpy(), seed, metric)
        nodes = find_nodes(points, n_clusters, settings.n_neighbors, seed)
    options: Any = {"n_neighbors": settings.n_neighbors, "random_state": seed}
    if settings.longest is not None:
        options["max_levels"] = settings.longest.bit_length()
    tables = node_tables(nodes, n_clusters, **options)
    return WalkViews(data, tables.to(data.device), settings.walk_noise)


def noise_views(settings: ViewSettings, data: Tensor, n_clusters: int, seed: int) -> Views:
    """'noise': Gaussian noise on data of any kind."""
    return NoiseViews(settings.noise)


def _image_views(kind: str) -> MakeViews:
    def make(settings: ViewSettings, data: Tensor, n_clusters: int, seed: int) -> Views:
        if data.dim() != 4:
            raise InputError(
                f"views.kind={kind!r} needs images (n, c, h, w), got {tuple(data.shape)}"
            )
        black, white = settings.pixels
        middle, half = (black + white) / 2, (white - black) / 2
        noise = value_at(settings.noise, 0.0) / half  # a number, for images
        view = grey_views(noise) if kind == "grey" else paper_views(noise, settings.flip)
        if (middle, half) == (0, 1):  # the units of views
            return CallableViews(view)
        return CallableViews(
            lambda x, generator: view((x - middle) / half, generator) * half + middle
        )

    return make


grey, paper = map(_image_views, ("grey", "paper"))


def make_views(
    settings: ViewSettings,
    data: Tensor,
    n_clusters: int,
    seed: int,
    function: Callable[..., Tensor] | None = None,
    nodes: Nodes | None = None,
    metric: str = "euclidean",
) -> Views:
    """The views of the settings, for this data set.  data: (n, ...).

    `nodes` are those of the neighbour graph, if they were found before; `metric` is its metric.
    """
    if function is not None:
        return CallableViews(function)
    make: MakeViews = VIEWS[settings.kind]
    if make is walk_views:
        return walk_views(settings, data, n_clusters, seed, nodes, metric)
    return make(settings, data, n_clusters, seed)
