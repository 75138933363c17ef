"""Multi-layer perceptrons for any number of members, in batched products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.ranks import n_ranks, rank_mean

# --- members --------------------------------------------------------------------------------------
#
# Several networks of one shape, trained side by side: members are the first axis of every
# activation. Perceptrons compute them in batched products. `Members` does the same for any module,
# with one forward pass per member.


class MemberModule(nn.Module):
    """A module over (members, batch, ...) whose parameters belong to one member each.

    Parameters have three axes, with the members first.
    """

    n_members: int

    def gradient_squares(self) -> Tensor:
        """Sum of squared gradient entries: (members,)."""
        squares = [gradient.flatten(1).square().sum(1) for gradient in _gradients(self)]
        return torch.stack(squares).sum(0)

    def scale_gradients(self, factors: Tensor) -> None:
        """Multiply each member's gradient by its factor, in place.  factors: (members,)."""
        for gradient in _gradients(self):
            gradient.mul_(factors[:, None, None])


class Members(MemberModule):
    """Separate networks with the interface of members; outputs are flattened to vectors."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.n_members = len(self.networks)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([net(x[k]).flatten(1) for k, net in enumerate(self.networks)])

    def gradient_squares(self) -> Tensor:
        return torch.stack(
            [sum((g.square().sum() for g in _gradients(n)), torch.zeros(())) for n in self.networks]
        )

    def scale_gradients(self, factors: Tensor) -> None:
        for net, factor in zip(self.networks, factors, strict=True):
            for gradient in _gradients(net):
                gradient.mul_(factor)


def _gradients(module: nn.Module) -> list[Tensor]:
    return [p.grad for p in module.parameters() if p.grad is not None]


Activation = Literal["leaky_relu", "relu", "silu", "tanh"]

# The slope of the public energy-based code behind the paper. With a plain ReLU all units of a
# narrow layer may die, and the layer then outputs a constant: failure mode 1.
LEAK = 0.2

# In place where that is possible: nothing else needs their input.
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "leaky_relu": partial(F.leaky_relu, negative_slope=LEAK, inplace=True),
    "relu": F.relu_,
    "silu": F.silu,
    "tanh": torch.tanh_,
}


class MLP(MemberModule):
    """Fully connected layers `widths[0] -> ... -> widths[-1]`, an activation between layers.

    `activate_last` adds one after the last layer, for an encoder whose last hidden layer is the
    representation. The weights start as in `torch.nn.Linear`: uniform within 1/sqrt(inputs).
    Without a generator they are left unset.

    Batch normalisation follows each of the first `n_normalised` layers.

    Parameters are (members, inputs, outputs) and (members, 1, outputs); x is (members, batch, ...),
    flattened to vectors.
    """

    def __init__(
        self,
        widths: Sequence[int],
        n_members: int = 1,
        activation: Activation = "leaky_relu",
        activate_last: bool = False,
        n_normalised: int = 0,
        *,
        generator: Generator | None,
    ) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.n_members = n_members
        self.activation = activation
        self.activate_last = activate_last
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for inputs, outputs in zip(self.widths, self.widths[1:], strict=False):
            self.weights.append(torch.empty(n_members, inputs, outputs))
            self.biases.append(torch.empty(n_members, 1, outputs))
            if generator is not None:
                bound = 1 / math.sqrt(inputs)
                for parameter in (self.weights[-1], self.biases[-1]):
                    nn.init.uniform_(parameter, -bound, bound, generator)
        normalised = self.widths[1 : 1 + n_normalised]
        self.norms = nn.ModuleList(BatchNorm(width, n_members) for width in normalised)

    @property
    def n_inputs(self) -> int:
        return self.widths[0]

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.bmm(x, weight).add_(bias)
            if layer < len(self.norms):
                x = self.norms[layer](x)
            if layer < last or self.activate_last:
                x = ACTIVATIONS[self.activation](x)
        return x


class SineMLP(MemberModule):
    """A perceptron on x and on sines of it.

    Perceptrons are slow to learn changes over short distances; sines represent them directly. The
    frequencies are trained. At the start the number of waves along a typical direction is about
    the same in any dimension.
    """

    SCALE = 2.0  # of the frequencies

    def __init__(self, layers: MLP, d: int, *, generator: Generator | None) -> None:
        super().__init__()
        self.layers, self.n_members = layers, layers.n_members
        sines = layers.n_inputs - d
        self.frequencies = nn.Parameter(torch.empty(self.n_members, d, sines))
        self.phases = nn.Parameter(torch.empty(self.n_members, 1, sines))
        if generator is not None:
            nn.init.normal_(self.frequencies, 0, self.SCALE * math.sqrt(2 / d), generator)
            nn.init.uniform_(self.phases, 0, 2 * math.pi, generator)

    def forward(self, x: Tensor) -> Tensor:
        waves = torch.sin(torch.baddbmm(self.phases, x, self.frequencies))
        out: Tensor = self.layers(torch.cat([x, waves], -1))
        return out


class BatchNorm(nn.Module):
    """Batch normalisation of each member separately: (members, batch, width) -> the same.

    In training it uses the moments of the batch, joined over ranks with gradients. In evaluation it
    uses their running averages.
    """

    MOMENTUM = 0.1
    EPSILON = 1e-5
    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, n_members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_members, 1, width))
        self.bias = nn.Parameter(torch.zeros(n_members, 1, width))
        self.register_buffer("mean", torch.zeros(n_members, 1, width))
        self.register_buffer("variance", torch.ones(n_members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(torch.promote_types(x.dtype, self.weight.dtype))
        if not self.training:
            scale = (self.variance + self.EPSILON).rsqrt() * self.weight
            return torch.addcmul(self.bias - self.mean * scale, x, scale)
        mean = rank_mean(x.mean(1, keepdim=True))
        variance = rank_mean((x - mean).square().mean(1, keepdim=True))
        n = x.shape[1] * n_ranks()
        self.mean.lerp_(mean.detach(), self.MOMENTUM)
        self.variance.lerp_(variance.detach() * n / max(n - 1, 1), self.MOMENTUM)
        scale = (variance + self.EPSILON).rsqrt() * self.weight
        return torch.addcmul(self.bias - mean * scale, x, scale)
