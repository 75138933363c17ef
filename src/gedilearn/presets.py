"""Named sets of settings, each with the reason for what it changes."""

from __future__ import annotations

from typing import Any

from gedilearn.errors import InputError
from gedilearn.settings import suggestion

# The synthetic experiments of the paper (its appendix on hyperparameters for synthetic data). What
# the tables leave silent: data in its own units, chains that start in the data's bounding box,
# nothing clamped.
_PAPER_TOY_LITERAL: dict[str, Any] = {
    "scaling": "none",
    "network": {"hidden": (100, 100), "features": 2, "head": (4,), "activation": "relu"},
    "views": {"kind": "noise", "noise": 0.03},
    "weights": {"gen": 1.0, "inv": 50.0, "prior": 10.0, "energy": 0.0},
    "sampler": {
        "steps": 1,
        "step_size": 0.01**2 / 2,
        "noise": 0.01,
        "buffer": 10_000,
        "restart": 0.05,
        "margin": 0.0,
        "clamp": False,
    },
    "density": {"iterations": 0},
    "optimizer": {"learning_rate": 1e-3, "betas": (0.9, 0.999), "batch_size": 400},
    "training": {"max_iter": 20_000, "n_init": 1},
}

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper/toy-literal": _PAPER_TOY_LITERAL,
    # The smallest departure that trains: no dead units, and energies that cannot run away.
    "paper/toy": _PAPER_TOY_LITERAL
    | {
        "network": _PAPER_TOY_LITERAL["network"] | {"activation": "leaky_relu"},
        "weights": _PAPER_TOY_LITERAL["weights"] | {"energy": 0.01},
    },
}


def preset(name: str) -> dict[str, Any]:
    """The nested settings of a preset, to be changed at will."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}{suggestion(name, PRESETS)}")
    return {
        key: dict(value) if isinstance(value, dict) else value
        for key, value in PRESETS[name].items()
    }
