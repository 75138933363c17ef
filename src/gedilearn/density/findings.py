"""How far to trust a density, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from gedilearn.density.chains import is_known
from gedilearn.density.importance import CHECKED, HEALTHY

REFUTED = 0.01  # a p-value below it
UNSURE = 0.1  # of what the network adds: an error of log Gamma beyond it is worth a word


@dataclass(frozen=True)
class Findings:
    """How far to trust a density."""

    base: str  # in words
    estimator: str  # of GEN, at the end: 'importance', 'chains' or 'amortised'
    weight: float  # w, of the network
    held_out: float  # mean log p(x), in the network's units, of rows that it was learnt without
    gain: float  # what of it the network adds to the base
    gain_error: float  # the standard error of that
    log_normaliser: float
    log_normaliser_error: float
    effective: float  # share of the proposals that counts
    stein: float  # p-value of a goodness-of-fit test that needs no normaliser
    iterations: int
    diverged: bool = False
    bits: float | None = None  # per dimension, of images; of rows that it was learnt without
    weighted: int = 0  # iterations that were by importance weights
    counted: float | None = None  # effective proposals of `CHECKED` at their last check, if any

    @property
    def choice(self) -> str | None:
        """Why an estimator was taken that was left to the data, in words."""
        if self.counted is None:
            return None
        count = f"{self.counted:.1f} of {CHECKED:,} weighted proposals counted"
        few, healthy = f"fewer than {HEALTHY}", self.counted > HEALTHY
        if self.estimator == "importance":
            lost = f", {few}, but chains from the base were no better"
            return f"importance weights: {count}{'' if healthy else lost}"
        return (
            f"chains from the base instead of importance weights after {self.weighted} iterations: "
            f"{count}, {'but added nothing' if healthy else few}"
        )

    @property
    def verdict(self) -> str:
        """In a few words."""
        words = "the base alone, to which the network adds nothing"
        known = is_known(self.log_normaliser_error, self.effective)
        if self.estimator != "importance" and not known:
            own = ", which draws samples," if self.estimator == "chains" else ""
            words = (
                f"log p(x) is the base's; the normaliser of the network{own} is not known well "
                f"enough for it to count ({self.log_normaliser:.1f} ± "
                f"{self.log_normaliser_error:.1f} nats)"
            )
        if self.weight > 0:
            words = f"the network adds {self.gain:.3f} ± {self.gain_error:.3f} nats to its base"
            if not self.log_normaliser_error < UNSURE * max(self.gain, 1):
                words += f"; its normaliser is unsure by {self.log_normaliser_error:.2g} nats"
        if self.choice and self.estimator != "importance":
            words += f"; {self.choice}"
        if self.diverged:
            words += f"; its training diverged, and ended after {self.iterations} iterations"
        if self.stein < REFUTED:
            words += f"; a test of its fit refutes it (p = {self.stein:.3f})"
        return f"density: {words}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}


# --- Stein test -----------------------------------------------------------------------------------
#
# A goodness-of-fit test that needs no normaliser: the kernel Stein discrepancy.
#
# Chwialkowski, Strathmann and Gretton (2016), Liu, Lee and Jordan (2016): with the score s(x), the
# gradient of the log-density, and a kernel k, the mean over pairs of
#
#     s(x)'s(y) k + s(x)'k_y + s(y)'k_x + trace k_xy
#
# is 0 if and only if the points come from the density. Its null distribution is drawn by giving
# each point a random sign.


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
    away = x[:, None] - x[None]
    towards = ((score[:, None] - score[None]) * away).sum(-1)
    trace = -d * slope - 3 * squares * inner**-2.5 / w**2
    return (score @ score.T) * k - towards * slope + trace


def stein_test(x: Tensor, score: Tensor, generator: Generator) -> tuple[float, float]:
    """The squared discrepancy of points and scores, without the pairs of a point with itself.

    With it, its p-value: the chance of one as large, were the points of the density.
    """
    h = stein_kernel(x, score)
    h.fill_diagonal_(0)
    n = len(x)
    signs = torch.randint(2, (DRAWS, n), generator=generator, device=h.device).to(h) * 2 - 1
    null = ((signs @ h) * signs).sum(1) / (n * (n - 1))
    found = h.sum() / (n * (n - 1))
    return float(found), float((1 + (null >= found).sum()) / (1 + DRAWS))
