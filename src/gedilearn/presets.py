"""Presets: named sets of settings, found by name and loaded when they are used."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from gedilearn.registry import METHODS, PRESETS

Values = dict[str, Any]


class Preset(NamedTuple):
    """Settings under a name.

    about: what they are, in a sentence
    values: the nested settings
    changes: what single methods change in them, by method and section
    """

    about: str
    values: Values
    changes: dict[str, dict[str, Values]] = {}  # noqa: RUF012


DEFAULT = Preset("The library's own settings.", {})


def preset(name: str, method: str | None = None) -> Values:
    """A copy of the nested settings of a preset; with `method`, those of that method."""
    chosen: Preset = PRESETS[name]
    values = deepcopy(chosen.values)
    if method is None:
        return values
    values["method"] = METHODS.check(method)
    for section, changed in chosen.changes.get(method, {}).items():
        values[section] = values.get(section, {}) | changed
    return values
