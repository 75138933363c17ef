"""What `gedi choose` does. Imports torch."""

from __future__ import annotations

import json
from pathlib import Path

from gedilearn.cli.runs import Pictures, read
from gedilearn.errors import InputError
from gedilearn.output import Screen, write_new_text
from gedilearn.selection import Choice, Row, choose_n_clusters
from gedilearn.training.run_directory import plain

HEADS = ("clusters", "gap (nats)", "certified", "stability", "unused", "score", "rank", "seconds")


def choose(
    data: str, most: int, out: Path | None, seed: int, pictures: Pictures, screen: Screen
) -> None:
    """Fit 2 to `most` clusters and recommend a number."""
    if most < 2:
        raise InputError(f"--max {most}: clustering needs at least 2")
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed {seed}: give a number from 0 to 2**32 - 1")
    files = [] if out is None else [out / "choose.json", out / "choose.png"]
    for file in files:
        if file.exists() or file.is_symlink():
            raise InputError(f"{file} exists already: choose another folder")
    if out is not None:  # before the work, so that a folder that cannot be made is said at once
        out.mkdir(parents=True, exist_ok=True)
    x = read(data, pictures, screen).x

    def tell(row: Row) -> None:
        state = "certified" if row["certified"] else "not certified"
        k, gap, seconds = row["n_clusters"], row["gap"], row["seconds"]
        screen.message(f"{k} clusters: gap {gap:.4f} nats, {state} ({seconds:.1f} s)")

    try:
        choice = choose_n_clusters(x, most, random_state=seed, on_row=tell)
    except InputError as error:
        raise InputError(str(error).replace("max_clusters=", "--max ")) from None
    if out is not None:
        from gedilearn.report.figures import choice_figure

        write_new_text(files[0], json.dumps(plain(choice.to_json()), indent=1) + "\n")
        choice_figure(choice, files[1])
    _show(choice, files, screen)


def _show(choice: Choice, files: list[Path], screen: Screen) -> None:
    if screen.json:
        screen.content(choice.to_json() | ({"out": str(files[0].parent)} if files else {}))
        return
    rows = [
        (
            str(row["n_clusters"]),
            f"{row['gap']:.4f}",
            "yes" if row["certified"] else "no",
            f"{row['stability']:.2f}",
            str(row["unused"]),
            f"{row['score']:.2f}",
            str(row["rank"]),
            f"{row['seconds']:.1f}",
        )
        for row in choice.rows
    ]
    written = [f"written: {file}" for file in files]
    screen.table(HEADS, rows, ["", choice.recommendation, *written])
