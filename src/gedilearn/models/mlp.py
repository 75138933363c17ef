"""Multi-layer perceptrons for any number of members, in batched products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.members import MemberModule

Activation = Literal["leaky_relu", "relu", "silu", "tanh"]

# The slope of the public energy-based code that the paper builds on. A plain ReLU may lose all
# units of a narrow layer and then outputs a constant for ever: failure mode 1 in practice.
LEAK = 0.2
SLOPES = {"leaky_relu": LEAK, "relu": 0.0}


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
            x = torch.baddbmm(bias, x, weight)
            if layer < last and self.activation in SLOPES:
                x = HiddenRectifier.apply(x, SLOPES[self.activation])
            elif layer < last or self.activate_last:
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


class HiddenRectifier(torch.autograd.Function):
    """(Leaky) ReLU in place, forward *and* backward, for x that only the next layer's product uses.

    Its incoming gradient is then the fresh result of one product, free to be overwritten. Fresh
    memory for a second one, as large as the activations of all members, would cost more than
    the product itself whenever the operating system has to hand it out page by page.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        F.leaky_relu(x, slope, inplace=True)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        torch.ops.aten.leaky_relu_backward.grad_input(
            gradient, result, ctx.slope, True, grad_input=gradient
        )
        return gradient, None
