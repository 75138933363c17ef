"""The image sets that can be fetched by name: their files, sizes and official sites.

The names, sizes and checksums of the files are in `published_files.txt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gedilearn.data.fetch import File
from gedilearn.errors import InputError, suggestion

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Split:
    """One part of a set.

    images: the files that hold it, in order, with the labels unless these are in `labels`
    count: how many images these hold together
    """

    images: tuple[File, ...]
    count: int
    labels: tuple[File, ...] = ()


@dataclass(frozen=True)
class Source:
    """One set.

    archive: the .tar.gz that holds the files in `folder`; without it, files are fetched one by one
    shape: (channels, height, width)
    """

    name: str
    about: str
    site: str
    shape: tuple[int, int, int]
    classes: int
    splits: dict[str, Split]
    archive: File | None = None
    folder: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        """Every file that is read, without the archive around them."""
        return tuple(f for split in self.splits.values() for f in (*split.images, *split.labels))

    @property
    def downloads(self) -> tuple[File, ...]:
        """What is fetched from `site`."""
        return (self.archive,) if self.archive else self.files

    @property
    def by_hand(self) -> str:
        """The way out where there is no network."""
        names = ", ".join(file.name for file in self.downloads)
        return (
            f"or fetch {names} from {self.site} in another way into a folder DIR, then "
            f"gedi data get {self.name} --from DIR"
        )


def _published_files() -> dict[tuple[str, str], tuple[File, ...]]:
    """By set and part of it; ``-`` stands for a checksum that is not published."""
    table = Path(__file__).with_name("published_files.txt").read_text(encoding="utf-8")
    files: dict[tuple[str, str], tuple[File, ...]] = {}
    for line in table.splitlines()[1:]:
        name, part, file, size, *sums = line.split()
        md5, sha256 = (None if each == "-" else each for each in sums)
        files[name, part] = (*files.get((name, part), ()), File(file, int(size), md5, sha256))
    return files


_FILES = _published_files()


def _source(
    name: str,
    about: str,
    site: str,
    shape: tuple[int, int, int],
    counts: dict[str, int],
    classes: int = 10,
    folder: str = "",
) -> Source:
    """The set of this name in the table; `counts` are the numbers of images of its splits."""
    splits = {
        split: Split(_FILES[name, split], n, _FILES.get((name, f"{split}-labels"), ()))
        for split, n in counts.items()
    }
    archive = _FILES[name, "archive"][0] if folder else None
    return Source(name, about, site, shape, classes, splits, archive, folder)


_GREY, _COLOUR = (1, 28, 28), (3, 32, 32)
_MNIST = {"train": 60_000, "test": 10_000}
_CIFAR = {"train": 50_000, "test": 10_000}
_SVHN = {"train": 73_257, "test": 26_032}
_DIGITS_SITE = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_CLOTHING_SITE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_CIFAR_SITE = "https://www.cs.toronto.edu/~kriz/"
_SVHN_SITE = "http://ufldl.stanford.edu/housenumbers/"
_ALL = (
    _source("mnist", "handwritten digits", _DIGITS_SITE, _GREY, _MNIST),
    _source("fashion-mnist", "clothing", _CLOTHING_SITE, _GREY, _MNIST),
    _source("cifar10", "photographs", _CIFAR_SITE, _COLOUR, _CIFAR, 10, "cifar-10-batches-bin"),
    _source("cifar100", "photographs", _CIFAR_SITE, _COLOUR, _CIFAR, 100, "cifar-100-binary"),
    _source("svhn", "house numbers", _SVHN_SITE, _COLOUR, _SVHN),
    _source("svhn-extra", "more house numbers", _SVHN_SITE, _COLOUR, {"train": 531_131}),
)
SOURCES: dict[str, Source] = {source.name: source for source in _ALL}


def find(name: str) -> Source:
    """The set of this name, or one line that says which there are."""
    if name not in SOURCES:
        raise InputError(f"{name!r} is no known set{suggestion(name, SOURCES)}")
    return SOURCES[name]


def split_of(name: str) -> tuple[str, str] | None:
    """``mnist:test`` is the set mnist and its split test; None for what is not the name of a set.

    Without a colon it is the training split.
    """
    base, colon, split = name.partition(":")
    if base not in SOURCES:
        return None
    split = split if colon else "train"
    if split not in SOURCES[base].splits:
        raise InputError(
            f"{name}: {base} has no split {split!r}; write "
            + " or ".join(f"{base}:{each}" for each in SOURCES[base].splits)
        )
    return base, split


def split_for_testing(source: str | None) -> str | None:
    """The test images of the set whose training images `source` names."""
    name, split = (source and split_of(source)) or ("", "")
    return f"{name}:test" if split == "train" and "test" in SOURCES[name].splits else None
