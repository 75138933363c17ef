"""The outputs that tutorials show: what their blocks of code and commands print.

python docs/make_outputs.py embeddings     runs docs/tutorials/embeddings.md and writes its outputs

A `text` block right after a block of code or commands holds what its last command, or its code,
prints. The page runs in an empty folder. Run `python docs/make_notebooks.py` afterwards.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import tempfile

from make_notebooks import SHELLS, TUTORIALS, blocks, commands
from typer.testing import CliRunner

from gedilearn.cli import app


def printed(kind: str, text: str, names: dict[str, object]) -> str | None:
    """What a block prints; None if it is no code."""
    if kind == "python":
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(text, names)
        return out.getvalue()
    shown = None
    for line in commands(text) if kind in SHELLS else ():
        done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:], catch_exceptions=False)
        assert done.exit_code == 0, f"{line}\n{done.output}"
        shown = done.stdout
    return shown


def page_with_outputs(page: str) -> str:
    """The page with new outputs."""
    names: dict[str, object] = {"__name__": "__main__"}
    pieces: list[str] = []
    output = None
    for kind, text in blocks(page):
        if kind == "text" and output is not None:
            text = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
        if kind or text.strip():
            output = printed(kind, text, names)
        pieces.append(f"```{kind}\n{text}```\n" if kind else text)
    return "".join(pieces)


def main() -> None:
    """Write those of the pages that are named."""
    os.environ |= {"MPLBACKEND": "Agg", "COLUMNS": "100"}
    for name in sys.argv[1:]:
        path = TUTORIALS / f"{name}.md"
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            page = page_with_outputs(path.read_text(encoding="utf-8"))
            os.chdir(TUTORIALS)
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
