"""All settings of a fit, and how they come about.

`Settings` is what a run directory keeps as `config.yaml`, what a preset fills, what `gedi fit --set
section.name=value` changes and what `GEDI(settings={"section.name": value})` takes. `resolve` makes
them for data of a given shape: the one place where 'auto' and None get their values.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError, create_model, field_validator, model_validator

from gedilearn.errors import InputError, closest
from gedilearn.generative_sections import Density, Sampler
from gedilearn.registry import METHODS, OPTIONS
from gedilearn.sections import (
    LARGE,
    Device,
    Network,
    Optimizer,
    Section,
    Training,
    Views,
    Weights,
    Width,
    is_images,
)

Kind = Literal["number", "boolean", "date", "time", "category", "id", "drop"]


class Table(Section):
    """How the columns of a table are read: docs/tables.md."""

    columns: tuple[str, ...] | None = Field(
        None, description="Names of the columns that are used; None: all that are of use."
    )
    kinds: dict[str, Kind] = Field(
        {},
        description="What columns are taken for, by name, where that is not to be found out: "
        "number, boolean, date, time, category, id (kept beside the clusters, not used) or drop.",
    )
    impute: Literal["median", "mean", "most_frequent"] = Field(
        "median",
        description="What missing numbers, dates and times become. Missing categories and truth "
        "values become their shares, or the most frequent with 'most_frequent'.",
    )


class Settings(Section):
    """All of it; `settings_type` adds the sections of methods."""

    method: str = Field(
        "gedi",
        description="The objective. 'gedi': GEN + INV + PRIOR; 'no-gen', 'no-inv' and 'no-unif' "
        "leave out one of these, 'jem' keeps GEN alone; 'swav', 'barlow', 'dino', 'deepcluster' "
        "and 'ebclr' are baselines with settings of their own.",
    )

    n_clusters: Width = Field(
        2,
        description="Number of clusters c; 1 trains the density alone.",
    )
    prior: Literal["auto", "uniform"] | tuple[float, ...] = Field(
        "auto",
        description="The distribution p(y) over clusters, as proportions in any order; 'uniform' "
        "is the paper's. 'auto' takes those of the start, or estimates them while training: "
        "clusters of any size then count as right. For images, 'uniform' is the default.",
    )
    scaling: Literal["standard", "none"] = Field(
        "standard",
        description="'standard': columns to mean 0 and deviation 1, images to [-1, 1]; 'none': "
        "data as it comes.",
    )
    table: Table = Table()
    network: Network = Network()
    views: Views = Views()
    weights: Weights = Weights()
    sampler: Sampler = Sampler()
    optimizer: Optimizer = Optimizer()
    density: Density = Density()
    training: Training = Training()
    device: Device = Device()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied between processes as plain values: the class itself is made when it is needed."""
        return _validated, (self.model_dump(),)

    @property
    def own(self) -> Any:
        """The section of the method, if it has settings of its own."""
        return getattr(self, self.method, None)

    @field_validator("prior", mode="before")
    @classmethod
    def _none_is_uniform(cls, prior: Any) -> Any:
        return "uniform" if prior is None else prior

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        return METHODS.check(method)

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if isinstance(self.prior, tuple):
            check_prior(self.prior, self.n_clusters)
        check_noise(self.views)
        limits = {
            "optimizer.batch_size": self.optimizer.batch_size,
            "sampler.chains": self.sampler.chains or self.optimizer.batch_size,
        }
        name = min(limits, key=lambda name: limits[name])
        if self.sampler.buffer < limits[name]:
            raise ValueError(
                f"sampler.buffer={self.sampler.buffer} is smaller than {name}={limits[name]}: "
                "each sample needs a chain"
            )
        return self


