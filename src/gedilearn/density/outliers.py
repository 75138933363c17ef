"""How unusual a row is among the bulk of the training rows.

A density of all rows gives a group of outliers a component of its own. A small subsample has few
rows of such a group, and shows them as unusual. Each subsample has kernels at its rows, in a few
columns drawn at random. A row has a p-value there: the share of the subsample's rows that are at
least as unlikely, each without its own kernel. The outlier score is the mean over subsamples of
-log p + 3 log(1 + z), where z says by how many spreads of the subsample's log densities a row is
below their median.

The scores of the training rows give p-values of new rows (conformal prediction). They cannot name
outliers among the training rows: of n rows one is always the most unusual. There the tail of the
mean of z is extrapolated from the bulk, as exponential.
"""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
import torch
from torch import Tensor, nn

from gedilearn.data.arrays import evenly_spaced
from gedilearn.density.candidates import kernels
from gedilearn.errors import InputError
from gedilearn.ranks import ONE_AT_A_TIME

# Subsamples; rows of each, at most half of all; columns. Along principal directions rows differ a
# little in all of many, so that a few say nothing.
TIMES, SIZE, COLUMNS = 50, 128, 6
IN_DIRECTIONS = 10, 2_000, 64
NARROWEST = 0.03  # kernel, in the network's units
FAR = 3.0  # weight of log(1 + z): one cell far away is in few of the subsamples
LEAST_SPREAD = 0.1  # of log densities
TAIL = (0.5, 0.9)  # quantiles of the mean z between which its tail is measured
GROUP_SHARE, GROUP_ROWS = 0.01, 10  # the most rows of a group of outliers
GROUP_LEVEL = 0.05  # at which most of its rows are named
MOST_SCORED = 20_000  # training rows whose scores a model keeps
AT_ONCE = 4_096  # rows
FARTHEST = 1e9  # value, in the network's units: squares of larger ones are no numbers
SMALLEST = 1e-6
PRIME = 1_000_003  # of the checksums that find equal rows


