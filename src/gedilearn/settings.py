"""All settings of a fit, and how they come about.

`Settings` is what a run directory keeps as `config.yaml`, what a preset fills, what `gedi fit --set
section.name=value` changes and what `GEDI(settings={"section.name": value})` takes. Each setting is
stated once, in its section, with default, meaning and symbol in the paper; methods state their own
in `methods/options.py`. `resolve` makes the settings for data of a given shape: the one place where
'auto' and None get their values.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, create_model, field_validator, model_validator

from gedilearn.errors import InputError, closest
from gedilearn.fields import (
    AUTO,
    LARGE,
    Many,
    MethodSettings,
    Schedule,
    Section,
    Share,
    Width,
    is_images,
)
from gedilearn.registry import METHODS, OPTIONS, SAMPLERS, VIEWS

# --- sections ------------------------------------------------------------------------------------


class Network(Section):
    """The encoder enc and the head f."""

    encoder: Literal["auto", "mlp", "conv", "resnet8"] = Field(
        "auto",
        description="Encoder of images: 'conv', four small convolutions, or 'resnet8', the "
        "paper's; 'auto' is 'conv'. Vectors always have a perceptron, 'mlp'.",
    )
    width: Width | None = Field(
        None,
        description="Channels of that encoder, F of the paper; None is 32 for 'conv' and 128 for "
        "'resnet8'.",
    )
    hidden: tuple[Width, ...] = Field(
        (100, 100), description="Widths of the encoder's hidden layers, for vectors."
    )
    features: Width | None = Field(
        None,
        description="Width h of the representation enc(x), made by one more linear layer; None "
        "takes the last hidden layer as the representation.",
    )
    head: tuple[Width, ...] = Field((), description="Widths of the hidden layers of the head f.")
    activation: Literal["leaky_relu", "relu", "silu", "tanh"] = Field(
        "leaky_relu", description="Activation between layers (slope 0.2 for leaky_relu)."
    )
    temperature: float = Field(
        1.0, gt=0, description="The temperature tau that divides the logits."
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Network:
        if not is_images(shape):
            return self.model_copy(update={"encoder": "mlp"})
        if self.encoder == "mlp":
            raise InputError(f"network.encoder='mlp' needs vectors (n, d), got shape {shape}")
        kind = "conv" if self.encoder == "auto" else self.encoder
        width = self.width or (128 if kind == "resnet8" else 32)
        return self.model_copy(update={"encoder": kind, "width": width})


class Views(Section):
    """The view distribution T(x'|x)."""

    kind: str = Field(
        "auto",
        description="How a view x' is drawn from T(x'|x). 'noise': x plus Gaussian noise, as in "
        "the paper's toys; 'walk': the end of a random walk on the nearest-neighbour graph, long "
        "walks first; for images, each with noise: 'grey': small affine and elastic changes, "
        "'colour': zooms and much change of colour, 'paper': the paper's crops and rare changes of "
        "colour. 'auto': 'walk' for vectors, 'grey' for images of one channel, else 'colour'.",
    )
    flip: bool = Field(
        True, description="Whether 'colour' and 'paper' views mirror images (the paper: not SVHN)."
    )
    noise: Schedule = Field(
        0.03,
        description="Standard deviation sigma of the Gaussian noise of all views but 'walk', in "
        "the network's units; for 'noise' also (progress, sigma) points, the first of which holds "
        "for the certificate.",
    )
    data_noise: float = Field(
        0.0,
        ge=0,
        description="Standard deviation of Gaussian noise on the points themselves, in the "
        "network's units, where a method trains on them beside their views, or on nothing else "
        "(the paper: 0.03 for JEM on images).",
    )
    walk_noise: float = Field(
        0.7,
        ge=0,
        description="Length of the noise of 'walk' views, in units of the end point's distance to "
        "its last neighbour.",
    )
    n_neighbors: Many = Field(
        10,
        description="Neighbours of a point in the graph of 'walk'; fewer are taken where clusters "
        "are then components of the graph.",
    )

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        return kind if kind == AUTO else VIEWS.check(kind)

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Views:
        if self.kind != AUTO:
            return self
        grey = len(shape) > 1 and shape[1] == 1
        kind = ("grey" if grey else "colour") if is_images(shape) else "walk"
        return self.model_copy(update={"kind": kind})


class Weights(Section):
    """What multiplies each term; a number, or (progress, weight) points joined by lines."""

    gen: Schedule = Field(1.0, description="Weight of GEN, -L_GEN.")
    inv: Schedule = Field(50.0, description="Weight of INV, -L_INV.")
    symmetric: bool = Field(
        False,
        description="INV in both directions, averaged: CE(p(y|x'), p(y|x)) and CE(p(y|x), "
        "p(y|x')); the paper has the first.",
    )
    prior: Schedule = Field(
        ((0.0, 200.0), (0.25, 50.0), (1.0, 200.0)),
        description="Weight of PRIOR, -L_PRIOR. A weight below that of INV makes the constant "
        "prediction unstable towards collapse, hence the default.",
    )
    start: Schedule = Field(
        50.0,
        description="Weight of the cross-entropy with the labels of the start, where there is one "
        "(not in the paper).",
    )
    energy: Schedule = Field(
        0.01,
        description="Weight of the mean squared log-density of data and samples, which keeps "
        "energies from drifting (not in the paper; 0 turns it off).",
    )


class Optimizer(Section):
    """Adam."""

    learning_rate: float = Field(1e-3, gt=0, description="Adam's learning rate.")
    schedule: Literal["constant", "cosine"] = Field(
        "constant",
        description="Course of the learning rate over the clusters' iterations: 'cosine' falls "
        "to 0 along half a cosine.",
    )
    warmup: int = Field(
        0,
        ge=0,
        le=100_000_000,
        description="Iterations in which the learning rate rises from 0, at the start.",
    )
    betas: tuple[Share, Share] = Field((0.9, 0.999), description="Adam's beta_1 and beta_2.")
    batch_size: Many = Field(400, ge=2, description="Points in a batch (all points if fewer).")
    grad_clip: float | None = Field(
        None, gt=0, description="Largest gradient norm of a member; longer ones are shortened."
    )


class Training(Section):
    """How long, how often, and when to stop."""

    max_iter: Many = Field(2000, description="Most iterations (Iters of Algorithm 1).")
    start: Literal["auto", "chosen", "random"] = Field(
        "auto",
        description="Where training begins. 'chosen': with the clusters that are best by evidence "
        "without labels, of several that are found on the neighbour graph, by a tree and by "
        "mixtures; 'random': with the network as it is initialised. 'auto': 'chosen' for vectors "
        "with 'walk' views and methods that train the certificate's bound.",
    )
    n_init: Width = Field(
        1,
        description="Initialisations trained at once; the one with the smallest gap is kept.",
    )
    tol: float = Field(
        0.002,
        ge=0,
        description="The result is certified when the gap to the optimum of Proposition 1 is "
        "below this many nats.",
    )
    early_stopping: bool | None = Field(
        None,
        description="Whether a certificate ends the search for clusters. None: for methods that "
        "train its bound, 'gedi' and 'no-gen'; all others train to the end.",
    )
    patience: Many = Field(
        100,
        description="Iterations in which the gap must fall by a fifth, where training begins with "
        "clusters; else it ends, though not before a third of its iterations.",
    )
    check_every: Many = Field(50, description="Iterations between two measurements of the gap.")
    checkpoint_every: float = Field(
        20.0, ge=0, description="Seconds between two checkpoints of a run directory."
    )
    tensorboard: bool = Field(
        False,
        description="Also write the metrics of a run directory for TensorBoard (extra "
        "'tensorboard').",
    )
    on_divergence: Literal["recover", "stop", "ignore"] = Field(
        "recover",
        description="If energies diverge, 'recover' returns to the last good state and halves the "
        "learning rate, 'stop' ends with the best state so far, 'ignore' goes on; the verdict "
        "says so.",
    )
    max_recoveries: int = Field(5, ge=0, le=100, description="Recoveries before training gives up.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of all randomness.")

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Training:
        trains_bound = {"inv", "prior"} <= set(settings.own.weighted)
        early = trains_bound if self.early_stopping is None else self.early_stopping
        walks = not is_images(shape) and settings.views.kind in (AUTO, "walk")
        several = settings.n_clusters > 1
        start = "chosen" if trains_bound and walks and several else "random"
        start = start if self.start == AUTO else self.start
        if start == "chosen" and is_images(shape):
            raise InputError(f"training.start='chosen' needs vectors (n, d), got shape {shape}")
        return self.model_copy(update={"early_stopping": early, "start": start})


class Device(Section):
    """Where and in what precision, in Lightning Fabric's words."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="'auto', 'cpu', 'cuda' or 'mps'."
    )
    devices: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        1, description="Number of devices (ranks), or 'auto'."
    )
    num_nodes: int = Field(1, ge=1, le=1024, description="Number of machines.")
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Processor threads of training; None is 1 for vectors, whose products are too "
        "small to share, and torch's own number for images.",
    )
    precision: Literal["32-true", "64-true", "bf16-mixed"] = Field(
        "32-true", description="'32-true', '64-true' or 'bf16-mixed'."
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Device:
        if self.threads is None and not is_images(shape):
            return self.model_copy(update={"threads": 1})
        return self


MOST_COLUMNS = 64  # with a base in all of them; mixtures of more have too many numbers to fit


def has_base_in_columns(shape: tuple[int, ...]) -> bool:
    """Whether the base of data of this shape is one in all columns; others have principal ones."""
    return not is_images(shape) and shape[1] <= MOST_COLUMNS


class Sampler(Section):
    """How samples x~ of the model are drawn for GEN."""

    kind: str = Field(
        "langevin",
        description="The sampler. 'langevin': stochastic gradient Langevin dynamics on a "
        "replay buffer, as in the paper.",
    )
    steps: Many = Field(10, description="Langevin steps T in each iteration.")
    step_size: float = Field(
        0.01125, gt=0, description="SGLD step size: multiplies the gradient (noise squared over 2)."
    )
    noise: float = Field(0.15, ge=0, description="SGLD noise: standard deviation added in a step.")
    first_noise: float | None = Field(
        None,
        ge=0,
        description="SGLD in stages, as EBCLR's: the noise of a chain that has just restarted. It "
        "falls to sampler.noise over the next sampler.stages draws of it. None: one noise.",
    )
    stages: Many = Field(3, description="Draws of a chain until its noise is sampler.noise.")
    buffer: Many = Field(1_000, description="Chains |B| in the replay buffer.")
    chains: Many | None = Field(
        128,
        description="Most chains moved, and samples compared with the data, in each iteration: one "
        "for each point of the batch up to this number; None sets no limit.",
    )
    restart: float = Field(
        0.05, ge=0, le=1, description="Reinitialisation frequency: chance that a chain restarts."
    )
    margin: float = Field(
        0.1,
        ge=0,
        description="Chains start in the data's bounding box, widened on every side by this share "
        "of its width.",
    )
    clamp: bool = Field(True, description="Keep chains inside that box.")
    max_move: float | None = Field(
        None, gt=0, description="Largest move of a coordinate along the gradient in one step."
    )

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        return SAMPLERS.check(kind)


class Density(Section):
    """The second stage: GEN, once the clusters stand."""

    base: Literal["auto", "gaussian", "mixture", "none"] = Field(
        "auto",
        description="The density that a network of its own corrects: 'gaussian', a wide Gaussian; "
        "'mixture', mixtures of Gaussians and kernels at the points; 'auto', the first in up to 4 "
        "columns. Images and vectors of more than 64 columns have a mixture in principal "
        "directions. 'none': the clusters' network itself learns the density, by chains, as in "
        "the paper.",
    )
    estimator: Literal["auto", "importance", "chains", "amortised"] = Field(
        "auto",
        description="How GEN compares the model with the data on a base. 'importance': points near "
        "the data, weighted; 'chains': short Langevin runs from the base; 'amortised': a generator "
        "with an entropy bound (VERA). 'auto': weights while at least 50 of 4,000 weighted points "
        "count, else chains; chains for images.",
    )
    iterations: int = Field(
        800,
        ge=0,
        le=100_000_000,
        description="Most iterations of GEN after the clusters, for the kept initialisation; 0 "
        "trains all three terms together from the start, as in the paper.",
    )
    learning_rate: float = Field(
        5e-3, gt=0, description="Adam's learning rate there; it falls to 0."
    )
    inv: Schedule = Field(
        ((0.0, 50.0), (0.5, 50.0), (1.0, 150.0)),
        description="Weight of INV there without a base, which holds the clusters: the harder "
        "towards the end, so that a certificate survives.",
    )
    prior: Schedule = Field(50.0, description="Weight of PRIOR there without a base.")
    restart: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of the chains that start anew from the base in each iteration, where "
        "the density is learnt by chains on a base; the others go on.",
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Density:
        if self.base == "gaussian" and not has_base_in_columns(shape):
            raise InputError(
                f"density.base='gaussian' needs at most {MOST_COLUMNS} columns, got data of shape "
                f"{shape}"
            )
        return self


Kind = Literal["number", "boolean", "date", "time", "category", "id", "drop"]


class TableOptions(Section):
    """How the columns of a table are read: docs/tables.md."""

    columns: tuple[str, ...] | None = Field(
        None, description="Names of the columns to use; None: all useful ones."
    )
    kinds: dict[str, Kind] = Field(
        {},
        description="Kinds of columns, by name; others are detected. Kinds are "
        "number, boolean, date, time, category, id (kept beside the clusters, not used) or drop.",
    )
    impute: Literal["median", "mean", "most_frequent"] = Field(
        "median",
        description="Replacement of missing numbers, dates and times. Missing categories and truth "
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
    table: TableOptions = TableOptions()
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
        """The `MethodSettings` of the method; a method without any value to set has no section."""
        if self.method not in OPTIONS:  # one from outside, which states none
            return MethodSettings()
        return getattr(self, self.method, None) or OPTIONS[self.method]()

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
    known = ((name, OPTIONS[name]) for name in OPTIONS)
    return _with_sections(tuple(pair for pair in known if pair[1].model_fields))


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
