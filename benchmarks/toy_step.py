"""Time of one training step of the paper's toy network, against its unavoidable matrix products.

The step is the trainer's own: batch, views, one Langevin step, all terms, backward pass, Adam. The
reference is the products alone, written into memory that is there already. Both are timed on one
thread and in turns: other load of the machine affects both.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from gedilearn.data.toy import moons
from gedilearn.settings import resolve
from gedilearn.training.environment import launch
from gedilearn.training.loop import begin, step

BATCH = 400
POINTS = 2_000
TARGET = 1.5  # largest ratio, with 8 members


def make_step(members: int) -> Callable[[], object]:
    """The trainer's step for the paper's toy network, ready to be called."""
    settings = resolve(
        {
            "network": {"hidden": (100, 100), "features": 2, "head": (4,)},
            "views": {"kind": "noise"},
            "sampler": {"steps": 1, "buffer": 10_000},
            "density": {"iterations": 0},  # all three terms from the start
            "optimizer": {"batch_size": BATCH},
            "training": {"n_init": members, "max_iter": 1_000_000},
            "device": {"accelerator": "cpu"},
        },
        (POINTS, 2),
    )
    data = torch.as_tensor(moons(POINTS).x, dtype=torch.float32)
    setup, state = begin((data - data.mean(0)) / data.std(0), settings, launch(settings.device))
    return lambda: step(setup, state)


def make_products(members: int) -> Callable[[], None]:
    """The matrix products that a step cannot do without, for all layers of encoder and head."""
    widths = (2, 100, 100, 2, 4, 2)
    weights = [
        torch.randn(members, inputs, outputs) / outputs**0.5
        for inputs, outputs in itertools.pairwise(widths)
    ]
    weight_gradients = [torch.empty_like(weight) for weight in weights]
    layers = range(len(weights))
    calls: list[tuple[Tensor, Tensor, Tensor]] = []  # left, right, out

    def values(rows: int) -> list[Tensor]:
        return [torch.randn(members, rows, width) for width in widths]

    # The Langevin step: forward, and the gradient with respect to the input.
    x, gradient = values(BATCH), values(BATCH)
    calls += [(x[k], weights[k], x[k + 1]) for k in layers]
    calls += [(gradient[k + 1], weights[k].mT, gradient[k]) for k in reversed(layers)]
    # Data, views and samples: forward, and the gradients of all weights.
    x, gradient = values(3 * BATCH), values(3 * BATCH)
    calls += [(x[k], weights[k], x[k + 1]) for k in layers]
    for k in reversed(layers):
        calls.append((x[k].mT, gradient[k + 1], weight_gradients[k]))
        if k > 0:
            calls.append((gradient[k + 1], weights[k].mT, gradient[k]))

    def run() -> None:
        for left, right, out in calls:
            torch.bmm(left, right, out=out)

    return run


def seconds(function: Callable[[], object], times: int) -> float:
    """Mean seconds of a call."""
    start = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - start) / times


def measure(members: int, rounds: int) -> dict[str, float]:
    """Milliseconds per member, and the ratio of step to products: median and quartiles."""
    step, products = make_step(members), make_products(members)
    calls = max(1, 16 // members)  # a round of some tens of milliseconds
    for _ in range(5):
        seconds(step, calls)
        seconds(products, calls)
    steps, references = [], []
    for _ in range(rounds):
        references.append(seconds(products, calls))
        steps.append(seconds(step, calls))
    ratios = [s / r for s, r in zip(steps, references, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    per_member = 1e3 / members
    return {
        "members": members,
        "step_ms": statistics.median(steps) * per_member,
        "products_ms": statistics.median(references) * per_member,
        "ratio": middle,
        "ratio_q1": low,
        "ratio_q3": high,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[8, 1])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(members, args.rounds) for members in args.members]
    if args.json:
        print(json.dumps({"benchmark": "toy_step", "target": TARGET, "rows": rows}))
        return
    print("Milliseconds per member of one training step; ratio to the bare matrix products")
    print(f"{'members':>8} {'step':>9} {'products':>9} {'ratio':>7}   quartiles")
    for row in rows:
        print(
            f"{row['members']:>8.0f} {row['step_ms']:>9.3f} {row['products_ms']:>9.3f} "
            f"{row['ratio']:>7.2f}   {row['ratio_q1']:.2f} - {row['ratio_q3']:.2f}"
        )
    print(f"target: a ratio of at most {TARGET} with 8 members")


if __name__ == "__main__":
    main()
