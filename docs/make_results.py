"""Write a page of docs/results from the rows of an experiment: no number is typed by hand.

python docs/make_results.py shapes gedi-runs/shapes
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from gedilearn.errors import InputError
from gedilearn.experiments import gen, image_tables, shapes, toy_tables

PAGES = {
    "gen": gen.page,
    "images": image_tables.page,
    "shapes": shapes.page,
    "toy": toy_tables.page,
}
# Figures that a page shows, by the names it has for them, and where they are.
FIGURES = {"images": image_tables.figures, "toy": toy_tables.figures}


def main(name: str, out: str) -> None:
    page = Path(__file__).parent / "results" / f"{name}.md"
    try:
        text = PAGES[name](Path(out))
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
    page.parent.mkdir(exist_ok=True)
    page.write_text(text, encoding="utf-8")
    for figure, source in FIGURES[name](Path(out)).items() if name in FIGURES else ():
        shutil.copyfile(source, page.parent / figure)
    print(f"written: {page}")


if __name__ == "__main__":
    main(*sys.argv[1:])
