"""What `gedi settings` and `gedi presets` print. Imports neither torch nor numpy."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gedilearn.presets import ABOUT, PRESETS
from gedilearn.settings import IMAGES, known_paths, settings_type


def show_settings() -> None:
    """Every setting, its default as `--set` takes it, and its meaning."""
    defaults = _flat(json.loads(settings_type()().model_dump_json()))
    rows = []
    for path, text in known_paths().items():
        images = json.dumps(IMAGES[path]) if path in IMAGES else ""
        rows.append((path, json.dumps(defaults[path]), images, text))
    _show(("setting", "default", "for images", "meaning"), rows)


def show_presets() -> None:
    """Every preset, what it is, and what it changes, as `--set` would say it."""
    rows = []
    for name, values in PRESETS.items():
        changed = [f"{path}={json.dumps(value)}" for path, value in _flat(values).items()]
        rows.append((name, ABOUT[name], " ".join(changed) or "the defaults of gedi settings"))
    _show(("preset", "about", "settings"), rows)


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": content for inner, content in value.items()}
        else:
            flat[name] = value
    return flat


def _show(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, CSV in a pipe."""
    if not sys.stdout.isatty():
        csv.writer(sys.stdout, lineterminator="\n").writerows([heads, *rows])
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False, emoji=False).print(table)
