"""What `gedi data get` and `gedi data list` do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gedilearn.data.published import cache_root, is_cached
from gedilearn.data.published import get as fetch
from gedilearn.data.sources import SOURCES, SPLITS, Source
from gedilearn.output import Screen

HEADS = ("name", "what", "train", "test", "shape", "MB", "here")  # 80 columns must do


def get(name: str, directory: Path | None, screen: Screen) -> None:
    """Fetch a set, or take it from the files in `directory`, into the cache."""
    path = fetch(name, directory, screen.message)
    if screen.json:
        described: dict[str, Any] = json.loads((path / "set.json").read_text(encoding="utf-8"))
        screen.content(described | {"path": str(path)})


def listing(screen: Screen) -> None:
    """Every set that can be fetched, and which are here."""
    rows = [_row(source) for source in SOURCES.values()]
    if screen.json:
        screen.content({"cache": str(cache_root()), "sets": rows})
        return
    shown = [
        (
            row["name"],
            row["about"],
            *(str(row["counts"].get(split, "-")) for split in SPLITS),
            "x".join(map(str, row["shape"])),
            f"{row['download_bytes'] / 1e6:.0f}",
            "yes" if row["cached"] else "no",
        )
        for row in rows
    ]
    screen.table(HEADS, shown, [f"kept in {cache_root()}"])


def _row(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "about": source.about,
        "counts": {split: part.count for split, part in source.splits.items()},
        "shape": list(source.shape),
        "classes": source.classes,
        "download_bytes": sum(file.size for file in source.downloads),
        "cached": is_cached(source.name),
    }
