"""The sections of the settings: each setting with default, meaning and symbol in the paper.

Methods with settings of their own state them beside their code, as a `Section` too.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from gedilearn.errors import InputError
from gedilearn.registry import METHODS, SAMPLERS, VIEWS


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
    if not all(0 <= level < math.inf for _, level in pairs):
        raise ValueError("values must be finite, 0 or more")
    return pairs[0][1] if constant else tuple(pairs)


# A number, or (progress, value) points joined by lines.
Schedule = Annotated[float | tuple[tuple[float, float], ...], BeforeValidator(_schedule)]
# The width of a layer, and a number of chains or past points: what is larger fits no machine.
Width = Annotated[int, Field(ge=1, le=1_000_000)]
MOST = 100_000_000
Many = Annotated[int, Field(ge=1, le=MOST)]
SMALLEST, LARGEST = 1e-30, 1e30  # numbers whose products single precision mostly holds
Share = Annotated[float, Field(ge=0, lt=1)]


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


Self = TypeVar("Self", bound="Section")
AUTO = "auto"
MOST_COLUMNS = 64  # with a density that importance weights can learn


class Section(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _in_single_precision(cls, value: Any) -> Any:
        levels = value if isinstance(value, tuple) else (value,)
        for level in levels:
            number = level[-1] if isinstance(level, tuple) else level
            if isinstance(number, float) and number and not SMALLEST <= abs(number) <= LARGEST:
                raise ValueError(f"numbers are computed with from {SMALLEST:g} to {LARGEST:g}")
        return value

    def resolved(self: Self, settings: Any, shape: tuple[int, ...]) -> Self:
        """The section for data of this shape, in these `Settings`: nothing is left open."""
        return self


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
        5,
        description="Neighbours of a point in the graph of 'walk'; more are taken while the graph "
        "has more components than there are clusters.",
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
    energy: Schedule = Field(
        0.01,
        description="Weight of the mean squared log-density of data and samples, which keeps "
        "energies from drifting (not in the paper; 0 turns it off).",
    )


class Sampler(Section):
    """How samples x~ of the model are drawn for GEN."""

    kind: str = Field(
        "langevin",
        description="What draws them. 'langevin': stochastic gradient Langevin dynamics on a "
        "replay buffer, as in the paper.",
    )
    steps: Many = Field(10, description="Langevin steps T in each iteration.")
    step_size: float = Field(
        0.01125, gt=0, description="SGLD step size: multiplies the gradient (noise squared over 2)."
    )
    noise: float = Field(0.15, ge=0, description="SGLD noise: standard deviation added in a step.")
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
        "with an entropy bound (VERA). 'auto': weights for vectors of up to 64 columns, else "
        "chains.",
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
        "the density of images is learnt by chains; the others go on.",
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Density:
        many = is_images(shape) or shape[1] > MOST_COLUMNS
        if many and self.estimator == "importance":
            raise InputError(
                f"density.estimator='importance' needs at most {MOST_COLUMNS} columns, got data of "
                f"shape {shape}"
            )
        if many and self.base == "gaussian":
            raise InputError(
                f"density.base='gaussian' needs at most {MOST_COLUMNS} columns, got data of shape "
                f"{shape}"
            )
        if self.estimator != AUTO:
            return self
        return self.model_copy(update={"estimator": "chains" if many else "importance"})


class Training(Section):
    """How long, how often, and when to stop."""

    max_iter: Many = Field(2000, description="Most iterations (Iters of Algorithm 1).")
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
    check_every: Many = Field(50, description="Iterations between two looks at the gap.")
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
        description="What to do when energies diverge: go back to the last good state and go on "
        "more calmly, stop with the best state so far, or go on as if nothing had happened, which "
        "the verdict tells.",
    )
    max_recoveries: int = Field(5, ge=0, le=100, description="Recoveries before training gives up.")
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of all randomness.")

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Training:
        if self.early_stopping is not None:
            return self
        trains_bound = {"inv", "prior"} <= set(METHODS[settings.method].weighted)
        return self.model_copy(update={"early_stopping": trains_bound})


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
