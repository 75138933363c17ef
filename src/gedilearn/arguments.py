"""The arguments of the estimator, and how they become settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import Tensor, nn

from gedilearn.errors import InputError
from gedilearn.presets import preset as preset_values
from gedilearn.sections import Schedule
from gedilearn.settings import Settings, Table, assign, flat, resolve

# Constructor argument -> setting. `views` and `encoder` also take objects, see the class.
NAMED = {
    "n_clusters": "n_clusters",
    "prior": "prior",
    "method": "method",
    "w_gen": "weights.gen",
    "w_inv": "weights.inv",
    "w_prior": "weights.prior",
    "views": "views.kind",
    "encoder": "network.encoder",
    "max_iter": "training.max_iter",
    "n_init": "training.n_init",
    "device": "device.accelerator",
}
NESTED = "settings__"  # scikit-learn's prefix for what is inside of `settings`
Self = TypeVar("Self", bound="Arguments")


class Arguments(BaseEstimator):  # type: ignore[misc]
    """The constructor of `GEDI`, which documents the arguments, and what follows from it alone."""

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        prior: tuple[float, ...] | str | None = None,
        method: str | None = None,
        preset: str | None = None,
        w_gen: Schedule | None = None,
        w_inv: Schedule | None = None,
        w_prior: Schedule | None = None,
        views: str | Callable[..., Tensor] | None = None,
        encoder: str | nn.Module | None = None,
        max_iter: int | None = None,
        n_init: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str | None = None,
        run_dir: str | Path | None = None,
        verbose: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.prior = prior
        self.method = method
        self.preset = preset
        self.w_gen = w_gen
        self.w_inv = w_inv
        self.w_prior = w_prior
        self.views = views
        self.encoder = encoder
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.device = device
        self.run_dir = run_dir
        self.verbose = verbose
        self.settings = settings

    @classmethod
    def from_settings(cls: type[Self], settings: Settings, **others: Any) -> Self:
        """An estimator with these settings; `others` are further constructor arguments."""
        values = flat(settings.model_dump())
        named = {name: values.pop(path) for name, path in NAMED.items()}
        return cls(**(named | {"settings": values} | others))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments; with `deep`, also what is in `settings`, as settings__section.name."""
        params: dict[str, Any] = super().get_params(deep)
        inside = self.settings if deep and isinstance(self.settings, Mapping) else {}
        return params | {f"{NESTED}{path}": value for path, value in inside.items()}

    def set_params(self: Self, **params: Any) -> Self:
        """Change arguments; settings__section.name changes one of the settings."""
        inside = {name: params.pop(name) for name in list(params) if name.startswith(NESTED)}
        super().set_params(**params)
        if inside:
            changed = {name.removeprefix(NESTED): value for name, value in inside.items()}
            self.settings = dict(self.settings or {}) | changed
        return self

    def resolve(self, shape: tuple[int, ...]) -> Settings:
        """All settings for data of this shape: the preset, changed by `settings` and arguments."""
        values, given = self._values()
        if self.random_state is not None or "training.seed" not in given:
            assign(values, "training.seed", seed_of(self.random_state))
        return self._resolved(values, shape)

    def table_options(self, shape: tuple[int, ...]) -> Table:
        """How the columns of a table are to be read; draws no seed."""
        return self._resolved(self._values()[0], shape).table

    def _values(self) -> tuple[dict[str, Any], set[str]]:
        """Nested values without a seed, and the dotted names of those that were given."""
        settings = self.settings or {}
        if not isinstance(settings, Mapping):
            raise InputError(f"settings={settings!r}: give a mapping of dotted names to values")
        given = dict(settings) | {path: getattr(self, name) for path, name in self._named().items()}
        values = preset_values(self.preset, given.get("method")) if self.preset else {}
        for path, value in given.items():
            assign(values, path, value)
        return values, set(given)

    def _named(self) -> dict[str, str]:
        """The arguments that are given and stand for settings, by the names of these."""
        return {
            path: name
            for name, path in NAMED.items()
            if getattr(self, name) is not None and not _is_object(name, getattr(self, name))
        }

    def _resolved(self, values: dict[str, Any], shape: tuple[int, ...]) -> Settings:
        try:
            return resolve(values, shape)
        except InputError as error:
            message = str(error)
            for (
                path,
                name,
            ) in self._named().items():  # in the caller's words: w_gen, not weights.gen
                message = message.replace(f"{path}=", f"{name}=")
            raise InputError(message) from None

    def objects(self) -> list[str]:
        """The arguments that no file can hold."""
        return [name for name in NAMED if _is_object(name, getattr(self, name))]

    def encoder_object(self) -> nn.Module | None:
        """The user's own, if there is one."""
        return None if isinstance(self.encoder, str) else self.encoder

    def view_function(self) -> Callable[..., Tensor] | None:
        """The user's own, if there is one."""
        return self.views if callable(self.views) else None


def seed_of(random_state: Any) -> int:
    """An integer seed; an integer stands for itself."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _is_object(name: str, value: Any) -> bool:
    """Whether an argument is an encoder or views of the user's own, which no file can hold."""
    if name == "encoder":
        return value is not None and not isinstance(value, str)
    return name == "views" and callable(value)
