"""Where training runs: devices and ranks by Lightning Fabric, processor threads."""

from __future__ import annotations

import atexit
import contextlib
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from gedilearn.errors import InputError
from gedilearn.settings import Device

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launch(device: Device) -> Fabric:
    """Lightning Fabric for the device settings, with its processes started."""
    from lightning_fabric import Fabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    try:
        fabric = Fabric(
            accelerator=device.accelerator,
            devices=device.devices,
            num_nodes=device.num_nodes,
            precision=device.precision,
        )
    except (MisconfigurationException, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device.accelerator={device.accelerator!r}: {reason}") from None
    fabric.launch()
    if dist.is_initialized():
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Take leave of the other ranks before the interpreter ends.

    Lightning does so for NCCL alone. A thread of gloo that still runs while the interpreter is torn
    down now and then aborts the process after all its work is done. The threads end with the group,
    and the group with the last model that was wrapped for it: hence the collection.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    gc.collect()


@contextlib.contextmanager
def limited_threads(number: int | None) -> Iterator[None]:
    """Compute with this many threads; None changes nothing.

    Two threads gain little on small products and wait for each other whenever the machine has other
    work, which can slow a fit down tenfold.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Take numbers next to zero, below 1e-38, for zero, where the processor can.

    Confident predictions are full of them, and a processor works on them many times as long: they
    make a step take twice its time.
    """
    tiny = torch.full((), 1e-310, dtype=torch.float64)
    before = float(tiny * 1.0) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def data_type(device: Device) -> torch.dtype:
    """What the data is kept in; mixed precision is autocast's business."""
    return torch.float64 if device.precision.startswith("64") else torch.float32
