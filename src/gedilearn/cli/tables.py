"""What the commands that keep rows in a folder share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gedilearn.cli.output import Screen


def names(text: str | None) -> list[str] | None:
    """Names with commas between them; None stands for all."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def teller(screen: Screen) -> Callable[[dict[str, Any], int], None]:
    """Says each new row, and how many are still to come."""

    def tell(row: dict[str, Any], left: int) -> None:
        nmi = "" if row["nmi"] is None else f" NMI {row['nmi']:.3f},"
        said = f"{row['data']}, {row['method']}, seed {row['seed']}:{nmi}"
        screen.message(f"{said} {row['seconds']:.1f} s ({left} to go)")

    return tell


@contextmanager
def going_on() -> Iterator[None]:
    """An interruption says how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on from here") from None
