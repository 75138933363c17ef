"""From settings and the data's shape to a model with the right number of members."""

from __future__ import annotations

import copy

import torch
from torch import nn

from gedilearn.errors import InputError
from gedilearn.models.conv import SmallConvNet
from gedilearn.models.energy import EnergyModel
from gedilearn.models.heads import PrototypeHead
from gedilearn.models.members import MemberModule, Members
from gedilearn.models.mlp import MLP
from gedilearn.models.resnet8 import ResNet8
from gedilearn.settings import Network, Settings


def build_model(
    settings: Settings,
    point_shape: tuple[int, ...],
    n_members: int,
    encoder: nn.Module | None = None,
) -> EnergyModel:
    """An energy model for points of this shape: (d,) or (channels, height, width).

    A given `encoder` replaces the network of the settings: the first member starts from its weights
    as they are, the others from copies whose layers are initialised anew. It is never changed
    itself.
    """
    network, method = settings.network, settings.method
    normalise = (method == "swav" and settings.swav.batch_norm) or (
        method == "barlow" and settings.barlow.batch_norm
    )
    body: MemberModule
    if encoder is not None:
        body = Members(_copies(encoder, n_members))
        width = _output_width(body, point_shape)
    elif len(point_shape) == 3:
        if min(point_shape[1:]) < 4:
            raise InputError(f"images of {point_shape[1]}x{point_shape[2]}: at least 4x4 is needed")
        body = Members(_image_encoder(network, point_shape, normalise) for _ in range(n_members))
        width = _output_width(body, point_shape)
    else:
        widths = [point_shape[0], *network.hidden]
        if network.features is not None:
            widths.append(network.features)
        if len(widths) == 1:
            raise InputError(
                "network.hidden=(): give at least one hidden layer, or network.features"
            )
        last = network.features is None
        n_normalised = len(widths) - 1 if normalise else 0
        body = MLP(widths, n_members, network.activation, last, n_normalised)
        width = widths[-1]
    c, n_normalised = settings.n_clusters, len(network.head) if normalise else 0
    if method not in ("swav", "dino"):
        head = MLP([width, *network.head, c], n_members, network.activation, False, n_normalised)
        return EnergyModel(body, head, network.temperature)
    own = settings.swav if method == "swav" else settings.dino
    widths = [width, *network.head, own.embedding or c]
    projector = MLP(widths, n_members, network.activation, False, n_normalised)
    temperature = (
        settings.swav.temperature if method == "swav" else settings.dino.student_temperature
    )
    return EnergyModel(body, PrototypeHead(projector, c), temperature)


def _image_encoder(network: Network, shape: tuple[int, ...], normalise: bool) -> nn.Module:
    if network.encoder == "resnet8":
        if min(shape[1:]) < 8:
            raise InputError(
                f"network.encoder='resnet8': at least 8x8 is needed, got {shape[1]}x{shape[2]}"
            )
        return ResNet8(shape[0], network.width or 128, normalise)
    return SmallConvNet(shape[0], network.width or 32, network.activation, normalise)


def _copies(encoder: nn.Module, n_members: int) -> list[nn.Module]:
    if not isinstance(encoder, nn.Module):
        raise InputError(f"encoder must be a torch.nn.Module, got {type(encoder).__name__}")
    copies = [copy.deepcopy(encoder) for _ in range(n_members)]
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
        with torch.no_grad():
            return int(encoder(probe).shape[-1])
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"encoder does not take points of shape {point_shape}: {reason}") from None
    finally:
        encoder.train()
