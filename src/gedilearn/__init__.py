"""gedi-learn: cluster unlabelled data with a neural network, and know whether to trust it.

``GEDI`` is loaded on first use, so that ``import gedilearn`` and ``gedi --help`` stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gedilearn.estimator import GEDI

__version__ = "0.1.0"
__all__ = ["GEDI", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "GEDI":
        from gedilearn.estimator import GEDI

        return GEDI
    raise AttributeError(f"module 'gedilearn' has no attribute {name!r}")
