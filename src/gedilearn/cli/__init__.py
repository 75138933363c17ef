"""The command line, `gedi ...`. `app` takes further commands: `@app.command()`."""

from gedilearn.cli.app import app, main

# Commands are listed by `gedi --help` in the order of these imports.
# isort: off
from gedilearn.cli import fit as fit
from gedilearn.cli import prepare as prepare
from gedilearn.cli import use as use
from gedilearn.cli import look as look
from gedilearn.cli import reproduce as reproduce

__all__ = ["app", "main"]
