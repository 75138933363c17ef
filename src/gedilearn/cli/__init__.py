"""The front door for people: `gedi ...`."""

from gedilearn.cli.commands import app, main

__all__ = ["app", "main"]
