"""Layers forward and backward as one function each, where autograd's parts would be slower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

from gedilearn.ranks import rank_mean

# Bytes of one layer's values that are worked on at once: most of a core's own cache.
CACHE = 1_400_000


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


class Normalise(torch.autograd.Function):
    """logsumexp and log-softmax of logits (..., clusters), in memory ordered cluster by cluster.

    A reduction over a last axis of a few clusters takes torch several times as long as one over a
    first axis, where it works on many points at once.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> tuple[Tensor, Tensor]:
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        by_cluster = logits.movedim(-1, 0).contiguous()
        top = by_cluster.amax(0)
        shifted = by_cluster - top  # at most 0, and 0 once: the sum below is at least 1
        log_sum = shifted.exp().sum(0).log_()
        log_p = shifted.sub_(log_sum)
        ctx.save_for_backward(log_p)
        ctx.set_materialize_grads(False)
        return top.add_(log_sum), log_p.movedim(0, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_density: Tensor | None, of_log_p: Tensor | None) -> Tensor | None:
        log_p: Tensor = ctx.saved_tensors[0]
        if of_log_p is None:
            if of_density is None:
                return None
            gradient = log_p.exp().mul_(of_density)
        else:
            of_log_p = of_log_p.movedim(-1, 0)
            pull = -of_log_p.sum(0) if of_density is None else of_density - of_log_p.sum(0)
            gradient = log_p.exp().mul_(pull).add_(of_log_p)
        # In the order of the logits' memory, which gathering over ranks takes for granted.
        return gradient.movedim(0, -1).contiguous()
