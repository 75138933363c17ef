"""A goodness-of-fit test without the normaliser: the kernel Stein discrepancy.

Chwialkowski, Strathmann and Gretton (2016), Liu, Lee and Jordan (2016): with the score s(x), the
gradient of the log-density, and a kernel k, the mean over pairs of

    s(x)'s(y) k + s(x)'k_y + s(y)'k_x + trace k_xy

is 0 if and only if the points come from the density. Random signs of the points give its null
distribution (wild bootstrap).
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

DRAWS = 500


def stein_kernel(x: Tensor, score: Tensor) -> Tensor:
    """The matrix of the terms above, for the kernel (1 + |x - y|^2 / w)^(-1/2): (n, n).

    w is the median squared distance.  x, score: (n, d).
    """
    d = x.shape[1]
    squares = torch.cdist(x, x).square()
    off = ~torch.eye(len(x), dtype=torch.bool, device=x.device)
    w = squares[off].median().clamp_min(1e-12)
    inner = 1 + squares / w
    k, slope = inner**-0.5, -(inner**-1.5) / w  # the kernel, and k_x = slope * (x - y)
    # (s(x) - s(y))'(x - y) by products: all differences of images would take gigabytes.
    cross = score @ (x - x.mean(0)).T
    towards = cross.diagonal()[:, None] + cross.diagonal() - cross - cross.T
    trace = -d * slope - 3 * squares * inner**-2.5 / w**2
    return (score @ score.T) * k - towards * slope + trace


def stein_test(x: Tensor, score: Tensor, generator: Generator) -> tuple[float, float]:
    """The squared discrepancy of points and scores, and its p-value.

    Pairs of a point with itself are left out.
    """
    h = stein_kernel(x, score)
    h.fill_diagonal_(0)
    n = len(x)
    signs = torch.randint(2, (DRAWS, n), generator=generator, device=h.device).to(h) * 2 - 1
    null = ((signs @ h) * signs).sum(1) / (n * (n - 1))
    found = h.sum() / (n * (n - 1))
    return float(found), float((1 + (null >= found).sum()) / (1 + DRAWS))
