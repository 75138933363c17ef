"""What tests share."""

from __future__ import annotations

from typing import Any

from gedilearn import GEDI


def gedi(*arguments: Any, **values: Any) -> GEDI:
    """An estimator from arguments and settings together: a name with a dot is a setting."""
    settings = {name: values.pop(name) for name in list(values) if "." in name}
    return GEDI(*arguments, **values, settings=settings)
