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
    file = Path(__file__).parent / "results" / f"{name}.md"
    try:
        page = EXPERIMENTS[name].page(Path(out))
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
    file.parent.mkdir(exist_ok=True)
    file.write_text(page.text, encoding="utf-8")
    for picture, source in page.pictures.items():
        shutil.copyfile(source, file.parent / picture)
    print(f"written: {file}")


if __name__ == "__main__":
    main(*sys.argv[1:])
