"""A spline flow: a density that follows bends and edges better than a sum of Gaussians.

Durkan, Bekasov, Murray and Papamakarios (2019), neural spline flows: every column becomes a normal
one by a monotonic spline, whose knots a small network computes from the columns before it. This is
repeated, each time with the columns in the opposite order. The splines are those of zuko.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.candidates import FLOOR, WIDER, one_gaussian
from gedilearn.density.parts import Fit, Rows
from gedilearn.models.adam import Adam

FEWEST_COLUMNS, FEWEST_ROWS = 5, 200  # with fewer, mixtures and kernels are as good
TRANSFORMS, HIDDEN, BINS = 4, (64, 64), 8
BATCH, RATE, DECAY, CLIPPED = 256, 8e-3, 0.3, 5.0  # of Adam; decay as in AdamW
AVERAGED, FIRST = 0.99, 10  # weights are averaged over about 100 steps, at first over fewer
PATIENCE, RISE = 7, 1e-3  # passes over the rows without such a rise on validation rows
MOST_VALUES = 5_000_000  # that it is trained with
SAFE = 0.03  # share of a wide Gaussian in the sum that validation rows stop: outliers do not decide
AT_ONCE = 2_048  # points
FAR = 1e6  # deviations; beyond, splines are not numbers


class Splines(nn.Module):
    """Columns y (n, d) to z (n, d), each by a spline whose knots depend on the columns before it.

    Hidden unit i sees the columns in places up to i mod (d - 1). The knots of a column see the
    units that see earlier columns alone (Germain, Gregor, Murray and Larochelle, 2015).
    """

    def __init__(
        self, d: int, hidden: Sequence[int], bins: int, turned: bool, generator: Generator | None
    ) -> None:
        """`turned`: the last column has the first place. Without a generator weights are unset."""
        super().__init__()
        self.sizes = (bins, bins, bins - 1)  # widths and heights of bins, slopes between them
        self.places = torch.arange(d).flip(0) if turned else torch.arange(d)
        seen = [self.places, *(torch.arange(width) % (d - 1) for width in hidden)]
        seen.append(self.places.repeat_interleave(sum(self.sizes)) - 1)
        self.masks = [own[:, None] >= before for before, own in pairwise(seen)]
        self.weights = nn.ParameterList(torch.empty(mask.shape) for mask in self.masks)
        self.biases = nn.ParameterList(torch.empty(len(mask)) for mask in self.masks)
        for both in zip(self.weights, self.biases, strict=True) if generator else []:
            bound = both[0].shape[1] ** -0.5
            for own in both:
                nn.init.uniform_(own, -bound, bound, generator)

    def of_columns(self, y: Tensor, columns: slice) -> Any:
        """The splines of some columns, given all: for values (n, columns)."""
        from zuko.transforms import MonotonicRQSTransform  # loaded when a flow is used

        *hidden, (weight, mask, bias) = zip(self.weights, self.masks, self.biases, strict=True)
        for own, seen, shift in hidden:
            y = functional.linear(y, own * seen, shift).relu()
        each = (len(self.places), sum(self.sizes))
        weight = (weight * mask).view(*each, -1)[columns].flatten(0, 1)
        knots = functional.linear(y, weight, bias.view(each)[columns].flatten())
        splits = torch.split(knots.view(len(y), -1, each[1]), list(self.sizes), -1)
        return MonotonicRQSTransform(*splits)

    def forward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """z, and log |dz/dy|: (n, d) -> (n, d), (n,)."""
        z, slopes = self.of_columns(y, slice(None)).call_and_ladj(y)
        return z, slopes.sum(-1)

    def inverse(self, z: Tensor) -> Tensor:
        """y of z, one column after the other: (n, d) -> (n, d)."""
        y = torch.zeros_like(z)
        for k in self.places.argsort().tolist():
            own = slice(k, k + 1)
            y[:, own] = self.of_columns(y, own).inv(z[:, own])
        return y


class Flow(nn.Module):
    """In single precision, on columns standardised by the training rows."""

    once = True
    centre: Tensor  # (d,)
    scale: Tensor  # (d,)

    def __init__(self, **tensors: Tensor) -> None:
        """From the tensors of another."""
        super().__init__()
        for name in ("centre", "scale"):
            self.register_buffer(name, tensors[name])
        own = {k.removeprefix("transforms."): t for k, t in tensors.items() if "." in k}
        first, second, last = (len(own[f"0.biases.{k}"]) for k in range(3))
        bins = (last // len(self.centre) + 1) // 3
        n_transforms = len({name.split(".")[0] for name in own})
        self.transforms = _transforms(len(self.centre), n_transforms, (first, second), bins, None)
        self.transforms.load_state_dict(own)
        self.requires_grad_(False)

    @classmethod
    def candidates(cls, rows: Rows) -> Iterator[tuple[str, Fit]]:
        """None where it is not worth its seconds."""
        if rows.x.shape[1] >= FEWEST_COLUMNS and len(rows.training) >= FEWEST_ROWS:
            fit = partial(cls.fit, validation=rows.x[rows.validation], seed=rows.seed)
            yield "a spline flow", fit

    @classmethod
    @torch.enable_grad()
    def fit(cls, x: np.ndarray, validation: np.ndarray, seed: int) -> Flow:
        """Trained on x (n, d) as long as validation rows (v, d) become likelier."""
        x = x[evenly_spaced(len(x), MOST_VALUES // x.shape[1])]
        n, d = x.shape
        generator = Generator().manual_seed(seed)
        centre, scale = map(torch.from_numpy, (x.mean(0), x.std(0).clip(FLOOR**0.5)))
        rows, fresh = (((torch.from_numpy(z) - centre) / scale).float() for z in (x, validation))
        wide = one_gaussian(x, WIDER).log_density(torch.from_numpy(validation))
        least = (wide + scale.log().sum() + math.log(SAFE)).float()
        transforms = _transforms(d, TRANSFORMS, HIDDEN, BINS, generator)
        mean, adam = copy.deepcopy(transforms), Adam(transforms.parameters(), lr=RATE)
        best, patience, step, kept = -math.inf, PATIENCE, 0, mean.state_dict()
        for _ in range(MOST_VALUES // (n * d)):
            for batch in torch.split(torch.randperm(n, generator=generator), BATCH):
                adam.zero_grad()
                loss = -_log_density(transforms, rows[batch]).mean()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(transforms.parameters(), CLIPPED)
                adam.step()
                step += 1
                share = max(1 - AVERAGED, FIRST / (step + FIRST))
                for weight, average in zip(transforms.parameters(), mean.parameters(), strict=True):
                    weight.data.mul_(1 - RATE * DECAY)
                    average.data.lerp_(weight.data, share)
            with torch.no_grad():
                level = _log_density(mean, fresh) + math.log(1 - SAFE)
            level = torch.logaddexp(level, least).mean()
            patience -= 1
            if level > best + RISE:
                best, patience, kept = float(level), PATIENCE, copy.deepcopy(mean.state_dict())
            if not patience:
                break
        trained = {f"transforms.{name}": tensor for name, tensor in kept.items()}
        return cls(centre=centre, scale=scale, **trained)

    def log_density(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,), with gradients."""
        y = ((x - self.centre) / self.scale).clamp(-FAR, FAR).float()
        levels = torch.cat(
            [_log_density(self.transforms, part) for part in torch.split(y, AT_ONCE)]
        )
        return levels.to(x) - self.scale.log().sum().to(x)

    @torch.no_grad()
    def sample(self, n: int, generator: Generator) -> Tensor:
        """Independent points: (n, d)."""
        y = torch.empty(n, len(self.centre)).normal_(generator=generator)
        backwards: list[Any] = list(self.transforms)[::-1]
        for own in backwards:
            y = torch.cat([own.inverse(part) for part in torch.split(y, AT_ONCE)])
        return self.centre + self.scale * y


def _transforms(
    d: int, n: int, hidden: Sequence[int], bins: int, generator: Generator | None
) -> nn.ModuleList:
    """The first of n takes the data."""
    return nn.ModuleList(Splines(d, hidden, bins, k % 2 == 1, generator) for k in range(n))


def _log_density(transforms: Iterable[Any], y: Tensor) -> Tensor:
    """Of standardised points: (n, d) -> (n,)."""
    volume = y.new_zeros(len(y))
    for own in transforms:
        y, more = own(y)
        volume = volume + more
    return volume - y.square().sum(-1) / 2 - y.shape[1] / 2 * math.log(2 * math.pi)
