import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gedilearn.models.build import build_model
from gedilearn.models.image_encoders import ResNet8, StandardisedConv
from gedilearn.settings import resolve
from helpers import SEEDED


def lively(**options: object) -> ResNet8:
    """A network in double precision whose biases are not 0, so that a lost one is noticed."""
    net = ResNet8(**options, generator=SEEDED).double()  # type: ignore[arg-type]
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return net


def by_the_table(net: ResNet8, x: Tensor) -> Tensor:
    """The paper's table, layer by layer, in the default memory layout.

    Where a layer has gains, its filters have mean 0 and these as norms.
    """
    weights = {name: p.detach().contiguous() for name, p in net.named_parameters()}

    def conv(name: str, x: Tensor, padding: int = 1) -> Tensor:
        filters = weights[f"{name}.weight"]
        if (gains := weights.get(f"{name}.gain")) is not None:
            rows = [own - own.mean() for own in filters]
            filters = torch.stack(
                [g * row / row.norm() for g, row in zip(gains, rows, strict=True)]
            )
        return F.conv2d(x, filters, weights[f"{name}.bias"], padding=padding)

    def active(x: Tensor) -> Tensor:
        return torch.where(x > 0, x, 0.2 * x)

    out = F.avg_pool2d(conv("blocks.0.leave", active(conv("blocks.0.enter", x))), 2)
    x = out + conv("shortcut", F.avg_pool2d(x, 2), padding=0)
    out = F.avg_pool2d(conv("blocks.1.leave", active(conv("blocks.1.enter", active(x)))), 2)
    x = out + F.avg_pool2d(x, 2)
    for k in (2, 3):
        x = x + conv(f"blocks.{k}.leave", active(conv(f"blocks.{k}.enter", active(x))))
    return active(x).mean((2, 3))


@pytest.mark.parametrize(("width", "parameters"), [(128, 1_037_184), (256, 4_138_752)])
def test_resnet8_has_the_number_of_parameters_of_the_paper(width: int, parameters: int) -> None:
    assert sum(p.numel() for p in ResNet8(3, width, generator=SEEDED).parameters()) == parameters


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 8, 8), (2, 9, 15)])
def test_resnet8_equals_the_table_of_the_paper(
    shape: tuple[int, int, int], standardised: bool
) -> None:
    torch.manual_seed(0)
    net = lively(channels=shape[0], width=6, standardised=standardised)
    x = torch.randn(5, *shape, dtype=torch.float64)
    out = net(x)
    assert out.shape == (5, 6)
    # The square of a standardised filter has 1e-8 added, so that its norm is never 0.
    rtol = 1e-7 if standardised else 1e-10
    torch.testing.assert_close(out, by_the_table(net, x), rtol=rtol, atol=rtol)


def test_standardised_weights_add_a_norm_for_each_filter_and_ignore_a_constant() -> None:
    net = ResNet8(3, 128, standardised=True, generator=SEEDED)
    assert sum(p.numel() for p in net.parameters()) == 1_037_184 + 8 * 128
    first = net.blocks[0].enter
    assert first.kernel().mean((1, 2, 3)).abs().max() < 1e-7
    constant = first(torch.full((1, 3, 9, 9), 5.0))[..., 1:-1, 1:-1]  # without padded places
    torch.testing.assert_close(constant, torch.zeros_like(constant), rtol=0, atol=1e-5)


def test_weights_are_standardised_where_there_is_no_batch_normalisation() -> None:
    def standardised(method: str, **network: object) -> bool:
        values = {"method": method, "network": {"encoder": "resnet8", "width": 4} | network}
        model = build_model(resolve(values, (60, 3, 8, 8)), (3, 8, 8), 1, generator=SEEDED)
        return any(isinstance(module, StandardisedConv) for module in model.modules())

    assert all(map(standardised, ("gedi", "no-gen", "jem"))) and not standardised("swav")
    assert not standardised("gedi", standardised=False)
    assert standardised("swav", standardised=True)


def test_batch_normalisation_is_optional() -> None:
    x = 5 * torch.randn(16, 3, 16, 16)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in ResNet8(3, 4, generator=SEEDED).modules())
    net = ResNet8(3, 4, normalise=True, generator=SEEDED)
    means = []
    for block in net.blocks:
        block.register_forward_hook(lambda m, i, out: means.append(out.mean((0, 2, 3))))
    net(x)
    # A hook sees the tensor to which the shortcut is then added in place: the mean is taken before.
    assert len(means) == 4
    torch.testing.assert_close(torch.stack(means), torch.zeros(4, 4), rtol=0, atol=1e-4)
