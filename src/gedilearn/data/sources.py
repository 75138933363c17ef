"""The image sets that can be fetched by name: their files, sizes and official sites.

Sizes and checksums of the files are in `published_files.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gedilearn.data.fetch import File
from gedilearn.errors import InputError, suggestion

Layout = Literal["cifar10", "cifar100", "idx", "svhn"]
SPLITS = ("train", "test")


@dataclass(frozen=True)
class Split:
    """One part of a set.

    images: the files that hold it, in order; for idx the images, with the labels in `labels`
    count: how many images these hold together
    """

    images: tuple[File, ...]
    count: int
    labels: File | None = None


@dataclass(frozen=True)
class Source:
    """One set.

    archive: the .tar.gz that holds the files in `folder`; without it, files are fetched one by one
    shape: (channels, height, width)
    """

    name: str
    about: str
    site: str
    layout: Layout
    shape: tuple[int, int, int]
    classes: int
    splits: dict[str, Split]
    archive: File | None = None
    folder: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        """Every file that is read, without the archive around them."""
        parts = self.splits.values()
        return tuple(f for s in parts for f in (*s.images, *([s.labels] if s.labels else [])))

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


def _published_files() -> dict[tuple[str, str], File]:
    """By the names of set and file; ``-`` stands for a checksum that is not published."""
    table = Path(__file__).with_name("published_files.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in table.splitlines() if not line.startswith("#")]
    return {
        (name, file): File(file, int(size), *(None if sum == "-" else sum for sum in sums))
        for name, file, size, *sums in rows
    }


_FILES = _published_files()


def _mnist_like(name: str, about: str, site: str) -> Source:
    def split(prefix: str, count: int) -> Split:
        images = _FILES[name, f"{prefix}-images-idx3-ubyte.gz"]
        return Split((images,), count, _FILES[name, f"{prefix}-labels-idx1-ubyte.gz"])

    splits = {"train": split("train", 60_000), "test": split("t10k", 10_000)}
    return Source(name, about, site, "idx", (1, 28, 28), 10, splits)


def _cifar(layout: Layout, archive: str, folder: str, train: Sequence[str], test: str) -> Source:
    return Source(
        name=layout,
        about="photographs",
        site="https://www.cs.toronto.edu/~kriz/",
        layout=layout,
        shape=(3, 32, 32),
        classes=int(layout.removeprefix("cifar")),
        splits={
            "train": Split(tuple(_FILES[layout, file] for file in train), 50_000),
            "test": Split((_FILES[layout, test],), 10_000),
        },
        archive=_FILES[layout, archive],
        folder=folder,
    )


def _svhn(name: str, about: str, splits: Mapping[str, tuple[str, int]]) -> Source:
    """Each split is one file and the number of its images."""
    return Source(
        name=name,
        about=about,
        site="http://ufldl.stanford.edu/housenumbers/",
        layout="svhn",
        shape=(3, 32, 32),
        classes=10,
        splits={key: Split((_FILES[name, file],), n) for key, (file, n) in splits.items()},
    )


_ALL = (
    _mnist_like("mnist", "handwritten digits", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
    _mnist_like(
        "fashion-mnist",
        "clothing",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    _cifar(
        "cifar10",
        "cifar-10-binary.tar.gz",
        "cifar-10-batches-bin",
        [f"data_batch_{i}.bin" for i in range(1, 6)],
        "test_batch.bin",
    ),
    _cifar("cifar100", "cifar-100-binary.tar.gz", "cifar-100-binary", ["train.bin"], "test.bin"),
    _svhn(
        "svhn",
        "house numbers",
        {"train": ("train_32x32.mat", 73_257), "test": ("test_32x32.mat", 26_032)},
    ),
    _svhn("svhn-extra", "more house numbers", {"train": ("extra_32x32.mat", 531_131)}),
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
