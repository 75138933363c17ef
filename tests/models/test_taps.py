"""The number s of images, and sines of few columns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.image_encoders import ResNet8, SmallConvNet, Taps
from gedilearn.models.mlp import MLP, SineMLP
from gedilearn.settings import resolve
from helpers import SEEDED

ENCODERS = pytest.mark.parametrize("encoder", ["conv", "resnet8"])


def tapped(encoder: str, shift: bool | None = None) -> EnergyModel:
    network = {"encoder": encoder, "width": 4, "shift": shift}
    settings = resolve({"n_clusters": 3, "network": network}, (60, 1, 8, 8))
    return build_model(settings, (1, 8, 8), 2, generator=SEEDED)


def taps_of(model: EnergyModel) -> list[Taps]:
    return [part for part in model.modules() if isinstance(part, Taps)]


def woken(model: EnergyModel) -> EnergyModel:
    for taps in taps_of(model):
        for layer in taps.second:
            nn.init.normal_(layer.weight)
    return model


@ENCODERS
def test_s_starts_at_0_and_shifts_all_logits_equally(encoder: str) -> None:
    model, x = tapped(encoder), torch.randn(2, 5, 1, 8, 8)
    assert len(taps_of(model)) == 2
    begun = model(x)
    assert torch.equal(model.encoder(x)[..., -1], torch.zeros(2, 5))
    woken(model)
    shift = model(x).logits - begun.logits
    assert shift.abs().min() > 1e-4  # so that it changes log p(x)
    torch.testing.assert_close(shift, shift[..., :1].expand(-1, -1, 3), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.log_density(x) - begun.logits.logsumexp(-1), shift[..., 0])
    torch.testing.assert_close(model(x).logits.softmax(-1), begun.logits.softmax(-1))
    assert torch.equal(model(x).features, begun.features)


@pytest.mark.parametrize("net", [SmallConvNet, ResNet8])
def test_s_depends_on_every_layer(net: type[SmallConvNet | ResNet8]) -> None:
    made = net(1, 4, tapped=True, generator=SEEDED)
    assert made.taps is not None
    for layer in made.taps.second:
        nn.init.normal_(layer.weight)
    seen: list[Tensor] = []
    made.taps.register_forward_pre_hook(lambda _, given: seen.extend(given[0]))
    s = made(torch.randn(3, 1, 16, 16))[:, -1]
    total = torch.zeros(3)
    for first, second, layer in zip(made.taps.first, made.taps.second, seen, strict=True):
        hidden = torch.einsum("nchw,oc->nohw", layer, first.weight[..., 0, 0])
        total += torch.einsum("nohw,o->nhw", F.silu(hidden), second.weight[0, :, 0, 0]).mean((1, 2))
    assert len(seen) == 4
    torch.testing.assert_close(s, 4 * total, rtol=1e-4, atol=1e-5)


@ENCODERS
def test_while_off_s_is_neither_computed_nor_trained(encoder: str) -> None:
    model, x = woken(tapped(encoder)), torch.randn(2, 5, 1, 8, 8)
    model.train_shift(False)
    calls: list[nn.Module] = []
    for taps in taps_of(model):
        for layer in taps.first:
            layer.register_forward_hook(lambda layer, *_: calls.append(layer))
    assert torch.equal(model.encoder(x)[..., -1], torch.zeros(2, 5)) and not calls
    model(x).logits.sum().backward()
    assert all(p.grad is None for taps in taps_of(model) for p in taps.parameters())
    without = tapped(encoder, shift=False)
    assert not taps_of(without) and without.n_features == model.n_features
    model.train_shift(True)
    assert model.encoder(x)[..., -1].abs().max() > 0 and calls


def test_sines_are_added_to_the_columns_for_each_member() -> None:
    layers = MLP((2 + 5, 4, 3), 3, generator=SEEDED)
    made = SineMLP(layers, 2, generator=SEEDED).eval()
    x = torch.randn(3, 6, 2)
    out = made(x)
    for k in range(3):
        waves = torch.sin(x[k] @ made.frequencies[k] + made.phases[k])
        both = torch.cat([x, waves.expand(3, -1, -1)], -1)
        torch.testing.assert_close(out[k], layers(both)[k])
