"""What a base is made of: a weighted sum of densities, each the best of its kind or several.

Weights are chosen on rows that a candidate was not fitted to. Cheap candidates are fitted several
times: without each fold of the rows, without all held-out rows, and to all rows. A costly one is
trained once, on the training rows, and weighed on the validation rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Generator, Tensor, nn

from gedilearn.registry import PARTS

FOLDS = 3  # of the rows; as many are held out in turn as give
ENOUGH = 300  # rows that weights are chosen with
MOST_IN_FOLD = 1_000
LEAST_WEIGHT = 0.03
SHOWN = 0.005  # a weight in words
PRIOR_ROWS = 1.0  # for each of two parts: outliers that validation rows lack stay possible


class Part(Protocol):
    """A density that can be part of a base: a module whose constructor takes its tensors.

    Those of its class are named in `registry.PARTS`. Its constructor gets the tensors of
    `state_dict` by name. If `once` is there and true, a candidate is fitted once, to the training
    rows. If `least_rows` is there, its weight is that of so many rows at least. If more than one of
    its candidates may be kept, it has `mixed`, as `Gaussians` has.
    """

    @classmethod
    def candidates(cls, rows: Rows) -> Iterable[tuple[str, Fit]]:
        """The names of candidates, and functions that fit them to points (m, d)."""
        ...

    def log_density(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), with gradients."""
        ...

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        ...


Fit = Callable[[np.ndarray], Any]  # of points (m, d): gives a `Part`


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that candidates are fitted to and compared on."""

    x: np.ndarray  # (n, d): all rows
    labels: np.ndarray | None  # (n,): of their initial clustering
    validation: np.ndarray  # (v,): numbers of rows
    training: np.ndarray  # (t,)
    seed: int
    _levels: dict[Fit, Tensor] = field(default_factory=dict)

    @cached_property
    def numbers(self) -> np.ndarray:
        """Validation rows, then training rows: (v + t,)."""
        return np.concatenate([self.validation, self.training])

    @cached_property
    def folds(self) -> list[np.ndarray]:
        """Numbers of rows that are held out in turn; the first begins with the validation rows."""
        each = max(1, min(len(self.numbers) // FOLDS, MOST_IN_FOLD))
        n_folds = min(FOLDS, -(-ENOUGH // each))
        return [self.numbers[k * each : (k + 1) * each] for k in range(n_folds)]

    def held_out(self, fit: Fit) -> Tensor:
        """Log densities of the rows of all folds, each fitted without its own: (rows,)."""
        if fit not in self._levels:
            others = ((fit(self.x[np.setdiff1d(self.numbers, own)]), own) for own in self.folds)
            levels = [part.log_density(torch.from_numpy(self.x[own])) for part, own in others]
            self._levels[fit] = torch.cat(levels)
        return self._levels[fit]


class Sum(nn.Module):
    """sum_k w_k p_k(x), for parts p_k by the names of their kinds."""

    log_weights: Tensor  # (parts,), in the order of the names

    def __init__(self, parts: Mapping[str, nn.Module], log_weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(dict(sorted(parts.items())))
        self.register_buffer("log_weights", torch.stack([log_weights[name] for name in self.parts]))

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> Sum:
        """From the state of another sum."""
        own: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name != "log_weights":
                _, kind, rest = name.split(".", 2)
                own.setdefault(kind, {})[rest] = tensor
        weights = dict(zip(sorted(own), tensors["log_weights"], strict=True))
        return cls({kind: PARTS[kind](**state) for kind, state in own.items()}, weights)

    def __iter__(self) -> Iterator[Any]:
        """The parts, in the order of their names."""
        return iter(self.parts.values())

    def log_density(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), with gradients."""
        levels = torch.stack([part.log_density(x) for part in self], -1)
        return torch.logsumexp(levels + self.log_weights.to(levels), -1)

    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        chosen = torch.multinomial(self.log_weights.exp(), n, True, generator=generator)
        sizes = torch.bincount(chosen, minlength=len(self.parts)).tolist()
        both = zip(self, sizes, strict=True)
        drawn = [part.sample(size, generator) for part, size in both if size]
        return torch.cat(drawn)[chosen.argsort(stable=True).argsort()]  # each where it was chosen


def weighted(rows: Rows) -> tuple[str, Callable[[np.ndarray], Sum]]:
    """The registered candidates, with the weights under which held-out rows are likeliest.

    First the cheap ones, all at once; those of little weight are dropped. Then those that are
    trained once, one after another. Such a one is kept if validation rows are likelier with it by
    more than the standard error of that difference. Gives the name of the sum, and the function
    that fits it to points (m, d).
    """
    cheap = [kind for kind in PARTS if not getattr(PARTS[kind], "once", False)]
    chosen = [(kind, *own) for kind in cheap for own in PARTS[kind].candidates(rows)]
    levels = torch.stack([rows.held_out(fit) for _, _, fit in chosen], -1)
    least = torch.tensor([getattr(PARTS[kind], "least_rows", 0.0) for kind, _, _ in chosen])
    large = mixing_weights(levels, least).exp() > LEAST_WEIGHT
    kept = (large | (least > 0)).nonzero()[:, 0]
    chosen, levels, least = [chosen[k] for k in kept], levels[:, kept], least[kept]
    weights = mixing_weights(levels, least)
    fresh = torch.from_numpy(rows.x[rows.validation])
    level = torch.logsumexp(levels + weights, -1)[: len(fresh)]
    for kind in (kind for kind in PARTS if kind not in cheap):
        for name, fit in PARTS[kind].candidates(rows):
            part = fit(rows.x[rows.training])
            both = torch.stack([level, part.log_density(fresh)], -1)
            shares = mixing_weights(both, torch.full((2,), PRIOR_ROWS))
            joined = torch.logsumexp(both + shares, -1)
            gain = joined - level
            if shares[1].exp() > LEAST_WEIGHT and gain.mean() > gain.std() / len(gain) ** 0.5:
                chosen.append((kind, name, lambda _, part=part: part))
                weights, level = torch.cat([weights + shares[0], shares[1:]]), joined
    by_weight = sorted(zip(weights.exp().tolist(), chosen, strict=True), key=lambda own: -own[0])
    shown = [(name, share) for share, (_, name, _) in by_weight if share >= SHOWN]
    words = ", ".join(f"{name} ({share:.0%})" for name, share in shown)

    def fitted(points: np.ndarray) -> Sum:
        parts, log_weights = {}, {}
        for kind in dict.fromkeys(kind for kind, _, _ in chosen):
            own = [k for k, one in enumerate(chosen) if one[0] == kind]
            made = [chosen[k][2](points) for k in own]
            log_weights[kind] = weights[own].logsumexp(0)
            inner = weights[own] - log_weights[kind]
            parts[kind] = made[0] if len(own) == 1 else PARTS[kind].mixed(made, inner)
        return Sum(parts, log_weights)

    return words, fitted


def mixing_weights(log_densities: Tensor, prior: Tensor | None = None, rounds: int = 100) -> Tensor:
    """The logarithms of the weights under which a sum of densities is likeliest.

    Expectation maximisation, with `prior` more rows that a part has for itself: its weight does not
    become 0.  (n, parts), (parts,) -> (parts,).
    """
    n = len(log_densities)
    prior = torch.zeros_like(log_densities[0]) if prior is None else prior.to(log_densities)
    weights = torch.zeros_like(log_densities[0]).log_softmax(0)
    for _ in range(rounds):
        shares = (log_densities + weights).softmax(1).sum(0) + prior
        weights = shares.log() - torch.log(n + prior.sum())
    return weights
