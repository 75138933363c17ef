"""An iteration never waits for the device: on a GPU its kernels are queued without a pause."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gedilearn.presets import preset
from gedilearn.settings import assign, resolve
from gedilearn.training.environment import launch
from gedilearn.training.loop import begin, step

aten = torch.ops.aten
WAITING = (aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default)


class NoWaiting(TorchDispatchMode):
    """Refuses operations whose result the processor needs: `item`, `bool`, `nonzero`."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func not in WAITING, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", ["jem", "barlow", "swav", "no-gen", "gedi"])
@pytest.mark.parametrize("clip", [None, 5.0])
def test_a_step_with_views_by_noise_never_waits_for_the_device(method, clip):
    values = preset("paper/cifar10", method)
    changes = {"network.width": 4, "sampler.buffer": 128, "views.kind": "noise"}
    for name, value in (changes | {"optimizer.grad_clip": clip}).items():
        assign(values, name, value)
    x = torch.rand(160, 3, 8, 8)
    settings = resolve(values, tuple(x.shape))
    setup, state = begin(x, settings, launch(settings.device))
    for state.iteration in (1, 2):  # the first makes what later ones reuse
        step(setup, state)
    with NoWaiting():
        step(setup, state)


def test_the_watch_notices_what_waits():
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        torch.ones(3).sum().item()
