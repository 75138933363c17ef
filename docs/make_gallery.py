"""Runs the scripts of docs/gallery and writes the page that shows them.

python docs/make_gallery.py            runs all scripts, then writes docs/gallery/index.md
python docs/make_gallery.py --page     writes the page alone, from the pictures that are there

A script writes one picture next to itself, under its own name. Its docstring is the title and the
text on the page.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

GALLERY = Path(__file__).parent / "gallery"
ORDER = ("shapes", "no_structure", "trust", "density", "outliers", "digits")
HEAD = """# Gallery

Short scripts and their pictures. `make docs-pages` runs them and writes this page.
"""


def run(script: Path) -> Path:
    """Run a script, and give the picture that it has drawn."""
    environment = os.environ | {"MPLBACKEND": "Agg"}
    subprocess.run([sys.executable, str(script)], check=True, env=environment)
    return script.with_suffix(".png")


def page() -> str:
    """The page, with each script under its picture."""
    parts = [HEAD]
    for name in ORDER:
        source = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        title, _, words = (ast.get_docstring(tree) or name).partition("\n")
        code = source.split('"""', 2)[2].strip()
        parts.append(
            f"## {title}\n\n![{title}]({name}.png)\n\n{words.strip()}\n\n```python\n{code}\n```\n"
        )
    return "\n".join(parts)


def main() -> None:
    """Draw the pictures, unless only the page is wanted, and write the page."""
    if "--page" not in sys.argv:
        for name in ORDER:
            print(run(GALLERY / f"{name}.py"))
    (GALLERY / "index.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
