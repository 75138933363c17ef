"""Multi-layer perceptrons for any number of members, in batched products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.members import MemberModule
from gedilearn.ranks import n_ranks, rank_mean

Activation = Literal["leaky_relu", "relu", "silu", "tanh"]

# The slope of the public energy-based code that the paper builds on. A plain ReLU may lose all
# units of a narrow layer and then outputs a constant for ever: failure mode 1 in practice.
LEAK = 0.2

# Activations that are x for x > 0 and a slope times x below: `PiecewiseLinear` knows these.
SLOPES = {"leaky_relu": LEAK, "relu": 0.0}

# Bytes of one layer's values that are worked on at once: most of a core's own cache.
CACHE = 1_400_000


class MLP(MemberModule):
    """Fully connected layers `widths[0] -> ... -> widths[-1]`, an activation between layers.

    `activate_last` adds one after the last layer: for an encoder whose last hidden layer is the
    representation. The weights start as in `torch.nn.Linear`: uniform within 1/sqrt(inputs).

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
        normalised = self.widths[1 : 1 + n_normalised]
        self.norms = nn.ModuleList(BatchNorm(width, n_members) for width in normalised)

    @property
    def n_inputs(self) -> int:
        return self.widths[0]

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2)
        slope = SLOPES.get(self.activation)
        if slope is None or len(self.norms) or torch.is_autocast_enabled(x.device.type):
            return self._layer_by_layer(x)
        parameters = (*self.weights, *self.biases)
        out: Tensor = PiecewiseLinear.apply(  # type: ignore[no-untyped-call]
            x, slope, self.activate_last, *parameters
        )
        return out

    def _layer_by_layer(self, x: Tensor) -> Tensor:
        """The layers as autograd sees them: for any activation and mixed precision."""
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.bmm(x, weight).add_(bias)
            if layer < len(self.norms):
                x = self.norms[layer](x)
            if layer < last or self.activate_last:
                x = activate(x, self.activation)
        return x

    def train(self, mode: bool = True) -> MLP:
        """Set the mode, which lists of parameters do not have: chains do it often."""
        self.training = mode
        for norm in self.norms:
            norm.training = mode
        return self

    def select(self, indices: Sequence[int]) -> MLP:
        index = torch.as_tensor(indices, device=self.weights[0].device)
        state = {name: value[index] for name, value in self.state_dict().items()}
        return self._with(len(indices), state)

    def join(self, others: Sequence[MLP]) -> MLP:
        states = [mlp.state_dict() for mlp in (self, *others)]
        together = {name: torch.cat([state[name] for state in states]) for name in states[0]}
        return self._with(self.n_members + sum(mlp.n_members for mlp in others), together)

    def _with(self, n_members: int, state: dict[str, Tensor]) -> MLP:
        """A network of the same shape with this many members and this state."""
        other = MLP(self.widths, n_members, self.activation, self.activate_last, len(self.norms))
        other.to(self.weights[0]).load_state_dict(state)
        return other.train(self.training)

    def gradient_squares(self) -> Tensor:
        squares = [
            p.grad.flatten(1).square().sum(1) for p in self.parameters() if p.grad is not None
        ]
        return torch.stack(squares).sum(0)

    def scale_gradients(self, factors: Tensor) -> None:
        for p in self.parameters():
            if p.grad is not None:
                p.grad.mul_(factors[:, None, None])


class BatchNorm(nn.Module):
    """Batch normalisation of each member by itself: (members, batch, width) -> the same.

    In training the moments are those of the batch, joined over ranks with gradients; in evaluation
    their running averages.
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
        out, mean, variance = Standardise.apply(  # type: ignore[no-untyped-call]
            x, self.weight, self.bias, self.EPSILON
        )
        n = x.shape[1] * n_ranks()
        self.mean.lerp_(mean, self.MOMENTUM)
        self.variance.lerp_(variance * n / max(n - 1, 1), self.MOMENTUM)
        standardised: Tensor = out
        return standardised


class Standardise(torch.autograd.Function):
    """Batch normalisation of x, (members, batch, width), and the moments that it used.

    As one function it walks through x half as often as its parts would under autograd.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean = rank_mean(x.mean(1, keepdim=True))
        variance = rank_mean((x - mean).square_().mean(1, keepdim=True))
        inverse = (variance + epsilon).rsqrt()
        scale = inverse * weight
        ctx.save_for_backward(x, mean, inverse, weight)
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias - mean * scale, x, scale), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, mean, inverse, weight = ctx.saved_tensors
        n = x.shape[1]
        of_bias = gradient.sum(1, keepdim=True)
        of_weight = ((gradient * x).sum(1, keepdim=True) - mean * of_bias) * inverse
        # The moments belong to the points of all ranks, and so do their gradients.
        scale = inverse * weight
        tilt = rank_mean(of_weight) * scale * inverse / n
        shift = rank_mean(of_bias) * scale / n
        of_x = torch.addcmul(tilt * mean - shift, x, -tilt).addcmul_(gradient, scale)
        return of_x, of_weight, of_bias, None


