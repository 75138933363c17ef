"""What tests share."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from gedilearn import GEDI
from gedilearn.cli import app


def gedi(*arguments: Any, **values: Any) -> GEDI:
    """An estimator from arguments and settings together: a name with a dot is a setting."""
    settings = {name: values.pop(name) for name in list(values) if "." in name}
    return GEDI(*arguments, **values, settings=settings)


def run_command(*arguments: Any, code: int = 0) -> Any:
    """`gedi ARGUMENTS`, which must end with this exit code."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result
