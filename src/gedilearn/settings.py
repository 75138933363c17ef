"""All settings of a fit, and the rules that settle them for data of a given shape.

`Settings` is what a run directory keeps as `config.yaml`, what a preset fills, what `gedi fit --set
section.name=value` changes and what `GEDI(settings={"section.name": value})` takes. Each setting is
stated once, in its section, with default, meaning and symbol in the paper. The settings of methods
are in `methods.settings`. `resolve` is the one place where defaults for a kind of data, 'auto' and
None get their values. No torch here: `gedi settings` lists all settings without it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    create_model,
    field_validator,
)
from pydantic.fields import FieldInfo

from gedilearn.errors import InputError, closest
from gedilearn.fields import (
    Count,
    Fraction,
    Many,
    NonNegative,
    Positive,
    Ranks,
    Schedule,
    Section,
    Width,
)
from gedilearn.registry import METHODS, SAMPLERS, VIEWS

# --- sections -------------------------------------------------------------------------------------

AUTO = "auto"
Kind = Literal["number", "boolean", "date", "time", "category", "text", "id", "drop"]


class TableOptions(Section):
    """How the columns of a table are read: docs/tables.md."""

    columns: tuple[str, ...] | None = None
    """Names of the columns to use; None: all useful ones."""
    kinds: dict[str, Kind] = Field({})
    """Kinds of columns, by name; others are detected. Kinds are number, boolean, date, time,
    category, text (describes the clusters, not used), id (kept in the output, not used) or drop."""
    impute: Literal["median", "mean", "most_frequent"] = "median"
    """Replacement of missing numbers, dates and times. Missing categories and truth values become
    their shares, or the most frequent with 'most_frequent'."""


class Network(Section):
    """The encoder enc and the head f."""

    encoder: Literal["auto", "mlp", "conv", "resnet8"] = "auto"
    """Encoder of images: 'conv', four small convolutions, or 'resnet8', the paper's; 'auto' is
    'conv'. Vectors always have a perceptron, 'mlp'."""
    width: Width | None = None
    """Channels of that encoder, F of the paper; None is 32 for 'conv' and 128 for 'resnet8'."""
    hidden: tuple[Width, ...] = (100, 100)
    """Widths of the encoder's hidden layers, for vectors."""
    features: Width | None = None
    """Width h of the representation enc(x), made by one more linear layer; None takes the last
    hidden layer as the representation."""
    head: tuple[Width, ...] = ()
    """Widths of the hidden layers of the head f."""
    activation: Literal["leaky_relu", "relu", "silu", "tanh"] = "leaky_relu"
    """Activation between layers (slope 0.2 for leaky_relu)."""
    temperature: Positive = 1.0
    """The temperature tau that divides the logits."""
    sines: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Sines of x that the encoder of vectors sees in addition to x."""
    standardised: bool | None = None
    """Whether the filters of 'resnet8' have mean 0 and a learnt norm; those of 'conv' always do.
    None: where there is no batch normalisation (the paper: no)."""
    shift: bool | None = None
    """Whether all logits of images share a term that reads all layers of the encoder. The
    log-density then sees details that the last layer has lost. None: where GEN is learnt on a
    base."""


class Views(Section):
    """The view distribution T(x'|x)."""

    kind: str = "auto"
    """How a view x' is drawn from T(x'|x). 'noise': x plus Gaussian noise, as in the paper's toys.
    'walk': the end of a random walk on the nearest-neighbour graph, long walks first. For images,
    each with noise: 'grey', small affine and elastic changes; 'paper', the paper's shifts and rare
    changes of colour. 'auto': 'walk' for vectors, 'grey' for images of one channel, else
    'paper'."""
    flip: bool = True
    """Whether 'paper' views mirror images (the paper: not for SVHN)."""
    noise: Schedule = 0.03
    """Standard deviation sigma of the Gaussian noise of all views but 'walk', in the network's
    units. 'noise' also takes (progress, sigma) points; the certificate uses the first."""
    both: bool = False
    """Whether methods that train on the points themselves train on a second view in their place.
    SwAV, Barlow Twins, DINO and EBCLR always compare two views."""
    pixels: tuple[float, float] = (-1.0, 1.0)
    """Black and white in the network's units: views of images stay between them."""
    longest: Many | None = None
    """Most steps of a 'walk'; None: doubled until about as many modes as clusters survive."""
    walk_noise: NonNegative = 0.7
    """Length of the noise of 'walk' views, in units of the end point's distance to its last
    neighbour."""
    n_neighbors: Many = 10
    """Neighbours of a point in the graph of 'walk'; fewer, if clusters are then components of the
    graph."""

    @field_validator("kind")
    @classmethod
    def _registered(cls, kind: str) -> str:
        return kind if kind == AUTO else VIEWS.check(kind)


class Weights(Section):
    """The weight of each term; a number, or (progress, weight) points joined by lines."""

    gen: Schedule = 1.0
    """Weight of GEN, -L_GEN."""
    inv: Schedule = 50.0
    """Weight of INV, -L_INV."""
    symmetric: bool = False
    """INV in both directions, averaged: CE(p(y|x'), p(y|x)) and CE(p(y|x), p(y|x')); the paper has
    the first."""
    prior: Schedule = ((0.0, 200.0), (0.25, 50.0), (1.0, 200.0))
    """Weight of PRIOR, -L_PRIOR. Below the weight of INV, the constant prediction is unstable
    towards collapse."""
    start: Schedule = 5.0
    """Weight of the cross-entropy with the initial clustering, if there is one (not in the paper).
    It does not fall: INV alone loses thin and overlapping clusters."""
    classes: Schedule = 1.0
    """Weight of -log p(y|x) of the points whose class y is known."""
    energy: Schedule = 0.01
    """Weight of the mean squared log-density of data and samples, which keeps log-densities from
    drifting (not in the paper; 0 turns it off)."""


class Sampler(Section):
    """How samples x~ of the model are drawn for GEN."""

    kind: str = "auto"
    """The sampler. 'langevin': stochastic gradient Langevin dynamics on a replay buffer, without a
    base, as in the paper. On a base, 'importance': points near the data, weighted; 'chains': short
    Langevin runs from the base; 'none': no GEN, p(x) is the base's. 'auto': 'langevin' without a
    base, 'importance' in up to 64 columns, 'none' in more, 'chains' for images."""
    steps: Many = 10
    """Langevin steps T in each iteration."""
    step_size: Positive = 0.01125
    """SGLD step size: multiplies the gradient (noise squared over 2)."""
    noise: NonNegative = 0.15
    """SGLD noise: standard deviation added in a step."""
    buffer: Many = 1_000
    """Chains |B| in the replay buffer."""
    chains: Many | None = 128
    """Most samples in each iteration: one for each point of the batch up to this number; None sets
    no limit. 'importance' draws twice as many."""
    restart: Fraction = 0.05
    """Reinitialisation frequency: chance that a chain restarts."""
    margin: NonNegative = 0.1
    """Chains start in the data's bounding box, widened on every side by this share of its width."""
    clamp: bool = True
    """Keep chains inside that box."""
    max_move: Positive | None = None
    """Largest move of a coordinate along the gradient in one step."""

    @field_validator("kind")
    @classmethod
    def _registered(cls, kind: str) -> str:
        return kind if kind in (AUTO, "none") else SAMPLERS.check(kind)


class Optimizer(Section):
    """Adam."""

    learning_rate: Positive = 1e-3
    """Adam's learning rate."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Course of the learning rate while clusters are trained: 'cosine' falls to 0 along half a
    cosine."""
    warmup: Count = 0
    """Iterations in which the learning rate rises from 0, at the beginning."""
    batch_size: Annotated[Many, Field(ge=2)] = 400
    """Points in a batch (all points if fewer)."""
    grad_clip: Positive | None = None
    """Largest gradient norm of a member; longer gradients are shortened."""


class Density(Section):
    """The density p(x), which GEN learns."""

    base: Literal["auto", "gaussian", "mixture", "none"] = "auto"
    """The density that the network corrects: 'gaussian', a wide Gaussian; 'mixture', a weighted sum
    of mixtures, kernels at the points and a spline flow; 'auto', the first in up to 4 columns.
    Images and vectors of more than 64 columns have a mixture in principal directions. 'none': no
    base, as in the paper."""
    iterations: Count | None = None
    """Most iterations of GEN after the clusters, for the best initialisation, while INV and PRIOR
    go on; 0 trains all three terms together from the start, as in the paper. None: 0 with
    importance weights, else 800, for images 200."""
    learning_rate: Positive = 5e-3
    """Adam's learning rate after the clusters; it falls to 0."""
    inv: Schedule = ((0.0, 50.0), (0.5, 50.0), (1.0, 150.0))
    """Weight of INV there. It rises towards the end to preserve a certificate."""
    prior: Schedule = 50.0
    """Weight of PRIOR there."""


class Training(Section):
    """How long, how often, and when to stop."""

    max_iter: Many = 2000
    """Most iterations (Iters of Algorithm 1)."""
    start: Literal["auto", "chosen", "random", "vote"] = "auto"
    """The initial clustering. 'chosen': the best by evidence without labels, of several that are
    found on the neighbour graph, by a tree and by mixtures. 'random': none, the network as it is
    initialised. 'vote': none; `n_init` networks are trained, and one network learns the clusters on
    which they agree. 'auto', for vectors with 'walk' views and methods that train the bound: 'vote'
    with the metric 'cosine', else 'chosen'."""
    max_clusters: Annotated[int, Field(ge=2, le=1_000)] | None = None
    """The largest number of clusters that is compared, if the number is chosen. None: 10, or 300
    with the metric 'cosine'."""
    n_init: Width = 1
    """Initialisations trained at once; the one with the smallest bound gap is kept, or, with
    training.start='vote', all vote."""
    tol: NonNegative = 0.002
    """A result can be certified if its bound gap is below this many nats (Proposition 1)."""
    early_stopping: bool | None = None
    """Whether a certificate ends the search for clusters. None: for methods that train its bound,
    'gedi' and 'no-gen'; all others train to the end."""
    patience: Many = 100
    """With an initial clustering, training ends if the bound gap does not fall by a fifth in this
    many iterations, after a third of all iterations at the earliest."""
    check_every: Many = 50
    """Iterations between two measurements of the bound gap."""
    checkpoint_every: NonNegative = 20.0
    """Seconds between two checkpoints of a run directory."""
    on_divergence: Literal["recover", "stop", "ignore"] = "recover"
    """If training diverges, 'recover' returns to the last good state and halves the learning rate,
    at most 5 times; 'stop' ends with the best state so far; 'ignore' goes on."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of all randomness."""


class Device(Section):
    """Where and in what precision, in Lightning Fabric's words."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """'auto', 'cpu', 'cuda' or 'mps'."""
    devices: Ranks | Literal["auto"] = 1
    """Number of devices (ranks) on a machine, or 'auto'."""
    threads: Ranks | None = None
    """Processor threads of training; None is 1 for vectors and torch's own number for images. With
    1, small data is also prepared and evaluated by one thread."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """'32-true' or 'bf16-mixed'."""


# --- all of them ----------------------------------------------------------------------------------


class Settings(Section):
    """All of it; `settings_type` adds the sections of methods."""

    method: Annotated[str, AfterValidator(METHODS.check)] = "gedi"
    """The objective. 'gedi': GEN + INV + PRIOR; 'no-gen', 'no-inv' and 'no-unif' leave out one of
    these, 'jem' keeps GEN alone; 'swav', 'barlow', 'dino', 'deepcluster' and 'ebclr' are baselines
    with settings of their own."""
    n_clusters: Width = 2
    """Number of clusters c; 1 trains the density alone."""
    prior: Literal["auto", "uniform"] | tuple[float, ...] = "auto"
    """The distribution p(y) over clusters, as proportions in any order; 'uniform' is the paper's.
    'auto' takes those of the initial clustering, or estimates them while training: clusters may
    then have any size. For images, 'uniform' is the default."""
    metric: Literal["auto", "euclidean", "cosine"] = "auto"
    """How vectors are compared. 'auto': 'cosine' for embeddings, which are more than 64 columns in
    one unit, in rows of similar length; else 'euclidean'."""
    scaling: Literal["standard", "none"] | tuple[float, Positive] = "standard"
    """'standard': columns to mean 0 and deviation 1, images to [-1, 1]; with the metric 'cosine'
    rows to length 1, then at most 128 principal directions of them. 'none': data as it comes.
    (mean, deviation): all values minus this mean, divided by this deviation; see views.pixels."""
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
        return checked, (self.model_dump(),)

    @property
    def own(self) -> Any:
        """The `MethodSettings` of the method; a method without any value to set has no section."""
        return getattr(self, self.method, None) or METHODS[self.method]()

    @property
    def trained(self) -> tuple[str, ...]:
        """The terms among GEN, INV and PRIOR that the method has and that have weight."""
        return tuple(name for name in self.own.weighted if getattr(self.weights, name))

    @property
    def certifies(self) -> bool:
        """Whether a small bound gap is a certificate: not without INV or PRIOR.

        Such an ablation would be measured by a term that it does not have. Baselines have terms of
        their own.
        """
        return {"inv", "prior"} <= set(self.trained) or not self.own.weighted

    @property
    def learns_density(self) -> bool:
        """Whether log p(x) is learnt: GEN is trained."""
        return "gen" in self.trained

    @property
    def has_base(self) -> bool:
        """Whether GEN is learnt on a base: by methods that also find clusters, by default."""
        paper = self.sampler.kind == "langevin" or self.density.base == "none"
        return self.learns_density and len(self.own.weighted) > 1 and not paper


def checked(values: dict[str, Any]) -> Settings:
    """The nested values with the defaults, each checked, before the shape of the data is known."""
    prior = values.get("prior")
    if isinstance(prior, list | tuple):  # which says how many clusters there are
        values = {"n_clusters": len(prior)} | values
    try:
        return settings_type().model_validate(values)
    except ValidationError as error:
        raise InputError(_one_line(error, values)) from None


def settings_type() -> type[Settings]:
    """`Settings` with a section for every registered method that has settings of its own."""
    known = ((name, METHODS[name]) for name in METHODS)
    return _with_sections(tuple(pair for pair in known if pair[1].model_fields))


@lru_cache(maxsize=4)
def _with_sections(sections: tuple[tuple[str, type[Section]], ...]) -> type[Settings]:
    fields: dict[str, Any] = {name: (kind, kind()) for name, kind in sections}
    return create_model("Settings", __base__=Settings, **fields)


# --- the rules ------------------------------------------------------------------------------------

# Different defaults for images.
IMAGES: dict[str, Any] = {
    "prior": "uniform",
    "training.start": "random",
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
    "density.inv": 10.0,
    "density.prior": 20.0,
    "training.check_every": 100,
}
# Images with a shorter side above this are averaged down before the first convolution, by a whole
# factor: this keeps most differences between pictures, and one of 64x64 costs a quarter.
LARGE = 48
# Fewer than 1,700 images are seen often enough in fewer iterations, and large ones take longer:
# iterations for each image, at least in all, and Langevin steps in each iteration of the density.
EACH, EACH_LARGE, FEWEST, STEPS_LARGE = 1.2, 0.8, 300, 10

# Different defaults for vectors with 'walk' views and methods that train the bound.
WALKS: dict[str, Any] = {
    "network.activation": "silu",
    "weights.inv": 5.0,
    "weights.prior": ((0.0, 20.0), (0.25, 5.0), (1.0, 20.0)),
    "sampler.chains": 128,
    "optimizer.learning_rate": 1e-2,
    "optimizer.schedule": "cosine",
    "training.max_iter": 1_000,
}
# The same with an initial clustering, or with one cluster: the search for clusters is short.
STARTED: dict[str, Any] = WALKS | {
    "weights.prior": 5.0,
    "optimizer.learning_rate": 2e-2,
    "training.max_iter": 300,
}
POINTS_EACH, FEWEST_POINTS, MOST_POINTS = 16, 256, 512  # in a batch, for each cluster and in all
MOST_WITH_SINES, SINES = 4, 32  # columns in which the network sees sines; in more they hurt

# The same where several networks vote: they begin at random, and walks are short.
VOTERS: dict[str, Any] = WALKS | {
    "network.hidden": (128,),
    "views.longest": 16,
    "views.walk_noise": 0.0,
    "weights.inv": 1.0,
    "weights.symmetric": True,
    "weights.prior": 3.0,
    "weights.start": 1.0,
    "optimizer.learning_rate": 2e-2,
    "optimizer.warmup": 30,
    "training.n_init": 6,
    "training.check_every": 200,
}
# Iterations, and more for each cluster; passes over the data, if it is large; points in a batch,
# which holds each cluster several times.
FEWEST_ITERATIONS, ITERATIONS_EACH, PASSES, MOST_ITERATIONS = 150, 2, 10, 500
EACH_IN_BATCH, LEAST_BATCH, MOST_BATCH = 10, 768, 4_096

# The largest number of clusters that is compared, by metric.
MAX_CLUSTERS = {"euclidean": 10, "cosine": 300}

MOST_COLUMNS = 64  # with a base in all of them; mixtures of more have too many numbers to fit
ON_BASE = ("importance", "chains", "none")  # samplers
LATER = 800  # iterations of GEN after the clusters, by chains


def resolve(values: dict[str, Any], shape: tuple[int, ...]) -> Settings:
    """The final settings of a fit to data of this shape, or one line that names the wrong value.

    The nested `values` take precedence over the table of the kind of data, and the table over the
    defaults of the sections. Then 'auto' and None are settled, from top to bottom.
    """
    given, images = checked(values), is_images(shape)
    clusters, method, has_base = given.n_clusters, given.own, given.has_base
    final = flat(given.model_dump())

    # The kind of data, and its table.
    walks = method.has_bound and not images and given.views.kind in (AUTO, "walk")
    if given.training.start == AUTO:
        found = "vote" if given.metric == "cosine" else "chosen"
        final["training.start"] = found if walks and clusters > 1 else "random"
    started = clusters == 1 or final["training.start"] == "chosen"
    table = _image_table(shape) if images else _walk_table(clusters, shape[1], started)
    if final["training.start"] == "vote":
        table = _voters_table(clusters, shape[0])
    if images or walks:
        final |= {name: value for name, value in table.items() if name not in flat(values)}
    _settle(final, "metric", "euclidean", AUTO)
    _settle(final, "training.max_clusters", MAX_CLUSTERS[final["metric"]])
    needs_vectors = {"training.start": ("chosen", "vote"), "metric": ("cosine",)}
    for name, values_ in needs_vectors.items():
        if images and final[name] in values_:
            raise InputError(f"{name}={final[name]!r} needs vectors (n, d), got shape {shape}")

    # Views, and the network.
    if given.views.kind == AUTO:
        final["views.kind"] = "walk" if not images else "grey" if shape[1] == 1 else "paper"
    if not images:
        final |= {"network.encoder": "mlp", "network.shift": False, "network.standardised": False}
    elif given.network.encoder == "mlp":
        raise InputError(f"network.encoder='mlp' needs vectors (n, d), got shape {shape}")
    else:
        encoder = "conv" if given.network.encoder == AUTO else given.network.encoder
        final["network.encoder"] = encoder
        _settle(final, "network.width", 128 if encoder == "resnet8" else 32)
        _settle(final, "network.shift", has_base)
        _settle(final, "network.standardised", not method.network().batch_norm)

    # Samples, and the density.
    sampler, in_columns = given.sampler.kind, has_base_in_columns(shape)
    if sampler == AUTO and not has_base:
        sampler = "langevin"
    elif sampler == AUTO:
        sampler = "chains" if images else "importance" if in_columns else "none"
    elif sampler in ON_BASE and given.density.base == "none":
        raise InputError(f"sampler.kind={sampler!r} needs a base, got density.base='none'")
    if given.density.base == "gaussian" and not in_columns:
        raise InputError(
            f"density.base='gaussian' needs at most {MOST_COLUMNS} columns, got data of shape "
            f"{shape}"
        )
    final["sampler.kind"] = sampler
    final["density.base"] = given.density.base if has_base else "none"
    _settle(final, "density.iterations", 0 if sampler in ("importance", "none") else LATER)

    # Training, and the method.
    _settle(final, "training.early_stopping", method.has_bound)
    _settle(final, "device.threads", None if images else 1)
    n_batches = math.ceil(shape[0] / final["optimizer.batch_size"])
    own = method.settled(clusters, n_batches).model_dump()
    final |= {f"{given.method}.{name}": value for name, value in own.items()}

    _check(final, given.sampler.kind)
    return settings_type().model_validate(nested(final))


def _settle(final: dict[str, Any], name: str, value: Any, left: str | None = None) -> None:
    """Set a value that was left at None, or 'auto'."""
    if final[name] == left:
        final[name] = value


def is_images(shape: tuple[int, ...]) -> bool:
    """Whether data of this shape is images (n, channels, height, width), not vectors (n, d)."""
    return len(shape) == 4


def has_base_in_columns(shape: tuple[int, ...]) -> bool:
    """Whether a base of data of this shape is one in all columns; others have principal ones."""
    return not is_images(shape) and shape[1] <= MOST_COLUMNS


def _image_table(shape: tuple[int, ...]) -> dict[str, Any]:
    """The defaults for images (n, channels, height, width)."""
    large, most = min(shape[2:]) > LARGE, Training().max_iter
    length = min(most, max(round(shape[0] * (EACH_LARGE if large else EACH)), FEWEST))
    later = IMAGES["density.iterations"] * length // most
    steps = {"sampler.steps": STEPS_LARGE} if large else {}
    return IMAGES | {"training.max_iter": length, "density.iterations": later} | steps


def _walk_table(n_clusters: int, n_columns: int, started: bool) -> dict[str, Any]:
    """The defaults for vectors with 'walk' views."""
    batch = min(max(POINTS_EACH * n_clusters, FEWEST_POINTS), MOST_POINTS)
    sines = SINES if n_columns <= MOST_WITH_SINES else 0
    table = STARTED if started else WALKS
    return table | {"optimizer.batch_size": batch, "network.sines": sines}


def _voters_table(n_clusters: int, n: int) -> dict[str, Any]:
    """The defaults for members that vote."""
    batch = min(max(EACH_IN_BATCH * n_clusters, LEAST_BATCH), MOST_BATCH)
    fewest = FEWEST_ITERATIONS + ITERATIONS_EACH * n_clusters
    length = min(max(PASSES * n // batch, fewest), MOST_ITERATIONS)
    return VOTERS | {"optimizer.batch_size": batch, "training.max_iter": length}


def _check(final: dict[str, Any], sampler: str) -> None:
    """Refuse values that contradict each other."""
    prior, clusters = final["prior"], final["n_clusters"]
    if isinstance(prior, tuple):
        if len(prior) != clusters:
            raise InputError(f"prior has {len(prior)} entries for n_clusters={clusters}")
        if not all(p > 0 for p in prior) or abs(sum(prior) - 1) > 1e-6:
            raise InputError(f"prior={prior}: entries must be positive and sum to 1")
    black, white = final["views.pixels"]
    if not black < white:
        raise InputError(f"views.pixels={(black, white)}: give the smaller one first")
    noise = final["views.noise"]
    if isinstance(noise, tuple) and final["views.kind"] != "noise":
        raise InputError(f"views.noise={noise}: only views.kind='noise' takes a schedule")
    batch = final["optimizer.batch_size"]
    limits = {"optimizer.batch_size": batch, "sampler.chains": final["sampler.chains"] or batch}
    name = min(limits, key=lambda name: limits[name])
    if sampler in (AUTO, "langevin") and final["sampler.buffer"] < limits[name]:
        raise InputError(
            f"sampler.buffer={final['sampler.buffer']} is smaller than {name}={limits[name]}: "
            "each sample needs a chain"
        )


# --- names ----------------------------------------------------------------------------------------


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
    return _paths(settings_type())


@lru_cache(maxsize=4)
def _paths(settings: type[Settings]) -> dict[str, str]:
    paths: dict[str, FieldInfo] = {}
    for name, field in settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for inner, inner_field in section.model_fields.items():
                paths[f"{name}.{inner}"] = inner_field
        else:
            paths[name] = field
    return {path: " ".join((field.description or "").split()) for path, field in paths.items()}


def _unknown(path: str) -> str:
    """That there is no such setting; those of other sections that end alike, or the nearest."""
    known, path = known_paths(), str(path)  # keys of a user's dict may be anything
    alike = [name for name in known if name.endswith(f".{path.rpartition('.')[2]}")]
    near = alike or [name for name in [closest(path, known)] if name is not None]
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "gedi settings lists them"
    return f"unknown setting {path!r} ({hint})"


def _one_line(error: ValidationError, values: dict[str, Any]) -> str:
    """The first setting that is wrong, its value, and what it should be."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]  # network, hidden, 0: the first of its entries
    if first["type"] == "extra_forbidden":
        return _unknown(".".join(place))
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not place:
        return reason
    dotted = ".".join(place[:2])
    name = dotted if dotted in known_paths() else place[0]
    return f"{name}={flat(values).get(name, first['input'])!r}: {reason}"
