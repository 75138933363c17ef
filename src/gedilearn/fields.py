"""The kinds of values that settings have, and the base class of their sections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

# Images with a shorter side above this are averaged down before the first convolution, by a whole
# factor: what tells pictures apart is mostly still there, and one of 64x64 costs a quarter.
LARGE = 48


def is_images(shape: tuple[int, ...]) -> bool:
    """Whether data of this shape is images (n, channels, height, width), not vectors (n, d)."""
    return len(shape) == 4


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
    if not all(0 <= level < math.inf for _, level in pairs):
        raise ValueError("values must be finite, 0 or more")
    return pairs[0][1] if constant else tuple(pairs)


# A number, or (progress, value) points joined by lines.
Schedule = Annotated[float | tuple[tuple[float, float], ...], BeforeValidator(_schedule)]
# The width of a layer, and a number of chains or past points: what is larger fits no machine.
Width = Annotated[int, Field(ge=1, le=1_000_000)]
MOST = 100_000_000
Many = Annotated[int, Field(ge=1, le=MOST)]
SMALLEST, LARGEST = 1e-30, 1e30  # numbers whose products single precision mostly holds
Share = Annotated[float, Field(ge=0, lt=1)]


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


Self = TypeVar("Self", bound="Section")
AUTO = "auto"


class Section(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _in_single_precision(cls, value: Any) -> Any:
        levels = value if isinstance(value, tuple) else (value,)
        for level in levels:
            number = level[-1] if isinstance(level, tuple) else level
            if isinstance(number, float) and number and not SMALLEST <= abs(number) <= LARGEST:
                raise ValueError(f"numbers are computed with from {SMALLEST:g} to {LARGEST:g}")
        return value

    def resolved(self: Self, settings: Any, shape: tuple[int, ...]) -> Self:
        """The section for data of this shape, in these `Settings`: nothing is left open."""
        return self


@dataclass(frozen=True)
class NetworkShape:
    """What a method asks of the network beside the settings of the network."""

    batch_norm: bool = False  # between layers
    embedding: int | None = None  # width of the vectors that prototypes are compared with, if any
    temperature: float | None = None  # None is that of the settings


class MethodSettings(Section):
    """The settings of a method, and the facts about it that need no torch."""

    weighted: ClassVar[tuple[str, ...]] = ()  # which of GEN, INV and PRIOR it has

    def network(self) -> NetworkShape:
        """What the method asks of the network."""
        return NetworkShape()
