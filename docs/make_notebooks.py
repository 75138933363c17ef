"""Notebooks of the tutorials: the same text and code, without outputs.

python docs/make_notebooks.py     writes docs/notebooks/NAME.ipynb for every docs/tutorials/NAME.md

Python blocks become cells of code. The commands of console blocks become cells too, with `!`
before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TUTORIALS, NOTEBOOKS = HERE / "tutorials", HERE / "notebooks"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
SHELLS = ("console", "sh", "shell", "bash")


class Block(NamedTuple):
    """A piece of a page: words, or what stands in a fence; `kind` is '' for words."""

    kind: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """The pieces of a page of Markdown, in order."""
    at = 0
    for fence in FENCE.finditer(page):
        yield Block("", page[at : fence.start()])
        yield Block(fence[1] or "text", fence[2])
        at = fence.end()
    yield Block("", page[at:])


def commands(text: str) -> list[str]:
    """The lines of a console block that call `gedi`, with or without a prompt."""
    lines = (line.removeprefix("$ ").strip() for line in text.splitlines())
    return [line for line in lines if line.startswith("gedi ")]


def notebook(page: str) -> dict[str, Any]:
    """The page as a notebook."""
    cells: list[dict[str, Any]] = []
    for kind, text in blocks(page):
        if kind == "python":
            cells.append(_code(text))
        elif kind in SHELLS and commands(text):
            cells.append(_code("\n".join(f"!{line}" for line in commands(text))))
        else:
            words = text if not kind else f"```{kind}\n{text}```\n"
            if words.strip():
                cells.append(
                    {"cell_type": "markdown", "metadata": {}, "source": _lines(_unlink(words))}
                )
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _unlink(words: str) -> str:
    """A notebook is read alone: links to other pages become their words."""
    words = re.sub(r" It is\s+also a\s+\[notebook\]\([^)]*\)\.", "", words)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", words)


def _code(text: str) -> dict[str, Any]:
    source = _lines(text)
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source,
    }


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def main() -> None:
    """Write all of them."""
    NOTEBOOKS.mkdir(exist_ok=True)
    for page in sorted(TUTORIALS.glob("*.md")):
        found = notebook(page.read_text(encoding="utf-8"))
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        (NOTEBOOKS / f"{page.stem}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
