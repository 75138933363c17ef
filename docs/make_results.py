"""The pages of docs/results, from the rows in docs/results/rows: no number is typed by hand.

python docs/make_results.py                      makes every page that has rows again
python docs/make_results.py collect NAME OUT     takes rows over first

Taken over is what `gedi reproduce NAME --out OUT` kept: rows, settings, versions, and pictures that
need models; for toy also what `labels`, `generation` and `sensitivity` kept in the same OUT. Other
rows of the page stay; a run is taken off it by removing its files from docs/results/rows.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from gedilearn.errors import InputError
from gedilearn.experiments.kept import runs_in
from gedilearn.experiments.table import Page
from gedilearn.registry import EXPERIMENTS
from gedilearn.io import write_text

RESULTS = Path(__file__).parent / "results"


def names(results: Path = RESULTS) -> list[str]:
    """The experiments that have rows there."""
    rows = results / "rows"
    return [
        name for name in EXPERIMENTS if (rows / name).exists() or (rows / f"{name}.csv").exists()
    ]


def page(name: str, results: Path = RESULTS) -> Page:
    """The page of an experiment, from its rows there."""
    made: Page = EXPERIMENTS[name].page(results / "rows" / name)
    return made


def collect(name: str, out: str | Path, results: Path = RESULTS) -> None:
    """Take over what a command kept in `out`."""
    found = EXPERIMENTS[name].page(Path(out))  # refuses what is no such folder
    for kept in runs_in(Path(out)):
        kept.write(results / "rows" / name / kept.folder.relative_to(out))
    for picture, source in found.pictures.items():
        shutil.copyfile(source, results / picture)


def make(name: str, results: Path = RESULTS) -> None:
    """Write a page, and the figures that come from rows alone."""
    made = page(name, results)
    write_text(results / f"{name}.md", made.text)
    for figure, draw in made.figures.items():
        draw(results / figure)
    print(f"written: {results / name}.md")


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["collect"]:
            collect(*sys.argv[2:4])
        for each in names():
            make(each)
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
