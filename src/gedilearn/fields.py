"""The kinds of values that settings have, and the base of their sections. No torch here."""

from __future__ import annotations

from numbers import Real
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """Settings that belong together; the text below each says what it means."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _schedule(value: Any) -> Any:
    """A number, or (progress, value) points as a tuple; anything else is refused."""
    constant = isinstance(value, Real | str)  # YAML reads 1e-3 as text
    points = [(0.0, value)] if constant else value
    try:
        pairs = [(float(progress), float(level)) for progress, level in points]
    except (TypeError, ValueError, OverflowError):
        pairs = []
    moments = [progress for progress, _ in pairs]
    in_order = moments == sorted(moments) and all(0 <= progress <= 1 for progress in moments)
    if not pairs or not in_order:
        raise ValueError("give a number, or (progress, value) points, progress from 0 to 1")
    if not all(0 <= level <= LARGEST for _, level in pairs):
        raise ValueError(f"values must be from 0 to {LARGEST:g}")
    return pairs[0][1] if constant else tuple(pairs)


LARGEST = 1e30  # beyond it torch refuses numbers in single precision

# A number, or (progress, value) points joined by lines.
Schedule = Annotated[float | tuple[tuple[float, float], ...], BeforeValidator(_schedule)]
Positive = Annotated[float, Field(gt=0, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
# The width of a layer, and a number of chains or past points: what is larger fits no machine.
Width = Annotated[int, Field(ge=1, le=1_000_000)]
MOST = 100_000_000
Many = Annotated[int, Field(ge=1, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Ranks = Annotated[int, Field(ge=1, le=1024)]


def value_at(schedule: float | tuple[tuple[float, float], ...], progress: float) -> float:
    """The value at `progress` in [0, 1]: linear between the points of a schedule, flat outside."""
    if not isinstance(schedule, tuple):
        return float(schedule)
    before = schedule[0]
    for point in schedule:
        if progress < point[0]:
            share = (progress - before[0]) / (point[0] - before[0]) if point != before else 0.0
            return before[1] + share * (point[1] - before[1])
        before = point
    return before[1]


def raised(
    schedule: float | tuple[tuple[float, float], ...], amount: float
) -> float | tuple[tuple[float, float], ...]:
    """The schedule with `amount` added throughout."""
    if not isinstance(schedule, tuple):
        return schedule + amount
    return tuple((progress, value + amount) for progress, value in schedule)
