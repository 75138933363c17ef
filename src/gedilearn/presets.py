"""Named sets of settings, each with the reason for what it changes."""

from __future__ import annotations

from typing import Any, get_args

from gedilearn.errors import InputError
from gedilearn.settings import Settings, suggestion

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
        "chains": None,
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

# What single methods change in the presets of the synthetic experiments. All else they share, and
# each method leaves the settings unused that are not its own:
# - Barlow, SwAV: batch normalisation in all layers is their default here; for temperatures,
#   Sinkhorn and the weight of redundancy the paper is silent, so they are as first published.
# - no gen: the paper's table gives it a sampler and a weight of GEN, which it cannot use.
# - no inv, no unif: the paper lists them nowhere; ablations differ from GEDI in the term alone.
# - DINO, DeepCluster: not in the paper's experiments; they share network, views and optimiser.
_PAPER_TOY_METHODS: dict[str, dict[str, Any]] = {
    "jem": {"sampler": {"steps": 10}},  # its own list in the paper; the rest of it is GEDI's
}
TOY: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    "paper/toy": _PAPER_TOY_METHODS,
    "paper/toy-literal": _PAPER_TOY_METHODS,
}


def toy(preset: str, method: str) -> dict[str, Any]:
    """The nested settings of `method` in the synthetic experiments under a preset."""
    known = get_args(Settings.model_fields["method"].annotation)
    for kind, name, names in (("preset", preset, TOY), ("method", method, known)):
        if name not in names:
            raise InputError(f"unknown {kind} {name!r}{suggestion(name, names)}")
    values = _copy(PRESETS[preset]) | {"method": method}
    for section, changed in TOY[preset].get(method, {}).items():
        values[section] = values.get(section, {}) | changed
    return values


def preset(name: str) -> dict[str, Any]:
    """The nested settings of a preset, to be changed at will."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}{suggestion(name, PRESETS)}")
    return _copy(PRESETS[name])


def _copy(values: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
