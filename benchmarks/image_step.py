"""Time of one training step of the paper's image network, against what it cannot do without.

The step is the trainer's own: batch, the paper's views, T Langevin steps, all terms on one pass
over x, x' and x~, backward pass, Adam. It is compared with

* `table`: the bare convolutions of the paper's table, forward and backward, in channels-last order;
* `fused`: the same with pooling folded into the convolutions before it, as the encoder does it;
* `plain`: a loop as published code writes Algorithm 1: default memory order, a forward pass each
  for x, x' and x~, and chains that keep their graphs.

The share of the step that is spent on the views is measured too.

All are timed in turns: other load of the machine affects all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.data.image_views import paper_views
from gedilearn.models.image_encoders import ResNet8
from gedilearn.settings import resolve
from gedilearn.training.environment import launch
from gedilearn.training.loop import begin, step

BATCH = 64
LANGEVIN_STEPS = 20
POINTS = 2_000
SIDE = 32
STEP_SIZE, NOISE, RESTART = 1.0, 0.01, 0.05
WEIGHTS = {"gen": 1.0, "inv": 50.0, "prior": 10.0, "energy": 0.0}
TARGETS = {"table": 1.10, "plain": 0.85}  # largest ratios of the step
REFERENCES = ("table", "fused", "plain")
VIEWS_TARGET = 0.10  # largest share of the step


def images() -> Tensor:
    return 2 * torch.rand(POINTS, 3, SIDE, SIDE) - 1


def make_step(width: int) -> Callable[[], object]:
    """The trainer's step for the paper's network, ready to be called."""
    settings = resolve(
        {
            "n_clusters": width,
            "network": {"head": (2 * width,)},
            "weights": WEIGHTS,
            "sampler": {
                "steps": LANGEVIN_STEPS,
                "step_size": STEP_SIZE,
                "noise": NOISE,
                "restart": RESTART,
                "buffer": POINTS,
                "clamp": False,
            },
            "density": {"iterations": 0},  # all three terms from the start
            "optimizer": {"batch_size": BATCH, "learning_rate": 1e-6},
            "training": {"max_iter": 1_000_000},
            "device": {"accelerator": "cpu"},
        },
        (POINTS, 3, 32, 32),
    )
    views = paper_views(0.03, flip=True)
    setup, state = begin(
        images(),
        settings,
        launch(settings.device),
        encoder=ResNet8(3, width, generator=torch.default_generator),
        view_function=views,
    )
    return lambda: step(setup, state)


# --- the convolutions alone -------------------------------------------------------------------


class Layer(NamedTuple):
    """A convolution: channels in, kernel side, stride, padding, side of its input."""

    inputs: int
    kernel: int
    stride: int
    padding: int
    side: int


def layers(width: int, fused: bool) -> list[Layer]:
    """The convolutions of the paper's table, `width` channels out of each."""
    closing = (4, 2, 1) if fused else (3, 1, 1)
    return [
        Layer(3, 3, 1, 1, SIDE),
        Layer(width, *closing, SIDE),
        Layer(3, 1, 1, 0, SIDE // 2),
        Layer(width, 3, 1, 1, SIDE // 2),
        Layer(width, *closing, SIDE // 2),
        *[Layer(width, 3, 1, 1, SIDE // 4)] * 4,
    ]


def make_convolutions(width: int, fused: bool) -> Callable[[], None]:
    """T forward passes with gradients of the input, one on x, x', x~ with those of the weights."""
    chains = [make_pass(layer, width, BATCH, weights=False) for layer in layers(width, fused)]
    training = [make_pass(layer, width, 3 * BATCH, weights=True) for layer in layers(width, fused)]

    def run() -> None:
        for _ in range(LANGEVIN_STEPS):
            for convolve in chains:
                convolve()
        for convolve in training:
            convolve()

    return run


def make_pass(layer: Layer, width: int, batch: int, *, weights: bool) -> Callable[[], None]:
    order = torch.channels_last
    x = torch.randn(batch, layer.inputs, layer.side, layer.side).to(memory_format=order)
    shape = (width, layer.inputs, layer.kernel, layer.kernel)
    weight = torch.randn(shape).to(memory_format=order)
    bias = torch.zeros(width)
    stride, padding, zero = [layer.stride] * 2, [layer.padding] * 2, [0, 0]
    # What training needs no gradient of is the image itself.
    wanted = [not weights or layer.inputs != 3, weights, weights]

    def run() -> None:
        out = F.conv2d(x, weight, bias, stride, padding)
        torch.ops.aten.convolution_backward(
            out, x, weight, [width], stride, padding, [1, 1], False, zero, 1, wanted
        )

    return run


# --- a loop as it is usually written ----------------------------------------------------------


class PlainNetwork(nn.Module):
    """The paper's table and head, layer by layer, in the default memory order."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shortcut = nn.Conv2d(3, width, 1)
        self.layers = nn.ModuleList(
            nn.Conv2d(width if k else 3, width, 3, padding=1) for k in range(8)
        )
        self.head = nn.Sequential(
            nn.Linear(width, 2 * width), nn.LeakyReLU(0.2), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layers
        out = F.avg_pool2d(layer[1](F.leaky_relu(layer[0](x), 0.2)), 2)
        x = out + self.shortcut(F.avg_pool2d(x, 2))
        out = layer[3](F.leaky_relu(layer[2](F.leaky_relu(x, 0.2)), 0.2))
        x = F.avg_pool2d(out, 2) + F.avg_pool2d(x, 2)
        for k in (4, 6):
            x = x + layer[k + 1](F.leaky_relu(layer[k](F.leaky_relu(x, 0.2)), 0.2))
        out: Tensor = self.head(F.leaky_relu(x, 0.2).mean((2, 3)))
        return out


def make_plain(width: int) -> Callable[[], None]:
    """One iteration of Algorithm 1, written straight down."""
    net = PlainNetwork(width)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-6)
    data, buffer, views = images(), images(), paper_views(0.03, flip=True)

    def run() -> None:
        x = data[torch.randint(POINTS, (BATCH,))]
        view = views(x, torch.default_generator)
        slots = torch.randint(POINTS, (BATCH,))
        fresh = (torch.rand(BATCH, 1, 1, 1) < RESTART).float()
        start = fresh * (2 * torch.rand(BATCH, 3, SIDE, SIDE) - 1) + (1 - fresh) * buffer[slots]
        chain = start.detach().requires_grad_(True)
        net.eval()
        for _ in range(LANGEVIN_STEPS):
            density = torch.logsumexp(net(chain), 1).sum()
            (gradient,) = torch.autograd.grad(density, chain, retain_graph=True)
            chain.data += STEP_SIZE * gradient + NOISE * torch.randn_like(chain)
        net.train()
        samples = chain.detach()
        buffer[slots] = samples
        logits, logits_view, logits_samples = net(x), net(view), net(samples)
        gen = torch.logsumexp(logits_samples, 1).mean() - torch.logsumexp(logits, 1).mean()
        inv = -(logits_view.softmax(1) * logits.log_softmax(1)).sum(1).mean()
        prior = -logits.softmax(1).mean(0).log().mean()
        loss = WEIGHTS["gen"] * gen + WEIGHTS["inv"] * inv + WEIGHTS["prior"] * prior
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run


def make_views() -> Callable[[], object]:
    """The views of one batch."""
    views, x = paper_views(0.03, flip=True), images()[:BATCH]
    return lambda: views(x, torch.default_generator)


# --- measuring --------------------------------------------------------------------------------


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(width: int, rounds: int) -> dict[str, float]:
    """Seconds of each, the step's ratio to each reference and the views' to the step (medians)."""
    functions = {
        "step": make_step(width),
        "table": make_convolutions(width, fused=False),
        "fused": make_convolutions(width, fused=True),
        "plain": make_plain(width),
        "views": make_views(),
    }
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(seconds(function))
    row: dict[str, float] = {"width": width, "rounds": rounds}
    for name, measured in times.items():
        row[f"{name}_s"] = statistics.median(measured)
        if name in REFERENCES:
            ratios = [s / r for s, r in zip(times["step"], measured, strict=True)]
            row[f"to_{name}"] = statistics.median(ratios)
    shares = [v / s for v, s in zip(times["views"], times["step"], strict=True)]
    row["views_share"] = statistics.median(shares)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--widths", type=int, nargs="+", default=[32], help="F of the network")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    rows = [measure(width, args.rounds) for width in args.widths]
    if args.json:
        targets = TARGETS | {"views": VIEWS_TARGET}
        print(json.dumps({"benchmark": "image_step", "targets": targets, "rows": rows}))
        return
    print(f"Seconds of one step (batch {BATCH}, T={LANGEVIN_STEPS}), and its ratio to references")
    heads = "".join(f"{n:>8} {'ratio':>6}" for n in REFERENCES)
    print(f"{'F':>5} {'step':>7}{heads}   views")
    for row in rows:
        cells = "".join(f"{row[f'{n}_s']:>8.2f} {row[f'to_{n}']:>6.2f}" for n in REFERENCES)
        print(f"{row['width']:>5.0f} {row['step_s']:>7.2f}{cells} {row['views_share']:>7.1%}")
    words = [f"at most {t:.2f} of {name}" for name, t in TARGETS.items()]
    print("targets: " + ", ".join([*words, f"views at most {VIEWS_TARGET:.0%} of the step"]))


if __name__ == "__main__":
    main()
