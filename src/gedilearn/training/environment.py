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
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
import torch.distributed as dist
from threadpoolctl import ThreadpoolController, threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from gedilearn.errors import InputError, Parameter
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
    """The device and processes of the settings, started."""
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
    """Fabric's precision, without its check of backward passes, which fits in threads share."""
    from lightning_fabric.plugins.precision import MixedPrecision, Precision

    class Mixed(MixedPrecision):
        backward = Precision.backward

    return Mixed("bf16-mixed", "cpu") if name == "bf16-mixed" else Precision()


def _ranks(device: Device) -> tuple[int | str, int]:
    """Ranks on a machine, and machines; those of torchrun, if it has started this process."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return device.devices, 1
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    return here, int(os.environ["WORLD_SIZE"]) // here


def check_machine(settings: Settings, point_shape: tuple[int, ...]) -> None:
    """Refuse more ranks or memory than this machine has, before anything is written."""
    ranks, most = settings.device.devices, max(8, os.cpu_count() or 1)
    if isinstance(ranks, int) and ranks > most:
        raise InputError(f"device.devices={ranks}: at most {most} are started on this machine")
    with torch.device("meta"):  # shapes without values
        model = build_model(settings, point_shape, 1, generator=None)
    # The current state, the state to recover to and the best weights: 4 (weights, gradients and two
    # moments of Adam) + 3 + 1.
    weights = 8 * sum(p.numel() for p in model.parameters())
    numbers = weights + settings.sampler.buffer * math.prod(point_shape)
    remedy = "network.hidden, network.width, sampler.buffer or training.n_init"
    check_memory("training", 4 * settings.training.n_init * numbers, remedy)


def check_memory(words: str, needed: int, remedy: str) -> None:
    """Refuse work that needs more bytes than this machine has; `remedy` names smaller choices."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):  # as on Windows
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise InputError(
            f"{words} would need {needed / 1e9:,.1f} GB, and this machine has "
            f"{there / 1e9:,.1f} GB: choose smaller {remedy}"
        )


def check_steps(steps: int) -> None:
    """Refuse a length of Langevin chains that settings refuse too."""
    if not 0 <= steps <= MOST:
        raise InputError(Parameter("steps", steps), f": give a number from 0 to {MOST}")


def _leave() -> None:
    """End the process group before the interpreter ends.

    Lightning does so for NCCL alone. A thread of gloo that runs while the interpreter shuts down
    may abort the process. Its threads end with the group, and the group ends with the last model
    that refers to it: hence the garbage collection.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    gc.collect()


@contextmanager
def others_alive(fabric: AnyFabric) -> Iterator[None]:
    """Report in one line that another rank has ended; the backend notices by a timeout."""
    try:
        yield
    except RuntimeError as error:
        lost = isinstance(error, dist.DistError) or "gloo" in str(error)
        if fabric.world_size == 1 or not lost:
            raise
        raise ConnectionError(
            "another process of this fit has ended: start all of them again; a fit with a run "
            "directory can be resumed"
        ) from None


@contextmanager
def working(threads: int | None, interruptible: bool) -> Iterator[Interrupt]:
    """Set threads, denormal numbers and, if `interruptible`, signals; restore them at the end."""
    signals = deferred_signals(interruptible)
    with limited_threads(threads), flushed_denormals(), signals as asked:
        yield asked


class Interrupt:
    """Whether Ctrl-C or SIGTERM was received."""

    asked = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The handler of both: the first signal is noted, a second one interrupts at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def deferred_signals(active: bool) -> Iterator[Interrupt]:
    """Let signals end a run between two iterations, when a checkpoint can be written."""
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
    """Set torch's number of threads for the calling thread; None changes nothing.

    Two threads gain little from small products. They wait for each other whenever the machine has
    other work, which can slow a fit down tenfold.
    """
    before = _set_own_threads(number)
    try:
        yield
    finally:
        _set_own_threads(before)


_SETTING_THREADS = threading.Lock()


def _set_own_threads(number: int | None) -> int:
    """Set torch's number of threads for the calling thread, and return the number before.

    torch.set_num_threads also sets the number for threads that have not used torch yet. A new
    thread restores that number, which fits in other threads would otherwise take.
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
    """Let torch, OpenMP and BLAS compute with one thread if the data is small.

    With small products, several threads mostly wait for each other. `device.threads` above 1 takes
    precedence.
    """
    if device.threads != 1 or math.prod(shape) > SMALL:
        yield
        return
    openmp = ThreadpoolController().select(user_api="openmp")  # its number is the calling thread's
    with limited_threads(1), openmp.limit(limits=1), _ONE_BLAS_THREAD:
        yield


class _OneBlasThread:
    """Limits BLAS to one thread until the last of several simultaneous fits ends.

    The number is the whole process's. threadpoolctl lets only the thread that set it change it, and
    the fit that sets it may end before others: a separate thread sets and restores it.
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
    """Replace denormal numbers, below 1e-38, by zero, if the processor can.

    Confident predictions have many of them. They take a processor many times as long, which doubles
    the time of a step. Each thread has its own setting.
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

    The activations of all members are a few megabytes each. By default glibc returns such blocks to
    the operating system and requests them again, page by page, in every step. Freeing one block,
    whose pages are never touched, raises this limit to its size. MALLOC_ variables of the
    environment take precedence.
    """
    torch.empty(32_000_000, dtype=torch.uint8)


# --- generators -----------------------------------------------------------------------------------
#
# Each fit has its own generators, which are passed to every function that draws random numbers.
# Fits in several threads therefore do not disturb each other. Only an encoder or views of the user
# that take no generator draw from torch's global generators, which all threads share.


class Generators:
    """A generator on the processor, for new networks, and one on the device, often the same."""

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
        """Use torch's global generators instead, and restore their state at the end.

        Draws by code of the user are then seeded, saved and loaded too.
        """
        if self.device is self.cpu:
            self.device = torch.default_generator
        elif self.device.device.type == "cuda":
            self.device = torch.cuda.default_generators[self.device.device.index]
        self.cpu = torch.default_generator
        self._before = self.state()

    def seed(self, seed: int) -> None:
        """Seed both."""
        self.cpu.manual_seed(seed)
        self.device.manual_seed(seed)

    def state(self) -> dict[str, Any]:
        """The states for a checkpoint."""
        states = {"rng": self.cpu.get_state()}
        if self.device is not self.cpu:
            states[f"{self.device.device.type}_rng"] = self.device.get_state()
        return states

    def load_state(self, states: dict[str, Any]) -> None:
        """Restore the output of `state`, as far as it is of the same kind of device."""
        self.cpu.set_state(states["rng"])
        own = states.get(f"{self.device.device.type}_rng")
        if own is not None:
            self.device.set_state(own)


@contextmanager
def drawing(seed: int, globally: bool) -> Iterator[Generator]:
    """A seeded generator of the processor; if `globally`, torch's own, restored at the end."""
    with Generators(torch.device("cpu")) as generators:
        if globally:
            generators.borrow_globals()
        generators.seed(seed)
        yield generators.cpu