# What is different for images; all else is as for vectors.
IMAGES: dict[str, Any] = {
    "prior": "uniform",
    "training.start": "random",
    "weights.gen": 0.1,
    "weights.inv": 1.0,
    "weights.symmetric": True,
    "weights.prior": 2.0,
    "views.noise": 0.05,
    "network.activation": "silu",
    "sampler.steps": 20,
    "sampler.step_size": 10.0,
    "sampler.noise": 0.01,
    "sampler.max_move": 0.1,
    "sampler.buffer": 2_000,
    "sampler.chains": 64,
    "sampler.margin": 0.0,
    "optimizer.learning_rate": 8e-3,
    "optimizer.schedule": "cosine",
    "optimizer.warmup": 50,
    "optimizer.batch_size": 128,
    "optimizer.grad_clip": 5.0,
    "density.iterations": 200,
    "density.inv": 1.0,
    "density.prior": 2.0,
    "training.check_every": 100,
}


# Of fewer images than 1,700 each is seen so often that less will do, and large ones take longer:
# iterations for each image, at least in all, and Langevin steps in one of the density's.
EACH, EACH_LARGE, FEWEST, STEPS_LARGE = 1.2, 0.8, 300, 10

# What is different where training begins with clusters: they need not be sought for long.
STARTED: dict[str, Any] = {
    "optimizer.learning_rate": 1e-2,
    "optimizer.schedule": "cosine",
    "training.max_iter": 600,
}


def image_defaults(shape: tuple[int, ...]) -> dict[str, Any]:
    """What is different for images (n, channels, height, width), by dotted name."""
    large, most = min(shape[2:]) > LARGE, Training().max_iter
    length = min(most, max(round(shape[0] * (EACH_LARGE if large else EACH)), FEWEST))
    defaults = IMAGES | ({"sampler.steps": STEPS_LARGE} if large else {})
    if length == most:
        return defaults
    later = IMAGES["density.iterations"] * length // most
    return defaults | {"training.max_iter": length, "density.iterations": later}


# An iteration of the density takes as long as there are columns: beyond so many there are as many
# times fewer, but at least some.
WIDE, LEAST_LATER = 1_000, 40


def vector_defaults(shape: tuple[int, ...]) -> dict[str, Any]:
    """What is different for vectors (n, columns), by dotted name."""
    if shape[-1] <= WIDE:
        return {}
    later = Density().iterations * WIDE // shape[-1]
    return {"density.iterations": max(later, LEAST_LATER)}


def check_prior(prior: tuple[float, ...], n_clusters: int) -> None:
    """Refuse what is not a distribution over the clusters."""
    if len(prior) != n_clusters:
        raise ValueError(f"prior has {len(prior)} entries for n_clusters={n_clusters}")
    if not all(p > 0 for p in prior) or abs(sum(prior) - 1) > 1e-6:
        raise ValueError(f"prior={prior}: entries must be positive and sum to 1")


def check_noise(views: Views) -> None:
    """Refuse a schedule where there is no progress."""
    if isinstance(views.noise, tuple) and views.kind != "noise":
        raise ValueError(f"views.noise={views.noise}: only views.kind='noise' takes a schedule")


def resolve(values: dict[str, Any], shape: tuple[int, ...]) -> Settings:
    """The settings of a fit to data of this shape, or one line that names the wrong value.

    What the nested `values` leave out has its default, for vectors or for images.
    """
    defaults = image_defaults(shape) if is_images(shape) else vector_defaults(shape)
    values = _with_defaults(defaults, values)
    try:
        settings = _validated(values)
        if settings.training.resolved(settings, shape).start == "chosen":
            settings = _validated(_with_defaults(STARTED, values))
    except ValidationError as error:
        raise InputError(_one_line(error, values)) from None
    settled = {}
    for name in type(settings).model_fields:
        section = getattr(settings, name)
        in_use = name == settings.method or name not in OPTIONS
        if isinstance(section, Section) and in_use:
            settled[name] = section.resolved(settings, shape)
    return settings.model_copy(update=settled)


def checked(values: dict[str, Any]) -> Settings:
    """The nested values before the data is known, or one line on what no data could have."""
    try:
        return _validated(values)
    except ValidationError as error:
        with suppress(ValidationError):
            return _validated(_with_defaults(IMAGES, values))
        raise InputError(_one_line(error, values)) from None


