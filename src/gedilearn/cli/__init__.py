"""The command line, `gedi ...`. `app` takes further commands: `@app.command()`."""

from gedilearn.cli.app import app, main

# Commands are listed by `gedi --help` in the order of these imports.
# isort: off
from gedilearn.cli import fit, use, prepare, reproduce  # noqa: F401

__all__ = ["app", "main"]
