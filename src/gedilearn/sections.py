"""The sections of the settings: each setting with default, meaning and symbol in the paper.

Methods with settings of their own state them beside their code, as a `Section` too.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from gedilearn.errors import InputError
from gedilearn.registry import METHODS, VIEWS

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
        trains_bound = {"inv", "prior"} <= set(METHODS[settings.method].weighted)
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
