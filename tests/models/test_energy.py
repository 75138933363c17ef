"""The energy model, its members, and the model of given settings."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from gedilearn.errors import InputError
from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel, log_density, log_posterior, posterior
from gedilearn.models.image_encoders import ResNet8, SmallConvNet
from gedilearn.models.mlp import MLP, Members
from gedilearn.settings import Network, Settings, resolve
from helpers import SEEDED


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def settings(n_clusters: int, **network: object) -> Settings:
    return resolve({"n_clusters": n_clusters, "network": network}, (60, 3))


def of_images(n_clusters: int, method: str = "gedi", **network: object) -> Settings:
    values = {"n_clusters": n_clusters, "method": method, "network": network}
    return resolve(values, (60, 3, 32, 32))


def encoder() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


# --- the two identities ----------------------------------------------------------------------


def test_density_and_posterior_equal_sums_of_exponentials() -> None:
    logits = 3 * torch.randn(2, 5, 4)
    for k in range(2):
        for b in range(5):
            weights = [math.exp(v) for v in logits[k, b].tolist()]
            assert float(log_density(logits)[k, b]) == pytest.approx(math.log(sum(weights)))
            expected = [w / sum(weights) for w in weights]
            assert posterior(logits)[k, b].tolist() == pytest.approx(expected, rel=1e-5)
            logs = [math.log(p) for p in expected]
            assert log_posterior(logits)[k, b].tolist() == pytest.approx(logs, rel=1e-5, abs=1e-6)


def test_the_temperature_divides_the_logits_alone() -> None:
    cold = build_model(settings(4, hidden=(5,)), (3,), 2, generator=SEEDED)
    warm = EnergyModel(cold.encoder, cold.head, temperature=2.5)
    x = torch.randn(2, 6, 3)
    torch.testing.assert_close(warm(x).logits * 2.5, cold(x).logits)
    assert torch.equal(warm(x).features, cold(x).features)
    assert build_model(settings(2, temperature=0.5), (3,), 1, generator=SEEDED).temperature == 0.5


@pytest.mark.parametrize(("method", "own"), [("gedi", None), ("gedi", encoder()), ("swav", None)])
def test_gradient_norms_and_scaling_count_encoder_and_head_of_each_member(
    method: str, own: nn.Module | None
) -> None:
    values = {"method": method, "n_clusters": 4, "network": {"hidden": (5,)}}
    model = build_model(resolve(values, (60, 3)), (3,), 2, own, generator=SEEDED)
    x = torch.randn(2, 6, 3)
    model(x).logits.square().sum().backward()
    expected = []
    for k in range(2):
        alone = build_model(resolve(values, (60, 3)), (3,), 1, own, generator=None)
        alone.load_state_dict(model.state_of(k))
        alone(x[[k]]).logits.square().sum().backward()
        squares = [float(p.grad.square().sum()) for p in alone.parameters() if p.grad is not None]
        expected.append(math.sqrt(sum(squares)))
    assert model.gradient_norms().tolist() == pytest.approx(expected, rel=1e-5)
    model.scale_gradients(torch.tensor([3.0, 0.5]))
    scaled = [3 * expected[0], 0.5 * expected[1]]
    assert model.gradient_norms().tolist() == pytest.approx(scaled, rel=1e-5)


# --- build -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "encoder_widths", "head_widths"),
    [
        (Network(hidden=(100, 100), features=2, head=(4,)), (3, 100, 100, 2), (2, 4, 5)),
        (Network(hidden=(7, 6)), (3, 7, 6), (6, 5)),
        (Network(hidden=(), features=4), (3, 4), (4, 5)),
    ],
)
def test_settings_give_these_layers(
    network: Network, encoder_widths: tuple[int, ...], head_widths: tuple[int, ...]
) -> None:
    model = build_model(Settings(n_clusters=5, network=network), (3,), 2, generator=SEEDED)
    assert isinstance(model.encoder, MLP) and isinstance(model.head, MLP)
    assert model.encoder.widths == encoder_widths
    assert model.head.widths == head_widths
    # The last hidden layer is activated when it is the representation, a linear one is not.
    assert model.encoder.activate_last is (network.features is None)
    output = model(torch.randn(2, 6, 3))
    assert output.features.shape == (2, 6, encoder_widths[-1])
    assert output.logits.shape == (2, 6, 5)


def test_images_have_a_convolutional_encoder_without_dependence_within_a_batch() -> None:
    model = build_model(of_images(4), (3, 8, 8), 2, generator=SEEDED)
    x = torch.randn(2, 6, 3, 8, 8)
    logits = model(x).logits
    assert logits.shape == (2, 6, 4)
    torch.testing.assert_close(model(x[:, :1]).logits, logits[:, :1])
    assert not torch.allclose(model(x[:1].expand(2, -1, -1, -1, -1)).logits[0], logits[1])


def test_a_given_encoder_is_never_changed() -> None:
    mine = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))
    mine.eval()
    before = state(mine)
    model = build_model(settings(2), (3,), 3, mine, generator=SEEDED)
    assert same(before, state(mine)) and not mine.training
    model(torch.randn(3, 5, 3)).logits.sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert same(before, state(mine))
    assert all(p.grad is None for p in mine.parameters())


def test_the_first_member_has_the_given_weights_and_the_others_are_initialised() -> None:
    mine = encoder()
    model = build_model(settings(2), (3,), 3, mine, generator=SEEDED)
    assert isinstance(model.encoder, Members)
    first, *others = (state(network) for network in model.encoder.networks)
    assert same(first, state(mine))
    for other in others:
        assert not any(torch.equal(other[name], first[name]) for name in first)
    assert not torch.equal(others[0]["0.weight"], others[1]["0.weight"])


@pytest.mark.parametrize(
    ("network", "shape", "own", "words"),
    [
        (Network(hidden=()), (3,), None, r"network\.hidden=\(\)"),
        (Network(width=4), (1, 3, 9), None, "at least 4x4"),
        (Network(), (5,), encoder(), r"does not take points of shape \(5,\)"),
        (Network(), (3,), "resnet", "encoder must be a torch.nn.Module, got str"),
    ],
)
def test_impossible_networks_are_refused_in_one_line(
    network: Network, shape: tuple[int, ...], own: object, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        build_model(Settings(network=network), shape, 1, copy.copy(own), generator=SEEDED)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_images_have_the_encoder_and_the_width_of_the_settings() -> None:
    small = build_model(of_images(4), (1, 28, 28), 1, generator=SEEDED)
    assert isinstance(small.encoder.networks[0], SmallConvNet) and small.n_features == 96
    paper = build_model(of_images(4, encoder="resnet8", width=8), (3, 32, 32), 2, generator=SEEDED)
    assert isinstance(paper.encoder.networks[1], ResNet8) and paper.n_features == 8
    with pytest.raises(InputError, match="resnet8"):
        build_model(of_images(4, encoder="resnet8"), (3, 7, 7), 1, generator=SEEDED)
    normalised = of_images(4, "swav", encoder="resnet8", width=8)
    kinds = {
        type(layer) for layer in build_model(normalised, (3, 32, 32), 1, generator=SEEDED).modules()
    }
    assert torch.nn.BatchNorm2d in kinds
