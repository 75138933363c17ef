"""Peak memory of sampling with many Langevin steps, against one step.

Each number of steps runs in a process of its own, three times: under a counter of the bytes of live
tensors, which is exact but would add to what follows; and for the growth of the peak resident
memory as the operating system counts it, once with freed memory handed back at once and once as the
allocator does by default.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gedilearn.models.build import build_model
from gedilearn.sampling.langevin import Box, Kernel, ReplayBuffer
from gedilearn.settings import resolve

MEMBERS = 2
BATCH = 20_000  # large, so that tensors outweigh everything else
TARGET = 1.05  # largest ratio of many steps to one
MEGABYTE = 2**20

# glibc may keep freed blocks in pieces that the next tensor does not fit, and grow. With these
# every tensor is a mapping of its own that ends when it is freed: what is resident is in use.
UNMAPPED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operations made and that are still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(item, torch.Tensor):
                self._count(item.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata in self.known:  # a view, or the result of an operation in place
            return
        self.known.add(storage._cdata)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, storage._cdata, storage.nbytes())

    def _forget(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def peak_resident() -> int:
    """Largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def measure(steps: int, exact: bool) -> int:
    """Bytes by which drawing one batch raises the peak; to be called in a fresh process."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    settings = resolve({"network": {"features": 2, "head": (4,)}}, (100, 2))
    model = build_model(settings, (2,), MEMBERS, generator=generator)
    box = Box(-torch.ones(2), torch.ones(2))
    kernel = Kernel(0.005, 0.1, None, box)
    chains = ReplayBuffer(MEMBERS, BATCH, 0.05, box.uniform, kernel, steps, generator)
    small = ReplayBuffer(MEMBERS, 8, 0.05, box.uniform, kernel, 2, generator)
    with model.fixed():
        # What the first call of a kernel loads is not counted.
        small.draw(model.log_density, 8, generator)
        before = peak_resident()
        if exact:
            with LiveBytes() as live:
                chains.draw(model.log_density, BATCH, generator)
            return live.peak
        chains.draw(model.log_density, BATCH, generator)
        return peak_resident() - before


def in_fresh_process(steps: int, exact: bool, limits: dict[str, str]) -> int:
    command = [sys.executable, __file__, "--measure", str(steps), *(["--exact"] if exact else [])]
    environment = {**os.environ, **limits}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="Langevin steps to set against 1")
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--exact", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure is not None:
        print(measure(args.measure, args.exact))
        return
    rows: dict[str, dict[str, float]] = {}
    for name, exact, limits in (
        ("live tensors", True, {}),
        ("resident, unmapped", False, UNMAPPED),
        ("resident", False, {}),
    ):
        one, many = (in_fresh_process(steps, exact, limits) / MEGABYTE for steps in (1, args.steps))
        rows[name] = {"one_mb": one, "many_mb": many, "ratio": many / one}
    if args.json:
        result = {"benchmark": "sampling_memory", "steps": args.steps, "target": TARGET}
        print(json.dumps(result | {"rows": rows}))
        return
    print(f"Peak megabytes of drawing {BATCH} samples for {MEMBERS} members")
    print(f"{'':<20}{'T=1':>10}{f'T={args.steps}':>10}{'ratio':>8}")
    for name, row in rows.items():
        print(f"{name:<20}{row['one_mb']:>10.1f}{row['many_mb']:>10.1f}{row['ratio']:>8.3f}")
    print(f"target: a ratio of at most {TARGET}")


if __name__ == "__main__":
    main()
