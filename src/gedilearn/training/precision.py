"""Fabric's precisions, without what they change for all threads of the process at once.

Double precision there makes float64 torch's default type during every forward pass. Mixed precision
has every backward pass checked against one flag. Neither is needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lightning_fabric.plugins.precision import DoublePrecision, MixedPrecision, Precision


class Double(DoublePrecision):
    """'64-true'."""

    def tensor_init_context(self) -> AbstractContextManager[None]:
        return nullcontext()

    def convert_output(self, data: Any) -> Any:
        return data


class Mixed(MixedPrecision):
    """'bf16-mixed'; the type of its device is set when it is known."""

    backward = Precision.backward

    def __init__(self) -> None:
        super().__init__("bf16-mixed", "cpu")


PRECISIONS: dict[str, Callable[[], Precision]] = {
    "32-true": Precision,
    "64-true": Double,
    "bf16-mixed": Mixed,
}
