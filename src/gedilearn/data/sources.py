"""The image sets that can be fetched by name: their files, sizes, checksums and official sites.

Imports nothing heavy, so that help pages can name the sets.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from gedilearn.errors import InputError

Layout = Literal["cifar10", "cifar100", "idx", "svhn"]
SPLITS = ("train", "test")


@dataclass(frozen=True)
class File:
    """One file as its authors publish it. Checksums are of the whole file, in hex."""

    name: str
    size: int
    md5: str | None = None
    sha256: str | None = None


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


def _idx(
    prefix: str, count: int, images: tuple[int, str, str], labels: tuple[int, str, str]
) -> Split:
    """Images and labels are given as size, md5 and sha256."""
    return Split(
        (File(f"{prefix}-images-idx3-ubyte.gz", *images),),
        count,
        File(f"{prefix}-labels-idx1-ubyte.gz", *labels),
    )


def _bin(name: str, md5: str) -> File:
    return File(name, 10_000 * 3073, md5)


_ALL = (
    Source(
        name="mnist",
        about="handwritten digits",
        site="https://ossci-datasets.s3.amazonaws.com/mnist/",
        layout="idx",
        shape=(1, 28, 28),
        classes=10,
        splits={
            "train": _idx(
                "train",
                60_000,
                (
                    9_912_422,
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                (
                    28_881,
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
            ),
            "test": _idx(
                "t10k",
                10_000,
                (
                    1_648_877,
                    "9fb629c4189551a2d022fa330f9573f3",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                (
                    4_542,
                    "ec29112dd5afa0611ce80d1b7f02629c",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
        },
    ),
    Source(
        name="fashion-mnist",
        about="clothing",
        site="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        layout="idx",
        shape=(1, 28, 28),
        classes=10,
        splits={
            "train": _idx(
                "train",
                60_000,
                (
                    26_421_880,
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                (
                    29_515,
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
            ),
            "test": _idx(
                "t10k",
                10_000,
                (
                    4_422_102,
                    "bef4ecab320f06d8554ea6380940ec79",
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                (
                    5_148,
                    "bb300cfdad3c16e7a12a480ee83cd310",
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            ),
        },
    ),
    Source(
        name="cifar10",
        about="photographs",
        site="https://www.cs.toronto.edu/~kriz/",
        layout="cifar10",
        shape=(3, 32, 32),
        classes=10,
        splits={
            "train": Split(
                (
                    _bin("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25"),
                    _bin("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692"),
                    _bin("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421"),
                    _bin("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb"),
                    _bin("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d"),
                ),
                50_000,
            ),
            "test": Split((_bin("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d"),), 10_000),
        },
        archive=File(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c32a1d4ab5d03f1284b67883e8d87530",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
        folder="cifar-10-batches-bin",
    ),
    Source(
        name="cifar100",
        about="photographs",
        site="https://www.cs.toronto.edu/~kriz/",
        layout="cifar100",
        shape=(3, 32, 32),
        classes=100,
        splits={
            "train": Split((File("train.bin", 50_000 * 3074),), 50_000),
            "test": Split((File("test.bin", 10_000 * 3074),), 10_000),
        },
        archive=File(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "03b5dce01913d631647c71ecec9e9cb8",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
        folder="cifar-100-binary",
    ),
    Source(
        name="svhn",
        about="house numbers",
        site="http://ufldl.stanford.edu/housenumbers/",
        layout="svhn",
        shape=(3, 32, 32),
        classes=10,
        splits={
            "train": Split(
                (
                    File(
                        "train_32x32.mat",
                        182_040_794,
                        "e26dedcc434d2e4c54c9b2d4a06d8373",
                        "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                    ),
                ),
                73_257,
            ),
            "test": Split(
                (
                    File(
                        "test_32x32.mat",
                        64_275_384,
                        "eb5a983be6a315427106f1b164d9cef3",
                        "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                    ),
                ),
                26_032,
            ),
        },
    ),
    Source(
        name="svhn-extra",
        about="more house numbers",
        site="http://ufldl.stanford.edu/housenumbers/",
        layout="svhn",
        shape=(3, 32, 32),
        classes=10,
        splits={
            "train": Split(
                (
                    File(
                        "extra_32x32.mat",
                        1_329_278_602,
                        "a93ce644f1a588dc4d68dda5feec44a7",
                        "a133a4beb38a00fcdda90c9489e0c04f900b660ce8a316a5e854838379a71eb3",
                    ),
                ),
                531_131,
            )
        },
    ),
)
SOURCES: dict[str, Source] = {source.name: source for source in _ALL}


def find(name: str) -> Source:
    """The set of this name, or one line that says which there are."""
    if name in SOURCES:
        return SOURCES[name]
    near = difflib.get_close_matches(name, SOURCES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"{name!r} is no known set: {hint}known are {', '.join(SOURCES)}")


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
