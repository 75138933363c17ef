"""The image sets of `images`: to train on, to test with, and to hold against those."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gedilearn.data.dataset import Dataset
from gedilearn.data.published import is_cached, open_set
from gedilearn.data.toy import digits

# The sets, and the others that the paper holds against each.
PAPER_SETS = {
    "svhn": ("cifar10", "cifar100"),
    "cifar10": ("svhn", "cifar100"),
    "cifar100": ("svhn", "cifar10"),
}
OWN_SETS = {"mnist": ("fashion-mnist",), "digits": ()}
TITLES = {
    "svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST",
    "digits": "digits", "fashion-mnist": "Fashion-MNIST",
}  # fmt: skip
SHUFFLED = "shuffled patches"
PARTS = 4  # patches on each side: of 7x7 pixels on MNIST, of 2x2 on the digits
TEST_DIGITS = 500


def load_sets(data: str) -> tuple[Dataset, Dataset]:
    """Images to train on and images to test with."""
    if data == "digits":
        return _digit_images()
    return open_set(data, "train"), open_set(data, "test")


def _digit_images() -> tuple[Dataset, Dataset]:
    """The digits as images (n, 1, 8, 8); always the same of them are kept for the test."""
    whole = digits()
    assert whole.y is not None
    order = np.random.default_rng(0).permutation(len(whole.x))
    x = whole.x.astype(np.float32).reshape(-1, 1, 8, 8)
    held, kept = np.split(order, [TEST_DIGITS])
    train, test = (
        Dataset(name, x[part], whole.y[part], None, whole.source)
        for name, part in (("digits", kept), ("digits-test", held))
    )
    return train, test


def load_others(data: str, test: Dataset, given: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """What to hold against the test images: the paper's sets that are here, and those given.

    One of these names that is given takes the place of the set in the cache. Grey digits are also
    held against themselves with their patches shuffled, image by image: pixel by pixel they are the
    same, so that brightness and ink tell nothing.
    """
    names = (PAPER_SETS | OWN_SETS)[data]
    found = {
        name: open_set(name, "test")
        for name in names
        if not any(stands_for(other, name) for other in given) and is_cached(name)
    }
    if data in OWN_SETS:
        x = shuffled_patches(np.asarray(test.x))
        found[SHUFFLED] = Dataset(SHUFFLED, x, None, None, test.source)
    return found | dict(given)


def stands_for(other: str, name: str) -> bool:
    """Whether a set outside is, or is a part of, the set of this name: 'svhn, first 1083'."""
    given = other.lower()
    return any(
        given.startswith(known) and not given[len(known) : len(known) + 1].isalnum()
        for known in (name, TITLES[name].lower())
    )


def shuffled_patches(x: np.ndarray, parts: int = PARTS, seed: int = 0) -> np.ndarray:
    """Images (n, c, h, w) cut into parts x parts patches that change places.

    Pixels that do not make up a whole patch are left out.
    """
    n, c, height, width = x.shape
    h, w = height // parts, width // parts
    cut = x[:, :, : h * parts, : w * parts].reshape(n, c, parts, h, parts, w)
    patches = cut.transpose(0, 2, 4, 1, 3, 5).reshape(n, parts * parts, c, h, w)
    places = np.tile(np.arange(parts * parts), (n, 1))
    places = np.random.default_rng(seed).permuted(places, axis=1)
    mixed = patches[np.arange(n)[:, None], places].reshape(n, parts, parts, c, h, w)
    return mixed.transpose(0, 3, 1, 4, 2, 5).reshape(n, c, h * parts, w * parts)
