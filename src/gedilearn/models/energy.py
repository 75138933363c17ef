"""A classifier read as an energy-based model: the only file that knows the two identities.

With logits f_y(enc(x)) / tau (Eq. 6 of the paper):

    p(y | x)  = softmax over y of the logits
    log p(x)  = logsumexp over y of the logits - log Gamma

On a base b(x), log p(x) = log b(x) + logsumexp over y of the logits - log Gamma (`density/`). With
b = 1 it is the paper's. Gamma does not depend on x: log-densities here are known up to one constant
for each network. All other modules use this one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gedilearn.models.heads import PrototypeHead
from gedilearn.models.image_encoders import Taps
from gedilearn.models.mlp import MLP, MemberModule
from gedilearn.sampling.langevin import value_and_gradient

Head = MLP | PrototypeHead


# Up to so many clusters, reductions over the first axis are faster.
FEW_CLUSTERS = 16


class Reading(NamedTuple):
    """Log-density and posterior of a batch."""

    log_density: Tensor  # (..., batch): log p(x) up to the constant log Gamma
    log_posterior: Tensor  # (..., batch, clusters): log p(y | x)


def read(logits: Tensor) -> Reading:
    """Both identities at once: they share the costly part.  logits: (..., clusters).

    Torch reduces over a first axis several times as fast as over a last axis with few clusters.
    """
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if logits.shape[-1] > FEW_CLUSTERS:
        return Reading(torch.logsumexp(logits, -1), logits.log_softmax(-1))
    by_cluster = logits.movedim(-1, 0).contiguous()
    top = by_cluster.detach().amax(0)
    shifted = by_cluster - top  # at most 0, and 0 once: the sum below is at least 1
    log_sum = shifted.exp().sum(0).log()
    return Reading(top + log_sum, (shifted - log_sum).movedim(0, -1))


def log_posterior(logits: Tensor) -> Tensor:
    """log p(y | x).  logits: (..., clusters) -> (..., clusters)."""
    return read(logits).log_posterior


def posterior(logits: Tensor) -> Tensor:
    """p(y | x).  logits: (..., clusters) -> (..., clusters)."""
    return log_posterior(logits).exp()


def log_density(logits: Tensor) -> Tensor:
    """log p(x) up to the constant log Gamma.  logits: (..., clusters) -> (...)."""
    return read(logits).log_density


class Output(NamedTuple):
    """Features, logits and embeddings of a batch."""

    features: Tensor  # (members, batch, h): enc(x)
    logits: Tensor  # (members, batch, clusters): f(enc(x)) / tau
    embedding: Tensor | None = None  # (members, batch, d), of length 1: of a head with prototypes
    projection: Tensor | None = None  # (members, batch, d): the embedding before normalisation


class EnergyModel(nn.Module):
    """Encoder, head and temperature tau, for one or several member networks at once.

    Input is (members, batch, ...). The caller expands a batch that all members share, which takes
    no memory. A `shifted` encoder gives one more number than its representation: s, computed from
    all of its layers and added to all logits. It changes p(x) and not p(y|x).
    """

    def __init__(
        self,
        encoder: MemberModule,
        head: Head,
        temperature: float = 1.0,
        shifted: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.temperature = temperature
        self.shifted = shifted

    @property
    def n_members(self) -> int:
        return self.encoder.n_members

    @property
    def n_features(self) -> int:
        """Width h of the representation."""
        return self.head.n_inputs

    def forward(self, x: Tensor) -> Output:
        features, shift = self.encoder(x), None
        embedding = projection = None
        if self.shifted:
            features, shift = features[..., :-1], features[..., -1:]
        if isinstance(self.head, PrototypeHead):
            projection, embedding, logits = self.head(features)
        else:
            logits = self.head(features)
        if self.temperature != 1.0:
            logits = logits / self.temperature
        if shift is not None:
            logits = logits + shift
        return Output(features, logits, embedding, projection)

    def log_density(self, x: Tensor) -> Tensor:
        """log p(x) up to a constant.  x: (members, batch, ...) -> (members, batch)."""
        return log_density(self(x).logits)

    def state_of(self, member: int) -> dict[str, Tensor]:
        """A copy of the parameters and buffers of one member, as of a network with one member."""
        networks, own = "encoder.networks.", f"encoder.networks.{member}."  # of `Members`
        state: dict[str, Tensor] = {}
        for name, tensor in self.state_dict().items():
            if not name.startswith(networks):
                state[name] = tensor[[member]]
            elif name.startswith(own):
                state[f"{networks}0.{name.removeprefix(own)}"] = tensor.clone()
        return state

    def train_shift(self, trained: bool) -> None:
        """Whether s is computed and trained; otherwise it is 0."""
        for taps in (m for m in self.modules() if isinstance(m, Taps)):
            taps.on = trained
            taps.requires_grad_(trained)

    @contextmanager
    def fixed(self) -> Iterator[None]:
        """In evaluation mode and without gradients of parameters, for chains."""
        was_training = self.training
        trained = [p for p in self.parameters() if p.requires_grad]
        self.eval()
        for parameter in trained:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)
            self.train(was_training)

    @torch.no_grad()
    def decay(self, factor: float) -> None:
        """Multiply all parameters by a factor."""
        for parameter in self.parameters():
            parameter.mul_(factor)

    def gradient_norms(self) -> Tensor:
        """The gradient's Euclidean norm, member by member: (members,)."""
        squares = self.encoder.gradient_squares() + self.head.gradient_squares()
        return squares.sqrt()

    def scale_gradients(self, factors: Tensor) -> None:
        """Multiply each member's gradient by its factor, in place.  factors: (members,)."""
        self.encoder.scale_gradients(factors)
        self.head.scale_gradients(factors)


# --- one trained network on data of any size, batch by batch, without gradients ------------------

BATCH = 4_096  # vectors
IMAGES = 256  # a wide network needs much memory for each
MANY = 8 * BATCH  # points whose logits are in memory at the same time


def outputs(model: EnergyModel, x: Tensor) -> Output:
    """Features (n, h) and logits (n, clusters) of x, (n, ...)."""
    return Output(*in_batches(model, x, lambda network, batch: tuple(network(batch)[:2])))


def logits_of(model: EnergyModel, x: Tensor) -> Tensor:
    """The logits alone, (n, clusters): features of many points take much memory."""
    return in_batches(model, x, lambda network, batch: (network(batch).logits,))[0]


def gradient_norms(model: EnergyModel, x: Tensor) -> Tensor:
    """||d log p(x) / dx||: (n,)."""

    def function(network: EnergyModel, batch: Tensor) -> tuple[Tensor, ...]:
        with network.fixed():
            _, gradient = value_and_gradient(network.log_density, batch)
        return (gradient.flatten(2).norm(dim=-1),)

    return in_batches(model, x, function)[0]


@torch.no_grad()
def in_batches(
    model: EnergyModel, x: Tensor, function: Callable[[EnergyModel, Tensor], tuple[Tensor, ...]]
) -> list[Tensor]:
    """Apply `function` to (1, batch, ...) and join the results, without the member axis.

    Vectors are evaluated in double precision: the result of a point does not depend on the others
    in its batch. Images stay in single precision for speed.
    """
    network, kind, size = copy.deepcopy(model).eval(), x.dtype, IMAGES
    if x.dim() == 2:
        network, kind, size = network.double(), torch.float64, BATCH
    parts = [function(network, batch[None].to(kind)) for batch in torch.split(x, size)]
    return [torch.cat(column, dim=1)[0] for column in zip(*parts, strict=True)]
