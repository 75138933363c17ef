"""Where random numbers come from: generators of one's own, handed down to all that draws.

Fits in several threads therefore do not disturb each other. Only code of the user's own, an encoder
or views that take no generator, draws from torch's global generators, which all threads share.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator


class Generators:
    """A generator for networks, which are made in the processor's memory, and one for the device.

    On the processor both are the same.
    """

    def __init__(self, device: torch.device) -> None:
        self.cpu = Generator()
        self.device = self.cpu if device.type == "cpu" else Generator(device)
        self._before: dict[str, Any] | None = None  # states of the global ones, if borrowed

    def __enter__(self) -> Generators:
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.load_state(self._before)

    def borrow_globals(self) -> None:
        """Use torch's global generators instead, which are put back as they were at the end.

        What anyone draws from them is then seeded, saved and loaded with all else.
        """
        if self.device is self.cpu:
            self.device = torch.default_generator
        elif self.device.device.type == "cuda":
            self.device = torch.cuda.default_generators[self.device.device.index]
        self.cpu = torch.default_generator
        self._before = self.state()

    def seed(self, seed: int) -> None:
        """Begin anew."""
        self.cpu.manual_seed(seed)
        self.device.manual_seed(seed)
        if self._before is not None and self.device.device.type == "mps":
            torch.mps.manual_seed(seed)  # torch does not hand out the global one of this device

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        states = {"rng": self.cpu.get_state()}
        if self.device is not self.cpu:
            states[f"{self.device.device.type}_rng"] = self.device.get_state()
        return states

    def load_state(self, states: dict[str, Any]) -> None:
        """Go on from what `state` gave; on another device, from where this one's generator is."""
        self.cpu.set_state(states["rng"])
        own = states.get(f"{self.device.device.type}_rng")
        if own is not None:
            self.device.set_state(own)


@contextmanager
def drawing(seed: int, globally: bool) -> Iterator[Generator]:
    """A seeded generator of the processor; if `globally`, torch's own, put back at the end."""
    with Generators(torch.device("cpu")) as generators:
        if globally:
            generators.borrow_globals()
        generators.seed(seed)
        yield generators.cpu
