"""Whether a number of the paper is reproduced: one rule, for every page of results.

What decides is the 95% confidence interval of the difference of the means, ours minus the paper's,
beside a margin of fixed size. A wide result has a wide interval, and cannot pass.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from scipy import stats

MARGIN = 0.1  # of scores between 0 and 1
FID_MARGIN = 0.1  # of the FID, as a share of the paper's
LEAST_SEEDS = 5  # as many as the paper has runs
CONFIDENCE = 0.95
REPRODUCED, UNDECIDED = "reproduced", "undecided"
RULE = (
    f"Verdict: by the {CONFIDENCE:.0%} confidence interval of the difference of the means, ours "
    f"minus the paper's. *Reproduced*: all of it lies within ±{MARGIN:g}, whatever our spread. "
    "*Better*, *worse*: not so, and all of it lies on one side of 0. *Undecided*: all else, and "
    f"whatever has fewer than {LEAST_SEEDS} seeds."
)
WELCH = (
    "The interval is Welch's, of our seeds and the paper's five runs. Both deviations are those of "
    "the runs themselves, divided by n (the paper does not say; this reading makes the interval "
    "wider); the interval uses n - 1. It is widened by 0.005 on both sides, which is what the "
    "paper's two digits leave open."
)


class Published(NamedTuple):
    """A number of the paper."""

    mean: float
    deviation: float = 0.0  # of the runs themselves; 0 also where the paper gives none
    runs: int = 5
    rounding: float = 0.005  # half a unit of its last digit


def interval(ours: Sequence[float], paper: Published) -> tuple[float, float]:
    """Ours minus the paper's: Welch's interval, which is a point where nothing varies."""
    n = len(ours)
    own = statistics.variance(ours) / n
    others = paper.deviation**2 / (paper.runs - 1)  # that with n - 1, divided by n
    half = 0.0
    if own + others > 0:
        freedom = (own + others) ** 2 / (own**2 / (n - 1) + others**2 / (paper.runs - 1))
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(own + others)
    difference, half = statistics.fmean(ours) - paper.mean, half + paper.rounding
    return difference - half, difference + half


def judge(
    ours: Sequence[float], paper: Published, margin: float = MARGIN, low: bool = False
) -> str:
    """The verdict on our seeds; `low` if less is better."""
    if len(ours) < LEAST_SEEDS:
        return f"{UNDECIDED}: fewer than {LEAST_SEEDS} seeds"
    if not all(map(math.isfinite, ours)):
        return f"{UNDECIDED}: not finite"
    least, most = interval(ours, paper)
    if -margin <= least and most <= margin:
        return REPRODUCED
    if least <= 0 <= most:
        return UNDECIDED
    return "better" if (most < 0) == low else "worse"


def shown(ours: Sequence[float], paper: Published, digits: int = 3) -> str:
    """The interval in words; nothing where there are too few seeds for one."""
    if len(ours) < 2 or not all(map(math.isfinite, ours)):
        return ""
    return " to ".join(f"{limit:+.{digits}f}" for limit in interval(ours, paper))


def too_wide(paper: Published, margin: float = MARGIN) -> bool:
    """Whether the paper's runs leave more than the margin beside seeds without any spread."""
    least, most = interval([paper.mean] * LEAST_SEEDS, paper)
    return least < -margin or margin < most
