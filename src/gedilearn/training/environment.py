"""Where training runs: devices and ranks, threads, signals, random numbers."""

from __future__ import annotations

import atexit
import gc
import math
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import unwrap
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
import torch.distributed as dist
from threadpoolctl import ThreadpoolController, threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from gedilearn.errors import InputError
from gedilearn.fields import MOST
from gedilearn.models.build import build_model
from gedilearn.ranks import ONE_AT_A_TIME
from gedilearn.settings import Device, Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Model = TypeVar("Model", bound=nn.Module)

# --- devices and ranks ----------------------------------------------------------------------------


class OneProcess:
    """The part of Lightning Fabric that training uses, for one process on the processor.

    Importing Fabric takes a second, as it brings torch's compiler.
    """

    device = torch.device("cpu")
    world_size, global_rank = 1, 0

    def setup(self, model: Model, optimizer: Optimizer) -> tuple[Model, Optimizer]:
        return model.to(self.device), optimizer

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def broadcast(self, value: Any) -> Any:
        return value

    def all_reduce(self, value: Any, reduce_op: str = "mean") -> Any:
        return value

    def barrier(self) -> None:
        pass


AnyFabric: TypeAlias = "Fabric | OneProcess"


def launch(device: Device) -> AnyFabric:
    """What the device settings ask for, with its processes started."""
    devices, nodes = _ranks(device)
    alone = devices in (1, "auto") and nodes == 1 and device.precision == "32-true"
    if alone and _is_processor(device.accelerator):
        return OneProcess()
    return _launch_fabric(device, devices, nodes)


def _is_processor(accelerator: str) -> bool:
    other = torch.cuda.is_available() or torch.backends.mps.is_available()
    return accelerator == "cpu" or (accelerator == "auto" and not other)


