"""All settings of a fit, and how they come about.

`Settings` is what a run directory keeps as `config.yaml`, what a preset fills, what `gedi fit --set
section.name=value` changes and what `GEDI(settings={"section.name": value})` takes. Each setting is
stated once, in its section, with default, meaning and symbol in the paper; a method may have a
section of its own. `resolve` makes the settings for data of a given shape: the one place where
'auto' and None get their values. No torch here: `gedi settings` lists all of it without.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from gedilearn.errors import InputError, closest
from gedilearn.registry import METHODS, SAMPLERS, VIEWS

# --- kinds of values ------------------------------------------------------------------------------

# Images with a shorter side above this are averaged down before the first convolution, by a whole
# factor: what tells pictures apart is mostly still there, and one of 64x64 costs a quarter.
LARGE = 48


def is_images(shape: tuple[int, ...]) -> bool:
    """Whether data of this shape is images (n, channels, height, width), not vectors (n, d)."""
    return len(shape) == 4


def _schedule(value: Any) -> Any:
    """A number, or (progress, value) points as a tuple; anything else is refused."""
    constant = isinstance(value, Real | str)  # YAML reads 1e-3 as text
    points = [(0.0, value)] if constant else value
    try:
        pairs = [(float(progress), float(level)) for progress, level in points]
    except (TypeError, ValueError, OverflowError):
        pairs = []
    moments = [progress for progress, _ in pairs]
    in_order = moments == sorted(moments) and all(0 <= progress <= 1 for progress in moments)
    if not pairs or not in_order:
        raise ValueError("give a number, or (progress, value) points, progress from 0 to 1")
    if not all(0 <= level <= LARGEST for _, level in pairs):
        raise ValueError(f"values must be from 0 to {LARGEST:g}")
    return pairs[0][1] if constant else tuple(pairs)


LARGEST = 1e30  # beyond it torch refuses numbers in single precision

# A number, or (progress, value) points joined by lines.
Schedule = Annotated[float | tuple[tuple[float, float], ...], BeforeValidator(_schedule)]
Positive = Annotated[float, Field(gt=0, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
# The width of a layer, and a number of chains or past points: what is larger fits no machine.
Width = Annotated[int, Field(ge=1, le=1_000_000)]
MOST = 100_000_000
Many = Annotated[int, Field(ge=1, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Ranks = Annotated[int, Field(ge=1, le=1024)]


def value_at(schedule: float | tuple[tuple[float, float], ...], progress: float) -> float:
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


# --- sections -------------------------------------------------------------------------------------

Self = TypeVar("Self", bound="Section")
AUTO = "auto"


class Section(BaseModel):
    """Settings that belong together; the text below each is what it means."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def resolved(self: Self, settings: Any, shape: tuple[int, ...]) -> Self:
        """The section for data of this shape, in these `Settings`: nothing is left open."""
        return self


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
    """Sines of x that the encoder of vectors sees beside x."""
    standardised: bool | None = None
    """Whether the filters of 'resnet8' have mean 0 and a learnt norm, as those of 'conv' always
    have. None: where there is no batch normalisation (the paper: not)."""
    shift: bool | None = None
    """Whether all logits of images have a common part that is read from all layers of the encoder:
    the energy then sees details that the last layer has lost. None: where GEN is learnt on a
    base."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Network:
        if not is_images(shape):
            return self.model_copy(update={"encoder": "mlp", "shift": False, "standardised": False})
        if self.encoder == "mlp":
            raise InputError(f"network.encoder='mlp' needs vectors (n, d), got shape {shape}")
        kind = "conv" if self.encoder == "auto" else self.encoder
        width = self.width or (128 if kind == "resnet8" else 32)
        shift = has_base(settings) if self.shift is None else self.shift
        plain = not settings.own.network().batch_norm
        standardised = plain if self.standardised is None else self.standardised
        update = {"encoder": kind, "width": width, "shift": shift, "standardised": standardised}
        return self.model_copy(update=update)


class Views(Section):
    """The view distribution T(x'|x)."""

    kind: str = "auto"
    """How a view x' is drawn from T(x'|x). 'noise': x plus Gaussian noise, as in the paper's toys;
    'walk': the end of a random walk on the nearest-neighbour graph, long walks first; for images,
    each with noise: 'grey': small affine and elastic changes, 'paper': the paper's shifts and rare
    changes of colour. 'auto': 'walk' for vectors, 'grey' for images of one channel, else
    'paper'."""
    flip: bool = True
    """Whether 'paper' views mirror images (the paper: not SVHN)."""
    noise: Schedule = 0.03
    """Standard deviation sigma of the Gaussian noise of all views but 'walk', in the network's
    units; for 'noise' also (progress, sigma) points, the first of which holds for the
    certificate."""
    data_noise: NonNegative = 0.0
    """Standard deviation of Gaussian noise on the points themselves, in the network's units, where
    a method trains on them beside their views, or on nothing else (the paper: 0.03 for JEM on
    images)."""
    walk_noise: NonNegative = 0.7
    """Length of the noise of 'walk' views, in units of the end point's distance to its last
    neighbour."""
    n_neighbors: Many = 10
    """Neighbours of a point in the graph of 'walk'; fewer are taken where clusters are then
    components of the graph."""

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        return kind if kind == AUTO else VIEWS.check(kind)

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Views:
        if self.kind != AUTO:
            return self
        grey = len(shape) > 1 and shape[1] == 1
        kind = ("grey" if grey else "paper") if is_images(shape) else "walk"
        return self.model_copy(update={"kind": kind})


class Weights(Section):
    """What multiplies each term; a number, or (progress, weight) points joined by lines."""

    gen: Schedule = 1.0
    """Weight of GEN, -L_GEN."""
    inv: Schedule = 50.0
    """Weight of INV, -L_INV."""
    symmetric: bool = False
    """INV in both directions, averaged: CE(p(y|x'), p(y|x)) and CE(p(y|x), p(y|x')); the paper has
    the first."""
    prior: Schedule = ((0.0, 200.0), (0.25, 50.0), (1.0, 200.0))
    """Weight of PRIOR, -L_PRIOR. A weight below that of INV makes the constant prediction unstable
    towards collapse, hence the default."""
    start: Schedule = 5.0
    """Weight of the cross-entropy with the labels of the start, where there is one (not in the
    paper). It does not fall: where clusters are thin or overlap, INV alone loses them."""
    classes: Schedule = 1.0
    """Weight of -log p(y|x) of the points whose class y is known."""
    energy: Schedule = 0.01
    """Weight of the mean squared log-density of data and samples, which keeps energies from
    drifting (not in the paper; 0 turns it off)."""


class Optimizer(Section):
    """Adam."""

    learning_rate: Positive = 1e-3
    """Adam's learning rate."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Course of the learning rate over the clusters' iterations: 'cosine' falls to 0 along half a
    cosine."""
    warmup: Count = 0
    """Iterations in which the learning rate rises from 0, at the start."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Adam's beta_1 and beta_2."""
    batch_size: Annotated[Many, Field(ge=2)] = 400
    """Points in a batch (all points if fewer)."""
    grad_clip: Positive | None = None
    """Largest gradient norm of a member; longer ones are shortened."""


class Training(Section):
    """How long, how often, and when to stop."""

    max_iter: Many = 2000
    """Most iterations (Iters of Algorithm 1)."""
    start: Literal["auto", "chosen", "random"] = "auto"
    """Where training begins. 'chosen': with the clusters that are best by evidence without labels,
    of several that are found on the neighbour graph, by a tree and by mixtures; 'random': with the
    network as it is initialised. 'auto': 'chosen' for vectors with 'walk' views and methods that
    train the certificate's bound."""
    max_clusters: Annotated[int, Field(ge=2, le=1_000)] = 10
    """Where the number of clusters is 'auto', those from 2 to this one are tried."""
    tries: Count = 1
    """Numbers of clusters that this one was chosen from, without labels: the best of many looks
    better than it is, so the grade asks for more. 0: none stood out, and the grade is 'doubtful' at
    most."""
    n_init: Width = 1
    """Initialisations trained at once; the one with the smallest gap is kept."""
    tol: NonNegative = 0.002
    """The result is certified when the gap to the optimum of Proposition 1 is below this many
    nats."""
    early_stopping: bool | None = None
    """Whether a certificate ends the search for clusters. None: for methods that train its bound,
    'gedi' and 'no-gen'; all others train to the end."""
    patience: Many = 100
    """Iterations in which the gap must fall by a fifth, where training begins with clusters; else
    it ends, though not before a third of its iterations."""
    check_every: Many = 50
    """Iterations between two measurements of the gap."""
    checkpoint_every: NonNegative = 20.0
    """Seconds between two checkpoints of a run directory."""
    tensorboard: bool = False
    """Also write the metrics of a run directory for TensorBoard (extra 'tensorboard')."""
    on_divergence: Literal["recover", "stop", "ignore"] = "recover"
    """If energies diverge, 'recover' returns to the last good state and halves the learning rate,
    'stop' ends with the best state so far, 'ignore' goes on; the verdict says so."""
    max_recoveries: Annotated[int, Field(ge=0, le=100)] = 5
    """Recoveries before training gives up."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of all randomness."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Training:
        trains_bound = {"inv", "prior"} <= set(settings.own.weighted)
        early = trains_bound if self.early_stopping is None else self.early_stopping
        begins = walks_to_bound(settings, shape) and settings.n_clusters > 1
        start = "chosen" if begins else "random"
        start = start if self.start == AUTO else self.start
        if start == "chosen" and is_images(shape):
            raise InputError(f"training.start='chosen' needs vectors (n, d), got shape {shape}")
        return self.model_copy(update={"early_stopping": early, "start": start})


class Device(Section):
    """Where and in what precision, in Lightning Fabric's words."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """'auto', 'cpu', 'cuda' or 'mps'."""
    devices: Ranks | Literal["auto"] = 1
    """Number of devices (ranks), or 'auto'."""
    num_nodes: Ranks = 1
    """Number of machines."""
    threads: Ranks | None = None
    """Processor threads of training; None is 1 for vectors, whose products are too small to share,
    and torch's own number for images."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """'32-true' or 'bf16-mixed'."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Device:
        if self.threads is None and not is_images(shape):
            return self.model_copy(update={"threads": 1})
        return self


MOST_COLUMNS = 64  # with a base in all of them; mixtures of more have too many numbers to fit


def has_base_in_columns(shape: tuple[int, ...]) -> bool:
    """Whether the base of data of this shape is one in all columns; others have principal ones."""
    return not is_images(shape) and shape[1] <= MOST_COLUMNS


def has_base(settings: Any) -> bool:
    """Whether GEN is learnt on a base: by methods with clusters to find, unless told otherwise."""
    terms = set(settings.own.weighted)
    learnt = "gen" in terms and len(terms) > 1 and bool(settings.weights.gen)
    paper = settings.sampler.kind == "langevin" or settings.density.base == "none"
    return learnt and not paper


class Sampler(Section):
    """How samples x~ of the model are drawn for GEN."""

    kind: str = "auto"
    """The sampler. 'langevin': stochastic gradient Langevin dynamics on a replay buffer, without a
    base, as in the paper. On a base, 'importance': points near the data, weighted; 'chains': short
    Langevin runs from the base; 'amortised': a generator with an entropy bound (VERA); 'none': no
    GEN, p(x) is the base's. 'auto': 'langevin' without a base, 'importance' in up to 64 columns,
    'none' in more, 'chains' for images."""
    steps: Many = 10
    """Langevin steps T in each iteration."""
    step_size: Positive = 0.01125
    """SGLD step size: multiplies the gradient (noise squared over 2)."""
    noise: NonNegative = 0.15
    """SGLD noise: standard deviation added in a step."""
    buffer: Many = 1_000
    """Chains |B| in the replay buffer."""
    chains: Many | None = 128
    """Most samples compared with the data in each iteration: one for each point of the batch up to
    this number; None sets no limit. Of 'importance', twice as many."""
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
    def _known(cls, kind: str) -> str:
        return kind if kind in (AUTO, "none") else SAMPLERS.check(kind)

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Sampler:
        if self.kind == AUTO:
            kind = "importance" if has_base_in_columns(shape) else "none"
            kind = "chains" if is_images(shape) else kind
            return self.model_copy(update={"kind": kind if has_base(settings) else "langevin"})
        if self.kind in ON_BASE and settings.density.base == "none":
            raise InputError(f"sampler.kind={self.kind!r} needs a base, got density.base='none'")
        smooth = settings.network.activation in ("silu", "tanh")
        if self.kind == "amortised" and not smooth:
            raise InputError(
                "sampler.kind='amortised' needs a smooth network, got network.activation="
                f"{settings.network.activation!r}: give 'silu' or 'tanh'"
            )
        return self


ON_BASE = ("importance", "chains", "amortised", "none")


class Density(Section):
    """The density p(x), which GEN learns."""

    base: Literal["auto", "gaussian", "mixture", "none"] = "auto"
    """The density that the network tilts: 'gaussian', a wide Gaussian; 'mixture', mixtures of
    Gaussians and kernels at the points; 'auto', the first in up to 4 columns. Images and vectors of
    more than 64 columns have a mixture in principal directions. 'none': no base, as in the
    paper."""
    iterations: Count | None = None
    """Most iterations of GEN after the clusters, for the kept initialisation, while INV and PRIOR
    go on; 0 trains all three terms together from the start, as in the paper. None: 0 with
    importance weights, else 800, for images 200."""
    learning_rate: Positive = 5e-3
    """Adam's learning rate after the clusters; it falls to 0."""
    inv: Schedule = ((0.0, 50.0), (0.5, 50.0), (1.0, 150.0))
    """Weight of INV there, which holds the clusters: the harder towards the end, so that a
    certificate survives."""
    prior: Schedule = 50.0
    """Weight of PRIOR there."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Density:
        if self.base == "gaussian" and not has_base_in_columns(shape):
            raise InputError(
                f"density.base='gaussian' needs at most {MOST_COLUMNS} columns, got data of shape "
                f"{shape}"
            )
        sampler = settings.sampler.resolved(settings, shape).kind
        iterations = self.iterations
        if iterations is None:
            iterations = 0 if sampler in ("importance", "none") else LATER
        base = self.base if has_base(settings) else "none"
        return self.model_copy(update={"base": base, "iterations": iterations})


LATER = 800  # iterations of GEN after the clusters, by chains


Kind = Literal["number", "boolean", "date", "time", "category", "id", "drop"]


class TableOptions(Section):
    """How the columns of a table are read: docs/tables.md."""

    columns: tuple[str, ...] | None = None
    """Names of the columns to use; None: all useful ones."""
    kinds: dict[str, Kind] = {}
    """Kinds of columns, by name; others are detected. Kinds are number, boolean, date, time,
    category, id (kept beside the clusters, not used) or drop."""
    impute: Literal["median", "mean", "most_frequent"] = "median"
    """Replacement of missing numbers, dates and times. Missing categories and truth values become
    their shares, or the most frequent with 'most_frequent'."""


# --- methods --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkShape:
    """What a method asks of the network beside the settings of the network."""

    batch_norm: bool = False  # between layers
    embedding: int | None = None  # width of the vectors that prototypes are compared with, if any
    temperature: float | None = None  # None is that of the settings


class MethodSettings(Section):
    """The settings of a method, and the facts about it that need no torch."""

    method: ClassVar[Any]  # the `methods.method.Method` that they are of, or its "module:attribute"
    weighted: ClassVar[tuple[str, ...]] = ()  # which of GEN, INV and PRIOR it has

    def network(self) -> NetworkShape:
        """What the method asks of the network."""
        return NetworkShape()


# Iterations that a classifier needs at least to learn new labels.
LEAST_PERIOD = 20


class GEDI(MethodSettings):
    """GEN + INV + PRIOR; its weights are in the section `weights`."""

    method = "gedilearn.methods.gedi:GEDI"
    weighted: ClassVar[tuple[str, ...]] = ("gen", "inv", "prior")


class NoGen(GEDI):
    """GEDI without GEN."""

    weighted = ("inv", "prior")


class NoInv(GEDI):
    """GEDI without INV."""

    weighted = ("gen", "prior")


class NoUnif(GEDI):
    """GEDI without PRIOR."""

    weighted = ("gen", "inv")


class JEM(GEDI):
    """GEN alone: the joint energy-based model (Grathwohl et al., 2020)."""

    weighted = ("gen",)


class SwAV(MethodSettings):
    """The baseline SwAV; its head is a projector and normalised prototypes, one a cluster."""

    method = "gedilearn.methods.swav:SwAV"
    epsilon: Positive = 0.05
    """Smoothness of the assignments (entropy of Sinkhorn)."""
    iterations: Many = 3
    """Rounds of Sinkhorn-Knopp."""
    temperature: Positive = 0.1
    """Temperature of the predictions; it is the model's tau."""
    embedding: Width | None = None
    """Width of the embedding; None is the number of clusters."""
    batch_norm: bool = True
    """Batch normalisation between layers."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> SwAV:
        return self.model_copy(update={"embedding": self.embedding or settings.n_clusters})

    def network(self) -> NetworkShape:
        return NetworkShape(self.batch_norm, self.embedding, self.temperature)


class Barlow(MethodSettings):
    """The baseline Barlow Twins; its embedding has one coordinate a cluster."""

    method = "gedilearn.methods.barlow:BarlowTwins"
    off_diagonal: NonNegative = 5e-3
    """Weight lambda of the redundancy term."""
    scale: Positive = 0.1
    """Factor of the whole loss."""
    assign: Literal["argmax", "kmeans"] = "argmax"
    """Barlow Twins has no clusters of its own, and the paper does not say how it gets some:
    'argmax' takes the largest coordinate of the embedding, 'kmeans' clusters it."""
    batch_norm: bool = True
    """Batch normalisation between layers."""

    def network(self) -> NetworkShape:
        return NetworkShape(self.batch_norm)


class Dino(MethodSettings):
    """The baseline DINO: a student learns the sharpened, centred output of its own average."""

    method = "gedilearn.methods.dino:DINO"
    student_temperature: Positive = 0.1
    """Temperature of the student; it is the model's tau."""
    teacher_temperature: Positive = 0.04
    """Temperature of the teacher (sharpening)."""
    momentum: Fraction = 0.996
    """How slowly the teacher follows the student; rises to 1 along a cosine."""
    centre_momentum: Share = 0.9
    """Memory of the average teacher output (centring)."""
    embedding: Width | None = None
    """Width of the embedding; None is the number of clusters."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Dino:
        return self.model_copy(update={"embedding": self.embedding or settings.n_clusters})

    def network(self) -> NetworkShape:
        return NetworkShape(embedding=self.embedding, temperature=self.student_temperature)


class DeepCluster(MethodSettings):
    """The baseline DeepCluster: k-means on the features gives the labels of the next period."""

    method = "gedilearn.methods.deepcluster:DeepCluster"
    period: Many | None = None
    """Iterations between two rounds of k-means; None is one pass over the data, but at
    least 20."""
    components: Width = 256
    """Principal components kept before k-means."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> DeepCluster:
        passes = math.ceil(shape[0] / min(settings.optimizer.batch_size, shape[0]))
        return self.model_copy(update={"period": self.period or max(passes, LEAST_PERIOD)})


class Ebclr(MethodSettings):
    """The baseline EBCLR: contrastive learning as a joint density of two views."""

    method = "gedilearn.methods.ebclr:EBCLR"
    temperature: Positive = 0.1
    """Temperature tau that divides squared distances."""
    generative: NonNegative = 0.1
    """Weight lambda of the generative term log q(v); 0 draws no samples and leaves
    contrastive learning alone."""
    length: NonNegative = 0.128
    """Weight, within the generative term, of the mean squared length of projections of data
    and samples before they are normalised (0.001 a point in batches of 128 in the published
    code)."""
    embedding: Width | None = None
    """Width of the embedding; None is the number of clusters, but at least 2 (the published
    experiments: 128)."""

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Ebclr:
        return self.model_copy(update={"embedding": self.embedding or max(settings.n_clusters, 2)})

    def network(self) -> NetworkShape:
        return NetworkShape(embedding=self.embedding, temperature=self.temperature / 2)


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
    'auto' takes those of the start, or estimates them while training: clusters of any size then
    count as right. For images, 'uniform' is the default."""
    scaling: Literal["standard", "none"] = "standard"
    """'standard': columns to mean 0 and deviation 1, images to [-1, 1]; 'none': data as it
    comes."""
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
        return getattr(self, self.method, None) or METHODS[self.method]()

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        prior, views = self.prior, self.views
        if isinstance(prior, tuple):
            if len(prior) != self.n_clusters:
                raise ValueError(f"prior has {len(prior)} entries for n_clusters={self.n_clusters}")
            if not all(p > 0 for p in prior) or abs(sum(prior) - 1) > 1e-6:
                raise ValueError(f"prior={prior}: entries must be positive and sum to 1")
        if isinstance(views.noise, tuple) and views.kind != "noise":
            raise ValueError(f"views.noise={views.noise}: only views.kind='noise' takes a schedule")
        limits = {
            "optimizer.batch_size": self.optimizer.batch_size,
            "sampler.chains": self.sampler.chains or self.optimizer.batch_size,
        }
        name = min(limits, key=lambda name: limits[name])
        if self.sampler.kind in (AUTO, "langevin") and self.sampler.buffer < limits[name]:
            raise ValueError(
                f"sampler.buffer={self.sampler.buffer} is smaller than {name}={limits[name]}: "
                "each sample needs a chain"
            )
        return self


# What is different for images; all else is as for vectors.
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


# Of fewer images than 1,700 each is seen so often that less will do, and large ones take longer:
# iterations for each image, at least in all, and Langevin steps in one of the density's.
EACH, EACH_LARGE, FEWEST, STEPS_LARGE = 1.2, 0.8, 300, 10

# What is different for vectors with 'walk' views, by methods that train the certificate's bound.
WALKS: dict[str, Any] = {
    "network.activation": "silu",
    "weights.inv": 5.0,
    "weights.prior": ((0.0, 20.0), (0.25, 5.0), (1.0, 20.0)),
    "sampler.chains": 128,
    "optimizer.learning_rate": 1e-2,
    "optimizer.schedule": "cosine",
    "training.max_iter": 1_000,
}
# And where training begins with clusters, or has none to find: they need not be sought for long.
STARTED: dict[str, Any] = WALKS | {
    "weights.prior": 5.0,
    "optimizer.learning_rate": 2e-2,
    "training.max_iter": 300,
}
POINTS_EACH, FEWEST_POINTS, MOST_POINTS = 16, 256, 512  # in a batch, for each cluster and in all
# Of so few columns the network then sees sines too; in more they hurt.
MOST_WITH_SINES, SINES = 4, 32


def walk_defaults(settings: Settings, shape: tuple[int, ...]) -> dict[str, Any]:
    """What is different for vectors with 'walk' views, by dotted name."""
    clusters = settings.n_clusters
    if not walks_to_bound(settings, shape):
        return {}
    started = clusters == 1 or settings.training.resolved(settings, shape).start == "chosen"
    batch = min(max(POINTS_EACH * clusters, FEWEST_POINTS), MOST_POINTS)
    sines = SINES if shape[1] <= MOST_WITH_SINES else 0
    own = {"optimizer.batch_size": batch, "network.sines": sines}
    return (STARTED if started else WALKS) | own


def walks_to_bound(settings: Any, shape: tuple[int, ...]) -> bool:
    """Whether a method that trains the certificate's bound does so by walks of vectors."""
    trains_bound = {"inv", "prior"} <= set(settings.own.weighted)
    return trains_bound and not is_images(shape) and settings.views.kind in (AUTO, "walk")


def image_defaults(shape: tuple[int, ...]) -> dict[str, Any]:
    """What is different for images (n, channels, height, width), by dotted name."""
    large, most = min(shape[2:]) > LARGE, Training().max_iter
    length = min(most, max(round(shape[0] * (EACH_LARGE if large else EACH)), FEWEST))
    defaults = IMAGES | ({"sampler.steps": STEPS_LARGE} if large else {})
    if length == most:
        return defaults
    later = IMAGES["density.iterations"] * length // most
    return defaults | {"training.max_iter": length, "density.iterations": later}


def resolve(values: dict[str, Any], shape: tuple[int, ...]) -> Settings:
    """The settings of a fit to data of this shape, or one line that names the wrong value.

    What the nested `values` leave out has its default, for vectors or for images.
    """
    values = _with_defaults(image_defaults(shape), values) if is_images(shape) else values
    try:
        settings = _validated(values)
        settings = _validated(_with_defaults(walk_defaults(settings, shape), values))
    except ValidationError as error:
        raise InputError(_one_line(error, values)) from None
    settled = {}
    for name in type(settings).model_fields:
        section = getattr(settings, name)
        in_use = name == settings.method or name not in METHODS
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
    known = ((name, METHODS[name]) for name in METHODS)
    return _with_sections(tuple(pair for pair in known if pair[1].model_fields))


def _validated(values: dict[str, Any]) -> Settings:
    prior = values.get("prior")
    if isinstance(prior, list | tuple):  # which says how many clusters there are
        values = {"n_clusters": len(prior)} | values
    return settings_type().model_validate(values)


@lru_cache(maxsize=4)
def _with_sections(sections: tuple[tuple[str, type[Section]], ...]) -> type[Settings]:
    fields: dict[str, Any] = {name: (kind, kind()) for name, kind in sections}
    return create_model("Settings", __base__=Settings, **fields)


def _with_defaults(defaults: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The nested values, with these defaults, of dotted names, where they say nothing."""
    return nested(defaults | flat(values))


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
    paths: dict[str, FieldInfo] = {}
    for name, field in settings_type().model_fields.items():
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
    reason = reason.replace("Field required", "an entry is missing")
    if not place:
        return reason
    dotted = ".".join(place[:2])
    name = dotted if dotted in known_paths() else place[0]
    return f"{name}={flat(values).get(name, first['input'])!r}: {reason}"
