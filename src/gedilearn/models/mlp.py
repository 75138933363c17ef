"""Multi-layer perceptrons for any number of members, in batched products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.members import MemberModule

Activation = Literal["leaky_relu", "relu", "silu", "tanh"]

# The slope of the public energy-based code that the paper builds on. A plain ReLU may lose all
# units of a narrow layer and then outputs a constant for ever: failure mode 1 in practice.
LEAK = 0.2


class MLP(MemberModule):
    """Fully connected layers `widths[0] -> ... -> widths[-1]`, an activation between layers.

    `activate_last` adds one after the last layer: for an encoder whose last hidden layer is the
    representation. The weights start as in `torch.nn.Linear`: uniform within 1/sqrt(inputs).

    Parameters are (members, inputs, outputs) and (members, 1, outputs); x is (members, batch, ...),
    flattened to vectors.
    """

    def __init__(
        self,
        widths: Sequence[int],
        n_members: int = 1,
        activation: Activation = "leaky_relu",
        activate_last: bool = False,
    ) -> None:
        super().__init__()
        reuse_freed_memory()
        self.widths = tuple(widths)
        self.n_members = n_members
        self.activation = activation
        self.activate_last = activate_last
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for inputs, outputs in zip(self.widths, self.widths[1:], strict=False):
            bound = 1 / math.sqrt(inputs)
            self.weights.append(torch.empty(n_members, inputs, outputs).uniform_(-bound, bound))
            self.biases.append(torch.empty(n_members, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.bmm(x, weight).add_(bias)  # baddbmm would write the bias first: slower
            if layer < last or self.activate_last:
                x = activate(x, self.activation)
        return x

    def select(self, indices: Sequence[int]) -> MLP:
        index = torch.as_tensor(indices, device=self.weights[0].device)
        chosen = MLP(self.widths, len(indices), self.activation, self.activate_last)
        chosen.to(self.weights[0])
        with torch.no_grad():
            for mine, theirs in zip(chosen.parameters(), self.parameters(), strict=True):
                mine.copy_(theirs[index])
        return chosen

    def gradient_squares(self) -> Tensor:
        squares = [
            p.grad.flatten(1).square().sum(1) for p in self.parameters() if p.grad is not None
        ]
        return torch.stack(squares).sum(0)

    def scale_gradients(self, factors: Tensor) -> None:
        for p in self.parameters():
            if p.grad is not None:
                p.grad.mul_(factors[:, None, None])


def activate(x: Tensor, activation: Activation) -> Tensor:
    """Apply the activation to x, which nothing else may need: in place where that is possible."""
    if activation == "leaky_relu":
        return F.leaky_relu(x, LEAK, inplace=True)
    if activation == "relu":
        return F.relu(x, inplace=True)
    if activation == "silu":
        return F.silu(x)
    return torch.tanh_(x)


def reuse_freed_memory() -> None:
    """Make the C library keep the memory of freed tensors below 32 MB for the next ones.

    The activations of all members are a few megabytes each. By default glibc hands that much back
    to the operating system and asks for it again, page by page, in every step: with eight members,
    about a tenth of its time. Freeing one block (of which no page is ever touched) raises its
    limits to the block's size, unless MALLOC_ variables of the environment have set them.
    """
    torch.empty(32_000_000, dtype=torch.uint8)