def _launch_fabric(device: Device, devices: int | str, nodes: int) -> Fabric:
    from lightning_fabric import Fabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    precision = _precision(device.precision)
    try:
        fabric = Fabric(
            accelerator=device.accelerator, devices=devices, num_nodes=nodes, plugins=precision
        )
    except (MisconfigurationException, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device.accelerator={device.accelerator!r}: {reason}") from None
    if device.precision == "bf16-mixed":
        precision.device = fabric.device.type
    with others_alive(fabric):
        fabric.launch()
    if dist.is_initialized():
        atexit.register(_leave)
    return fabric


def _precision(name: str) -> Any:
    """Fabric's precision.

    In mixed precision, Fabric has every backward pass checked against one flag for all threads of
    the process, which is not needed here.
    """
    from lightning_fabric.plugins.precision import MixedPrecision, Precision

    class Mixed(MixedPrecision):
        backward = Precision.backward

    return Mixed("bf16-mixed", "cpu") if name == "bf16-mixed" else Precision()


def _ranks(device: Device) -> tuple[int | str, int]:
    """Ranks on a machine, and machines: those that torchrun has started, where it has.

    Otherwise each of its processes would be a fit of its own, all into one run directory.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return device.devices, 1
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    return here, int(os.environ["WORLD_SIZE"]) // here


class Adam(torch.optim.Adam):
    """torch's Adam without its wrappers for torch's compiler, whose import takes a second."""

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def check_machine(settings: Settings, point_shape: tuple[int, ...]) -> None:
    """Refuse what this machine does not have, before anything is written."""
    ranks, most = settings.device.devices, max(8, os.cpu_count() or 1)
    if isinstance(ranks, int) and ranks > most:
        raise InputError(f"device.devices={ranks}: at most {most} are started on this machine")
    with torch.device("meta"):  # shapes without values
        model = build_model(settings, point_shape, 1, generator=None)
    # Weights, their gradients and the two moments of Adam; of the state to go back to all but the
    # gradients; and the weights that are kept.
    weights = 8 * sum(p.numel() for p in model.parameters())
    numbers = weights + settings.sampler.buffer * math.prod(point_shape)
    remedy = "network.hidden, network.width, sampler.buffer or training.n_init"
    check_memory("training", 4 * settings.training.n_init * numbers, remedy)


def check_memory(words: str, needed: int, remedy: str) -> None:
    """Refuse what takes more bytes than this machine has; `remedy` names what decides it."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):  # as on Windows
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise InputError(
            f"{words} would need {needed / 1e9:,.1f} GB, and this machine has "
            f"{there / 1e9:,.1f} GB: choose smaller {remedy}"
        )


def check_steps(steps: int) -> None:
    """Refuse a length of Langevin chains that no setting may have, and nobody would wait for."""
    if not 0 <= steps <= MOST:
        raise InputError(f"steps={steps}: give a number from 0 to {MOST}")


def _leave() -> None:
    """End the process group before the interpreter ends.

    Lightning does so for NCCL alone. A thread of gloo that still runs while the interpreter shuts
    down may abort the process after all its work is done. The threads end with the group, and the
    group with the last model that was wrapped for it: hence the collection.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    gc.collect()


@contextmanager
def others_alive(fabric: AnyFabric) -> Iterator[None]:
    """Say it in one line when another rank has ended, as the backend finds out by its silence."""
    try:
        yield
    except RuntimeError as error:
        lost = isinstance(error, dist.DistError) or "gloo" in str(error)
        if fabric.world_size == 1 or not lost:
            raise
        raise ConnectionError(
            "another process of this fit has ended: start all of them again, by gedi resume where "
            "there is a run directory"
        ) from None


@contextmanager
def working(threads: int | None, interruptible: bool) -> Iterator[Interrupt]:
    """What training changes in its thread, put back as it was at the end.

    The number of torch's threads, denormal numbers; if `interruptible`, signals.
    """
    signals = deferred_signals(interruptible)
    with limited_threads(threads), flushed_denormals(), signals as asked:
        yield asked


class Interrupt:
    """Whether Ctrl-C or SIGTERM has asked for the end."""

    asked = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The handler of both: the first signal only asks, a second one interrupts at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def deferred_signals(active: bool) -> Iterator[Interrupt]:
    """Let signals end a run between two iterations, where a checkpoint is whole."""
    interrupt = Interrupt()
    before: dict[signal.Signals, Any] = {}
    # Python delivers signals to the main thread alone.
    if active and threading.current_thread() is threading.main_thread():
        for name in (signal.SIGINT, signal.SIGTERM):
            before[name] = signal.signal(name, interrupt.ask)
    try:
        yield interrupt
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def limited_threads(number: int | None) -> Iterator[None]:
    """Let torch compute with this many threads for the calling one; None changes nothing.

    Two threads gain little on small products and wait for each other whenever the machine has other
    work, which can slow a fit down tenfold.
    """
    before = _set_own_threads(number)
    try:
        yield
    finally:
        _set_own_threads(before)


_SETTING_THREADS = threading.Lock()


def _set_own_threads(number: int | None) -> int:
    """Set how many threads torch takes for the calling one; how many it took before.

    torch.set_num_threads also sets the number for all threads that have not used torch yet. A new
    thread puts that one back: a fit in another thread would take it for the process's own.
    """
    with _SETTING_THREADS, ThreadPoolExecutor(1) as new_thread:
        of_others = new_thread.submit(torch.get_num_threads).result()
        before = torch.get_num_threads()
        torch.set_num_threads(number or before)
        new_thread.submit(torch.set_num_threads, of_others).result()
    return before


SMALL = 200_000  # numbers in the data up to which a second thread gains no time


@contextmanager
def one_thread_if_small(device: Device, shape: tuple[int, ...]) -> Iterator[None]:
    """Let every library compute with one thread if the data is small.

    Several threads gain nothing from small products: torch, OpenMP and BLAS all let them wait for
    each other. `device.threads` above 1 is left to do what it says.
    """
    if device.threads != 1 or math.prod(shape) > SMALL:
        yield
        return
    openmp = ThreadpoolController().select(user_api="openmp")  # has a number for each thread
    with limited_threads(1), openmp.limit(limits=1), _ONE_BLAS_THREAD:
        yield


class _OneBlasThread:
    """One thread of BLAS, from the first of several fits at once to the end of the last.

    BLAS has one number for the whole process. A thread of our own sets it and puts it back, because
    threadpoolctl lets only the thread that has set it change it.
    """

    fits = 0

    def __enter__(self) -> None:
        with ONE_AT_A_TIME:
            if self.fits == 0:
                self.thread = ThreadPoolExecutor(1)
                self.limit = self.thread.submit(threadpool_limits, 1, user_api="blas").result()
            self.fits += 1

    def __exit__(self, *_: object) -> None:
        with ONE_AT_A_TIME:
            self.fits -= 1
            if self.fits == 0:
                self.thread.submit(self.limit.restore_original_limits).result()
                self.thread.shutdown()


_ONE_BLAS_THREAD = _OneBlasThread()


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Take numbers next to zero, below 1e-38, for zero, where the processor can.

    Confident predictions are full of them, and a processor works on them many times as long: they
    make a step take twice its time. A processor has this setting once for each thread.
    """
    tiny = torch.full((), 1e-310, dtype=torch.float64)
    before = float(tiny * 1.0) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def reuse_freed_memory() -> None:
    """Make the C library keep the memory of freed tensors below 32 MB for the next ones.

    The activations of all members are a few megabytes each. By default glibc hands that much back
    to the operating system and asks for it again, page by page, in every step. Freeing one block
    (of which no page is ever touched) raises its limits to the block's size, unless MALLOC_
    variables of the environment have set them.
    """
    torch.empty(32_000_000, dtype=torch.uint8)


# --- generators -----------------------------------------------------------------------------------
#
# Where random numbers come from: generators of one's own, handed down to all that draws.
#
# Fits in several threads therefore do not disturb each other. Only code of the user's own, an
# encoder or views that take no generator, draws from torch's global generators, which all threads
# share.


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
