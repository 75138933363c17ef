"""Write a page of docs/results from the rows of an experiment: no number is typed by hand.

python docs/make_results.py shapes gedi-runs/shapes
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from gedilearn.errors import InputError
from gedilearn.registry import EXPERIMENTS


def main(name: str, out: str) -> None:
    page = Path(__file__).parent / "results" / f"{name}.md"
    try:
        experiment = EXPERIMENTS[name]
        text = experiment.page(Path(out))
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
    page.parent.mkdir(exist_ok=True)
    page.write_text(text, encoding="utf-8")
    for figure, source in experiment.figures(Path(out)).items():
        shutil.copyfile(source, page.parent / figure)
    print(f"written: {page}")


if __name__ == "__main__":
    main(*sys.argv[1:])