def settings_type() -> type[Settings]:
    """`Settings` with a section for every registered method that has settings of its own."""
    return _with_sections(tuple((name, OPTIONS[name]) for name in OPTIONS))


def _validated(values: dict[str, Any]) -> Settings:
    return settings_type().model_validate(values)


@lru_cache(maxsize=4)
def _with_sections(sections: tuple[tuple[str, type[Section]], ...]) -> type[Settings]:
    fields: dict[str, Any] = {name: (kind, kind()) for name, kind in sections}
    return create_model("Settings", __base__=Settings, **fields)


def _with_defaults(defaults: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The nested values, with these defaults, of dotted names, where they say nothing."""
    joined = dict(values)
    for name, default in nested(defaults).items():
        given = joined.get(name, {})
        if not isinstance(default, dict):
            joined.setdefault(name, default)
        elif isinstance(given, dict):  # anything else is refused when the settings are built
            joined[name] = default | given
    return joined


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Nested values by their dotted names."""
    dotted: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            dotted |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            dotted[name] = value
    return dotted


def nested(dotted: dict[str, Any]) -> dict[str, Any]:
    """Values by dotted names as nested ones; an unknown name is refused."""
    values: dict[str, Any] = {}
    for path, value in dotted.items():
        assign(values, path, value)
    return values


def assign(values: dict[str, Any], path: str, value: Any) -> None:
    """Set `a.b` in nested values; an unknown name is refused with the nearest known one."""
    if path not in known_paths():
        raise InputError(_unknown(path))
    *sections, name = path.split(".")
    for section in sections:
        values = values.setdefault(section, {})
    values[name] = value


def known_paths() -> dict[str, str]:
    """Every setting's dotted name and what it means."""
    paths = {}
    for name, field in settings_type().model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for inner, inner_field in section.model_fields.items():
                paths[f"{name}.{inner}"] = inner_field.description or ""
        else:
            paths[name] = field.description or ""
    return paths


def _unknown(path: str) -> str:
    """That there is no such setting; those of other sections that end alike, or the nearest."""
    known, path = known_paths(), str(path)  # keys of a user's dict may be anything
    alike = [name for name in known if name.endswith(f".{path.rpartition('.')[2]}")]
    near = alike or [name for name in [closest(path, known)] if name is not None]
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "gedi settings lists them"
    return f"unknown setting {path!r} ({hint})"


def choices(path: str) -> tuple[str, ...]:
    """The values that a setting may take, where they are a fixed list: 'device.accelerator'."""
    section, name = path.split(".")
    field = Settings.model_fields[section].default.__class__.model_fields[name]
    return get_args(field.annotation)


def _one_line(error: ValidationError, values: dict[str, Any]) -> str:
    """The first setting that is wrong, its value, and what it should be."""
    known, found = known_paths(), error.errors()
    dotted = [".".join(map(str, one["loc"])) for one in found]
    if found[0]["type"] == "extra_forbidden":
        return _unknown(dotted[0])
    where = [_setting(path, known) for path in dotted]
    reasons = [
        one["msg"].removeprefix("Value error, ").replace("Field required", "an entry is missing")
        for one, path in zip(found, where, strict=True)
        if path == where[0]
    ]
    if not where[0]:
        return reasons[0]
    words = " or ".join(
        dict.fromkeys(reason.removeprefix("Input should be ") for reason in reasons)
    )
    value: Any = values
    for part in where[0].split("."):
        value = value.get(part, found[0]["input"]) if isinstance(value, dict) else value
    return f"{where[0]}={value!r}: {'should be ' if reasons[0].startswith('Input') else ''}{words}"


def _setting(path: str, known: dict[str, str]) -> str:
    """The setting that the place of an error is in: 'network.hidden' for 'network.hidden.0'."""
    parts = path.split(".")
    return next((p for p in (".".join(parts[:2]), parts[0]) if p in known), parts[0])