class Subsamples(nn.Module):
    """Kernels at the rows of subsamples, in the network's units."""

    columns: Tensor  # (times, q): numbers of the columns of each subsample
    rows: Tensor  # (times, size, d)
    widths: Tensor  # (times, size): of the kernels
    own: Tensor  # (times, size): levels of the rows, each without its own kernel; ascending
    scores: Tensor  # (n,): of the training rows, ascending
    tail: Tensor  # (2,): the quantiles `TAIL` of the mean z of the training rows

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        for name in ("columns", "rows", "widths", "own", "scores", "tail"):
            self.register_buffer(name, tensors[name])

    @classmethod
    def of(cls, x: Tensor, seed: int, in_directions: bool = False) -> Subsamples:
        """Drawn from the training rows x (n, d), columns or values along principal directions."""
        rng, (n, d) = np.random.default_rng(seed), x.shape
        times, size, most = IN_DIRECTIONS if in_directions else (TIMES, SIZE, COLUMNS)
        size = min(size, n // 2)
        x, drawn = x.float(), range(times)
        rows = x[torch.from_numpy(np.stack([rng.choice(n, size, replace=False) for _ in drawn]))]
        columns = np.stack([rng.choice(d, min(most, d), replace=False) for _ in drawn])
        each = zip(rows.double().numpy(), columns, strict=True)
        with ONE_AT_A_TIME:
            widths = torch.stack([kernels(own[:, used], 1.0).round_widths for own, used in each])
        made = cls(
            columns=torch.from_numpy(columns),
            rows=rows,
            widths=widths.float().clamp_min(NARROWEST),
            own=torch.zeros(times, size),
            scores=torch.zeros(0),
            tail=torch.zeros(2),
        )
        keys = made._keys
        own = [made._levels(rows[t], keys[t], keys[t], t) for t in drawn]
        made.own = torch.stack(own).sort().values
        scores, z = made.measured(x[torch.from_numpy(evenly_spaced(n, MOST_SCORED))])
        made.scores, made.tail = scores.sort().values, torch.quantile(z, torch.tensor(TAIL))
        return made

    @property
    def _keys(self) -> Tensor:
        """The checksums of the rows: (times, size)."""
        return _checksums(self.rows.flatten(0, 1)).view(self.widths.shape)

    def _levels(self, x: Tensor, keys: Tensor, at: Tensor, t: int) -> Tensor:
        """Log densities of the nearest kernel of subsample t, up to a constant.

        One at the row itself, whose checksum in `keys` is in `at`, does not count; 0 is none.
        (n, d), (n,), (size,) -> (n,).
        """
        used, widths = self.columns[t], self.widths[t]
        means, precisions = self.rows[t][:, used], 0.5 / widths.square()
        y = x[:, used]
        # -|y - mean|^2 precision - q log(width), as one product of matrices.
        fixed = -precisions * means.square().sum(1) - len(used) * widths.log()
        factors = torch.cat([2 * precisions * means.T, -precisions[None], fixed[None]])
        y = torch.cat([y, y.square().sum(1, keepdim=True), torch.ones_like(y[:, :1])], 1)
        terms = y @ factors
        known = keys.nonzero()[:, 0]
        same = keys[known, None] == at
        terms[known] = terms[known].masked_fill(same & (same.cumsum(1) == 1), -torch.inf)
        return terms.amax(1)

    @torch.no_grad()
    def measured(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The outlier scores of rows, higher for more unusual ones, and their mean z.

        (n, d) -> (n,), (n,).
        """
        parts = [self._measured(part) for part in torch.split(x, AT_ONCE)]
        scores, z = map(torch.cat, zip(*parts, strict=True))
        return scores, z

    def _measured(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.float().nan_to_num(FARTHEST).clamp(-FARTHEST, FARTHEST)
        keys, scores, total = _checksums(x), torch.zeros(len(x)), torch.zeros(len(x))
        of_rows = self._keys
        keys[~torch.isin(keys, of_rows)] = 0
        for t, own in enumerate(self.own):
            levels = self._levels(x, keys, of_rows[t], t)
            p = (1 + torch.searchsorted(own, levels, right=True)) / (len(own) + 1)
            quarter, middle = own[len(own) // 4], own[len(own) // 2]
            z = (middle - levels) / (middle - quarter).clamp_min(LEAST_SPREAD)
            scores += FAR * z.clamp_min(0).log1p() - p.log()
            total += z
        return scores / len(self.own), total / len(self.own)

    def pvalues(self, scores: Tensor) -> Tensor:
        """(1 + training rows at least as unusual) / (1 + training rows): (n,) -> (n,)."""
        n = len(self.scores)
        return (1 + n - torch.searchsorted(self.scores, scores)) / (n + 1)

    def outliers(self, z: Tensor, level: float) -> Tensor:
        """The rows that Benjamini and Hochberg's procedure names at a level: (n,) -> (n,).

        z: their mean z. The p-values are those of the extrapolated tail.
        """
        if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
            raise InputError(f"outliers: level={level!r}; give a number between 0 and 1")
        p = self._beyond(z)
        ordered = p.sort().values
        few = ordered <= level * torch.arange(1, len(p) + 1) / len(p)
        return p <= ordered[few].max() if few.any() else few

    def _beyond(self, z: Tensor) -> Tensor:
        """The p-values of the extrapolated tail: (n,) -> (n,)."""
        middle, high = self.tail.double()
        inside, beyond = (1 - share for share in TAIL)
        rate = math.log(inside / beyond) / (high - middle).clamp_min(SMALLEST)
        p = inside * torch.exp(rate * (middle - z.double()))
        return p.masked_fill(z <= middle, 1.0)

    def are_far(self, x: Tensor, n: int) -> bool:
        """Whether `outliers` names half of x, whatever the rest of n rows is: (m, d)."""
        p = self._beyond(self.measured(x)[1])
        return bool(p.median() <= GROUP_LEVEL * -(-len(p) // 2) / n)


def _checksums(x: Tensor) -> Tensor:
    """Whole numbers that are equal for equal rows: (n, d) -> (n,)."""
    weights = torch.arange(1, x.shape[1] + 1) * PRIME
    return ((x + 0.0).contiguous().view(torch.int32).long() * weights).sum(1)
