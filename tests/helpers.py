"""What tests share."""

from __future__ import annotations

from typing import Any

import torch
from typer.testing import CliRunner

from gedilearn import GEDI
from gedilearn.cli import app

# torch's global generator, which every test begins with the same seed of.
SEEDED = torch.default_generator
# A density without a base is learnt in a quarter of the time: for tests of other things.
NO_BASE = {"density.base": "none"}


def seeded(seed: int = 0) -> torch.Generator:
    """A generator of a test's own."""
    return torch.Generator().manual_seed(seed)


def gedi(*arguments: Any, **values: Any) -> GEDI:
    """An estimator from arguments and settings together: a name with a dot is a setting."""
    settings = {name: values.pop(name) for name in list(values) if "." in name}
    return GEDI(*arguments, **values, settings=settings)


def run_command(*arguments: Any, code: int = 0) -> Any:
    """`gedi ARGUMENTS`, which must end with this exit code."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result
