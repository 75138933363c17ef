"""Every setting with its default, its meaning and its symbol in the paper, stated once.

`Settings` is what a run directory keeps as `config.yaml`, what a preset fills, and what
`gedi fit --set section.name=value` changes; the estimator's constructor takes its defaults and its
documentation from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from gedilearn.errors import InputError, suggestion


def _points(value: Any) -> Any:
    """A number stays a number; pairs become a tuple of (progress, value) points."""
    if isinstance(value, list | tuple):
        return tuple(tuple(point) for point in value)
    return value


Schedule = Annotated[float | tuple[tuple[float, float], ...], BeforeValidator(_points)]


def at(schedule: float | tuple[tuple[float, float], ...], progress: float) -> float:
    """The value at `progress` in [0, 1]: linear between the points of a schedule, flat outside."""
    if not isinstance(schedule, tuple):
        return float(schedule)
    before = schedule[0]
    for point in schedule:
        if progress < point[0]:
            share = (progress - before[0]) / (point[0] - before[0]) if point != before else 0.0
            return before[1] + share * (point[1] - before[1])
        before = point
    return before[1]


def raised(
    schedule: float | tuple[tuple[float, float], ...], amount: float
) -> float | tuple[tuple[float, float], ...]:
    """The schedule with `amount` added throughout."""
    if not isinstance(schedule, tuple):
        return schedule + amount
    return tuple((progress, value + amount) for progress, value in schedule)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Network(Section):
    """The encoder enc and the head f."""

    encoder: Literal["auto", "conv", "resnet8"] = Field(
        "auto",
        description="Encoder of images: 'conv', four small convolutions, or 'resnet8', the "
        "paper's; 'auto' is 'conv'. Vectors always have a perceptron.",
    )
    width: int | None = Field(
        None,
        ge=1,
        description="Channels of that encoder, F of the paper; None is 32 for 'conv' and 128 for "
        "'resnet8'.",
    )
    hidden: tuple[int, ...] = Field(
        (100, 100), description="Widths of the encoder's hidden layers, for vectors."
    )
    features: int | None = Field(
        None,
        ge=1,
        description="Width h of the representation enc(x), made by one more linear layer; None "
        "takes the last hidden layer as the representation.",
    )
    head: tuple[int, ...] = Field((), description="Widths of the hidden layers of the head f.")
    activation: Literal["leaky_relu", "relu", "silu", "tanh"] = Field(
        "leaky_relu", description="Activation between layers (slope 0.2 for leaky_relu)."
    )
    temperature: float = Field(
        1.0, gt=0, description="The temperature tau that divides the logits."
    )


class Views(Section):
    """The view distribution T(x'|x)."""

    kind: Literal["auto", "walk", "noise", "grey", "colour", "paper"] = Field(
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
    walk_noise: float = Field(
        0.7,
        ge=0,
        description="Length of the noise of 'walk' views, in units of the end point's distance to "
        "its last neighbour.",
    )
    n_neighbors: int = Field(
        5,
        ge=1,
        description="Neighbours of a point in the graph of 'walk'; more are taken while the graph "
        "has more components than there are clusters.",
    )


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
    energy: Schedule = Field(
        0.01,
        description="Weight of the mean squared log-density of data and samples, which keeps "
        "energies from drifting (not in the paper; 0 turns it off).",
    )


class Sampler(Section):
    """Stochastic gradient Langevin dynamics and its replay buffer."""

    steps: int = Field(10, ge=1, description="Langevin steps T in each iteration.")
    step_size: float = Field(
        0.01125, gt=0, description="SGLD step size: multiplies the gradient (noise squared over 2)."
    )
    noise: float = Field(0.15, ge=0, description="SGLD noise: standard deviation added in a step.")
    buffer: int = Field(1_000, ge=1, description="Chains |B| in the replay buffer.")
    chains: int | None = Field(
        128,
        ge=1,
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


class Optimizer(Section):
    """Adam."""

    learning_rate: float = Field(1e-3, gt=0, description="Adam's learning rate.")
    schedule: Literal["constant", "cosine"] = Field(
        "constant",
        description="Course of the learning rate over the clusters' iterations: 'cosine' falls "
        "to 0 along half a cosine.",
    )
    warmup: int = Field(
        0, ge=0, description="Iterations in which the learning rate rises from 0, at the start."
    )
    betas: tuple[float, float] = Field((0.9, 0.999), description="Adam's beta_1 and beta_2.")
    batch_size: int = Field(400, ge=2, description="Points in a batch (all points if fewer).")
    grad_clip: float | None = Field(
        None, gt=0, description="Largest gradient norm of a member; longer ones are shortened."
    )


class Density(Section):
    """The second stage: GEN, once the clusters stand."""

    iterations: int = Field(
        260,
        ge=0,
        description="Iterations of GEN after the clusters, for the kept initialisation; 0 trains "
        "all three terms together from the start, as in the paper.",
    )
    learning_rate: float = Field(
        5e-3, gt=0, description="Adam's learning rate there; it falls to 0."
    )
    inv: Schedule = Field(
        ((0.0, 50.0), (0.5, 50.0), (1.0, 150.0)),
        description="Weight of INV there, which holds the clusters: the harder towards the end, so "
        "that a certificate survives.",
    )
    prior: Schedule = Field(50.0, description="Weight of PRIOR there.")


class Training(Section):
    """How long, how often, and when to stop."""

    max_iter: int = Field(2000, ge=1, description="Most iterations (Iters of Algorithm 1).")
    n_init: int = Field(
        1,
        ge=1,
        description="Initialisations trained at once; the one with the smallest gap is kept.",
    )
    tol: float = Field(
        0.002,
        ge=0,
        description="Training ends, and the result is certified, when the gap to the optimum of "
        "Proposition 1 falls below this many nats.",
    )
    check_every: int = Field(50, ge=1, description="Iterations between two looks at the gap.")
    checkpoint_every: float = Field(
        20.0, ge=0, description="Seconds between two checkpoints of a run directory."
    )
    tensorboard: bool = Field(
        False,
        description="Also write the metrics of a run directory for TensorBoard (extra "
        "'tensorboard').",
    )
    on_divergence: Literal["recover", "stop"] = Field(
        "recover",
        description="What to do when energies diverge: go back to the last good state and go on "
        "more calmly, or stop with the best state so far.",
    )
    max_recoveries: int = Field(5, ge=0, description="Recoveries before training gives up.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of all randomness.")


class SwAV(Section):
    """The baseline SwAV; its head is a projector and normalised prototypes, one a cluster."""

    epsilon: float = Field(
        0.05, gt=0, description="SwAV: smoothness of the assignments (entropy of Sinkhorn)."
    )
    iterations: int = Field(3, ge=1, description="SwAV: rounds of Sinkhorn-Knopp.")
    temperature: float = Field(
        0.1, gt=0, description="SwAV: temperature of the predictions; it is the model's tau."
    )
    queue: int = Field(
        0, ge=0, description="SwAV: past embeddings that take part in the assignments."
    )
    queue_from: float = Field(
        0.15, ge=0, le=1, description="SwAV: share of the training after which the queue is used."
    )
    freeze: float = Field(
        0.0, ge=0, le=1, description="SwAV: share of the training with frozen prototypes."
    )
    embedding: int | None = Field(
        None, ge=1, description="SwAV: width of the embedding; None is the number of clusters."
    )
    batch_norm: bool = Field(True, description="SwAV: batch normalisation between layers.")


class Barlow(Section):
    """The baseline Barlow Twins; its embedding has one coordinate a cluster."""

    off_diagonal: float = Field(
        5e-3, ge=0, description="Barlow Twins: weight lambda of the redundancy term."
    )
    scale: float = Field(0.1, gt=0, description="Barlow Twins: factor of the whole loss.")
    assign: Literal["argmax", "kmeans"] = Field(
        "argmax",
        description="Barlow Twins has no clusters of its own: 'argmax' takes the largest "
        "coordinate of the embedding, as the paper does; 'kmeans' clusters the embedding.",
    )
    batch_norm: bool = Field(True, description="Barlow Twins: batch normalisation between layers.")


class DINO(Section):
    """The baseline DINO: a student learns the sharpened, centred output of its own average."""

    student_temperature: float = Field(
        0.1, gt=0, description="DINO: temperature of the student; it is the model's tau."
    )
    teacher_temperature: float = Field(
        0.04, gt=0, description="DINO: temperature of the teacher (sharpening)."
    )
    momentum: float = Field(
        0.996,
        ge=0,
        le=1,
        description="DINO: how slowly the teacher follows the student; rises to 1 along a cosine.",
    )
    centre_momentum: float = Field(
        0.9, ge=0, lt=1, description="DINO: memory of the average teacher output (centring)."
    )
    embedding: int | None = Field(
        None, ge=1, description="DINO: width of the embedding; None is the number of clusters."
    )


class DeepCluster(Section):
    """The baseline DeepCluster: k-means on the features gives the labels of the next period."""

    period: int | None = Field(
        None,
        ge=1,
        description="DeepCluster: iterations between two rounds of k-means; None is one pass over "
        "the data, but at least 20.",
    )
    components: int = Field(
        256, ge=1, description="DeepCluster: principal components kept before k-means."
    )


class Device(Section):
    """Where and in what precision, in Lightning Fabric's words."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="'auto', 'cpu', 'cuda' or 'mps'."
    )
    devices: int | str = Field(1, description="Number of devices (ranks), or 'auto'.")
    num_nodes: int = Field(1, ge=1, description="Number of machines.")
    threads: int | None = Field(
        None,
        ge=1,
        description="Processor threads of training; None is 1 for vectors, whose products are too "
        "small to share, and torch's own number for images.",
    )
    precision: Literal["32-true", "64-true", "bf16-mixed"] = Field(
        "32-true", description="'32-true', '64-true' or 'bf16-mixed'."
    )


# The terms that have weights.
TERMS = ("gen", "inv", "prior", "energy")

# The objectives of the paper's family: GEDI without one or two of its terms.
WITHOUT: dict[str, tuple[str, ...]] = {
    "gedi": (),
    "no-gen": ("gen",),
    "no-inv": ("inv",),
    "no-unif": ("prior",),
    "jem": ("inv", "prior"),
}

# Methods with settings of their own, and the section that holds them.
BASELINES = ("swav", "barlow", "dino", "deepcluster")


class Settings(Section):
    """All of it."""

    method: Literal[
        "gedi", "no-gen", "no-inv", "no-unif", "jem", "swav", "barlow", "dino", "deepcluster"
    ] = Field(
        "gedi",
        description="The objective. 'gedi': GEN + INV + PRIOR; 'no-gen', 'no-inv' and 'no-unif' "
        "leave out one of these, 'jem' keeps GEN alone; 'swav', 'barlow', 'dino' and 'deepcluster' "
        "are baselines with settings of their own.",
    )

    n_clusters: int = Field(
        2,
        ge=1,
        description="Number of clusters c; 1 trains the density alone.",
    )
    prior: Literal["auto"] | tuple[float, ...] | None = Field(
        None,
        description="The distribution p(y) over clusters, as proportions in any order; None is "
        "uniform; 'auto' estimates it while training, at the risk that clusters of any size count "
        "as right.",
    )
    scaling: Literal["standard", "none"] = Field(
        "standard",
        description="'standard': columns to mean 0 and deviation 1, images to [-1, 1]; 'none': "
        "data as it comes.",
    )
    network: Network = Network()
    views: Views = Views()
    weights: Weights = Weights()
    sampler: Sampler = Sampler()
    optimizer: Optimizer = Optimizer()
    density: Density = Density()
    swav: SwAV = SwAV()
    barlow: Barlow = Barlow()
    dino: DINO = DINO()
    deepcluster: DeepCluster = DeepCluster()
    training: Training = Training()
    device: Device = Device()

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


# What is different for images; all else is as for vectors. In the estimator these are 'auto'.
IMAGES: dict[str, Any] = {
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
    "density.iterations": 500,
    "density.learning_rate": 2e-3,
    "density.inv": 1.0,
    "density.prior": 2.0,
    "training.check_every": 100,
}
AUTO: Literal["auto"] = "auto"


def check_prior(prior: tuple[float, ...], n_clusters: int) -> None:
    """Refuse what is not a distribution over the clusters."""
    if len(prior) != n_clusters:
        raise ValueError(f"prior has {len(prior)} entries for n_clusters={n_clusters}")
    if not all(p > 0 for p in prior) or abs(sum(prior) - 1) > 1e-6:
        raise ValueError(f"prior={prior}: entries must be positive and sum to 1")


def check_noise(views: Views) -> None:
    """Refuse negative deviations, and schedules where there is no progress."""
    points = views.noise if isinstance(views.noise, tuple) else ((0.0, views.noise),)
    if any(sigma < 0 for _, sigma in points):
        raise ValueError(f"views.noise={views.noise}: a deviation is 0 or more")
    if isinstance(views.noise, tuple) and views.kind != "noise":
        raise ValueError(f"views.noise={views.noise}: only views.kind='noise' takes a schedule")


def build(values: dict[str, Any], images: bool = False) -> Settings:
    """Settings from nested values, or one line that names the wrong one.

    What `values` leave out has its default: for vectors, or for images.
    """
    if images:
        values = _with_image_defaults(values)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise InputError(_one_line(error)) from None


def _with_image_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """The nested values, with the defaults of images where they say nothing."""
    joined = dict(values)
    for path, value in IMAGES.items():
        section, name = path.split(".")
        given = joined.get(section, {})
        if isinstance(given, dict):  # anything else is refused when the settings are built
            joined[section] = {name: value} | given
    return joined


def assign(values: dict[str, Any], path: str, value: Any) -> None:
    """Set `a.b` in nested values; an unknown name is refused with the nearest known one."""
    known = known_paths()
    if path not in known:
        raise InputError(f"unknown setting {path!r}{suggestion(path, known)}")
    *sections, name = path.split(".")
    for section in sections:
        values = values.setdefault(section, {})
    values[name] = value


def known_paths() -> dict[str, str]:
    """Every setting's dotted name and what it means."""
    paths = {}
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for inner, inner_field in section.model_fields.items():
                paths[f"{name}.{inner}"] = inner_field.description or ""
        else:
            paths[name] = field.description or ""
    return paths


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("tuple", "float"))
    )
    if first["type"] == "extra_forbidden":
        known = known_paths()
        return f"unknown setting {where!r}{suggestion(where, known)}"
    message = first["msg"].removeprefix("Value error, ")
    if not where:
        return message
    return f"{where}={first['input']!r}: {message[0].lower()}{message[1:]}"
