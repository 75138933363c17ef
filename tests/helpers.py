"""What tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
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


def embeddings(
    clusters: int = 4, n: int = 400, columns: int = 96, spread: float = 1.2, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around directions in many columns, and their clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, columns))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    y = rng.integers(clusters, size=n)
    noise = rng.normal(size=(n, columns)) * spread / columns**0.5
    return (centres[y] + noise + 0.3 / columns**0.5).astype(np.float32), y
