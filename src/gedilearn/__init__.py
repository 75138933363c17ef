"""gedi-learn: cluster unlabelled data with a neural network, and know whether to trust it.

Public names are loaded on first use, so that ``import gedilearn`` and ``gedi --help`` stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI
    from gedilearn.grading import Graded, grade
    from gedilearn.pretrained import features
    from gedilearn.selection import choose_n_clusters
    from gedilearn.verdict.number import NumberChoice

__version__ = "0.1.0"
__all__ = [
    "GEDI",
    "Graded",
    "NumberChoice",
    "__version__",
    "choose_n_clusters",
    "features",
    "grade",
]


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used: torch takes its time."""
    if name == "GEDI":
        from gedilearn import estimator as module
    elif name == "NumberChoice":
        from gedilearn.verdict import number as module  # type: ignore[no-redef]
    elif name == "choose_n_clusters":
        from gedilearn import selection as module  # type: ignore[no-redef]
    elif name in ("Graded", "grade"):
        from gedilearn import grading as module  # type: ignore[no-redef]
    elif name == "features":
        from gedilearn import pretrained as module  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module 'gedilearn' has no attribute {name!r}")
    globals()[name] = getattr(module, name)
    return globals()[name]
