"""From settings and the data's shape to a model with the right number of members."""

from __future__ import annotations

import copy

import torch
from torch import Generator, nn

from gedilearn.errors import InputError
from gedilearn.models.energy import EnergyModel
from gedilearn.models.heads import PrototypeHead
from gedilearn.models.image_encoders import ResNet8, SmallConvNet
from gedilearn.models.mlp import MLP, MemberModule, Members, SineMLP
from gedilearn.settings import Network, Settings


def build_model(
    settings: Settings,
    point_shape: tuple[int, ...],
    n_members: int,
    encoder: nn.Module | None = None,
    *,
    generator: Generator | None,
) -> EnergyModel:
    """An energy model for points of this shape: (d,) or (channels, height, width).

    A given `encoder` replaces the network of the settings. The first member starts from a copy with
    its weights. The others start from copies whose layers are initialised again, from torch's
    global generator. The encoder itself is never changed.

    All other weights are drawn from `generator`; with None they stay unset and must be loaded.
    """
    network = settings.network
    required = settings.own.network()
    normalise = required.batch_norm
    body: MemberModule
    shifted = bool(network.shift) and encoder is None
    if encoder is not None:
        body = Members(_copies(encoder, n_members))
        width = _output_width(body, point_shape)
    elif len(point_shape) == 3:
        if min(point_shape[1:]) < 4:
            raise InputError(f"images of {point_shape[1]}x{point_shape[2]}: at least 4x4 is needed")
        body = Members(
            _image_encoder(network, point_shape, normalise, generator) for _ in range(n_members)
        )
        width = _output_width(body, point_shape) - shifted
    else:
        widths = [point_shape[0] + network.sines, *network.hidden]
        if network.features is not None:
            widths.append(network.features)
        if len(widths) == 1:
            raise InputError(
                "network.hidden=(): give at least one hidden layer, or network.features"
            )
        last = network.features is None
        n_normalised = len(widths) - 1 if normalise else 0
        layers = MLP(widths, n_members, network.activation, last, n_normalised, generator=generator)
        width, body = widths[-1], layers
        if network.sines:
            body = SineMLP(layers, point_shape[0], generator=generator)
    c, n_normalised = settings.n_clusters, len(network.head) if normalise else 0
    temperature = required.temperature or network.temperature
    widths = [width, *network.head, required.embedding or c]
    head = MLP(widths, n_members, network.activation, False, n_normalised, generator=generator)
    if required.embedding is None:
        return EnergyModel(body, head, temperature, shifted)
    return EnergyModel(body, PrototypeHead(head, c, generator=generator), temperature, shifted)


def has_foreign_encoder(model: EnergyModel) -> bool:
    """Whether the user gave the encoder, which may draw from torch's global generators."""
    own = (SmallConvNet, ResNet8)
    return isinstance(model.encoder, Members) and not all(
        isinstance(network, own) for network in model.encoder.networks
    )


def _image_encoder(
    network: Network, shape: tuple[int, ...], normalise: bool, generator: Generator | None
) -> nn.Module:
    assert network.width is not None  # resolved
    if network.encoder == "resnet8":
        if min(shape[1:]) < 8:
            raise InputError(
                f"network.encoder='resnet8': at least 8x8 is needed, got {shape[1]}x{shape[2]}"
            )
        given = (normalise, network.shift, network.standardised)
        return ResNet8(shape[0], network.width, *given, generator=generator)
    small = (network.activation, normalise, network.shift)
    return SmallConvNet(shape[0], network.width, *small, generator=generator)


def _copies(encoder: nn.Module, n_members: int) -> list[nn.Module]:
    if not isinstance(encoder, nn.Module):
        raise InputError(f"encoder must be a torch.nn.Module, got {type(encoder).__name__}")
    if any(tensor.is_meta for tensor in (*encoder.parameters(), *encoder.buffers())):
        raise InputError("encoder has tensors without values (device 'meta'): give it some")
    # In single precision, like all networks here; Fabric converts to double where that is set.
    copies = [copy.deepcopy(encoder).float() for _ in range(n_members)]
    for other in copies[1:]:
        for layer in other.modules():
            reset = getattr(layer, "reset_parameters", None)
            if callable(reset):
                reset()
    return copies


def _output_width(encoder: MemberModule, point_shape: tuple[int, ...]) -> int:
    first = next(encoder.parameters(), torch.zeros(()))
    probe = torch.zeros(encoder.n_members, 2, *point_shape, dtype=first.dtype, device=first.device)
    encoder.eval()
    try:
        with torch.no_grad(), first.device:
            width = int(encoder(probe).shape[-1])
    except Exception as error:  # a user's module may raise anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"encoder does not take points of shape {point_shape}: {reason}") from None
    finally:
        encoder.train()
    if width == 0:
        raise InputError("encoder gives vectors of width 0: at least 1 is needed")
    return width