class PiecewiseLinear(torch.autograd.Function):
    """All layers of an `MLP` with (leaky) ReLUs, forward and backward, as one function.

    The products aside, a step's time goes into walking through activations. The sign of a leaky
    ReLU's output is that of its input, so forward keeps one tensor a layer, bias and activation
    written over the product, and backward writes over the gradient that it passes down. Members
    are taken through all layers in groups whose activations stay in a core's cache.

    Autograd does not tell this function when only the gradient of x is asked for: whoever wants
    that alone, as chains do, takes `requires_grad` from the parameters.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, slope: float, activate_last: bool, *parameters: Tensor
    ) -> Tensor:
        n_layers = len(parameters) // 2
        weights, biases = parameters[:n_layers], parameters[n_layers:]
        n_activated = n_layers if activate_last else n_layers - 1
        outputs = [x.new_empty(*x.shape[:2], weight.shape[2]) for weight in weights]
        for (value,), *layers in in_cached_groups([x], weights, biases, outputs):
            for layer, (weight, bias, out) in enumerate(zip(*layers, strict=True)):
                # baddbmm would write the bias first: slower.
                value = torch.bmm(value, weight, out=out).add_(bias)
                if layer < n_activated:
                    F.leaky_relu_(value, slope)
        ctx.slope, ctx.activate_last = slope, activate_last
        ctx.save_for_backward(x, *outputs, *parameters)
        return outputs[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        n_layers = len(ctx.saved_tensors) // 3
        values, parameters = ctx.saved_tensors[: n_layers + 1], ctx.saved_tensors[n_layers + 1 :]
        weights = parameters[:n_layers]
        needs_x, _, _, *needs = ctx.needs_input_grad
        of_x = torch.empty_like(values[0]) if needs_x else None
        of_parameters = [
            torch.empty_like(p) if need else None for p, need in zip(parameters, needs, strict=True)
        ]
        for (above,), value, weight, below, of_weight, of_bias in in_cached_groups(
            [gradient], values, weights, [of_x], of_parameters[:n_layers], of_parameters[n_layers:]
        ):
            if ctx.activate_last:
                above = _through_leak(above.clone(), value[-1], ctx.slope)
            for layer in reversed(range(n_layers)):
                if of_weight[layer] is not None:
                    torch.bmm(value[layer].mT, above, out=of_weight[layer])
                if of_bias[layer] is not None:
                    torch.sum(above, 1, keepdim=True, out=of_bias[layer])
                if layer > 0:
                    above = torch.bmm(above, weight[layer].mT)
                    above = _through_leak(above, value[layer], ctx.slope)
                elif below[0] is not None:
                    torch.bmm(above, weight[0].mT, out=below[0])
        return of_x, None, None, *of_parameters


def in_cached_groups(*lists: Sequence[Any]) -> Iterator[tuple[Sequence[Any], ...]]:
    """The lists for a few members at a time, so few that a layer's values stay in the cache.

    Lists hold tensors (members, ...) or None; the first one begins with a tensor.
    """
    members = len(lists[0][0])
    widest = max(tensor.nbytes for tensors in lists for tensor in tensors if tensor is not None)
    size = max(1, CACHE * members // widest)
    if size >= members:
        return iter([lists])
    return zip(*(_split(tensors, size) for tensors in lists), strict=False)


def _split(tensors: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return zip(*(repeat(None) if t is None else t.split(size) for t in tensors), strict=False)


def _through_leak(gradient: Tensor, output: Tensor, slope: float) -> Tensor:
    """The gradient below a leaky ReLU from the one above it and its output, in place."""
    backward = torch.ops.aten.leaky_relu_backward.grad_input
    result: Tensor = backward(gradient, output, slope, True, grad_input=gradient)
    return result


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
    to the operating system and asks for it again, page by page, in every step. Freeing one block
    (of which no page is ever touched) raises its limits to the block's size, unless MALLOC_
    variables of the environment have set them.
    """
    torch.empty(32_000_000, dtype=torch.uint8)
