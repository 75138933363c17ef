"""gedi-learn: cluster unlabelled data with a neural network, and know whether to trust it.

Public names are loaded on first use, so that ``import gedilearn`` and ``gedi --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gedilearn.detector import GEDIOutlierDetector
    from gedilearn.estimator import GEDI
    from gedilearn.grading import Graded, grade
    from gedilearn.pretrained import embed, features
    from gedilearn.selection import choose_n_clusters
    from gedilearn.verdict.number import NumberChoice

__version__ = "0.1.0"
__all__ = [
    "GEDI",
    "GEDIOutlierDetector",
    "Graded",
    "NumberChoice",
    "choose_n_clusters",
    "embed",
    "features",
    "grade",
]

_MODULES = {
    "GEDI": "estimator",
    "GEDIOutlierDetector": "detector",
    "Graded": "grading",
    "NumberChoice": "verdict.number",
    "choose_n_clusters": "selection",
    "embed": "pretrained",
    "features": "pretrained",
    "grade": "grading",
}


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use: importing torch takes a second."""
    if name not in _MODULES:
        raise AttributeError(f"module 'gedilearn' has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"gedilearn.{_MODULES[name]}"), name)
    return globals()[name]
