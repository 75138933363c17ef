"""The table of published sets, and how their names are read."""

from __future__ import annotations

import numpy as np
import pytest

from gedilearn.data.sources import SOURCES, find, split_of
from gedilearn.errors import InputError


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_published_file_has_a_size_and_checksums_of_the_right_length(source):
    for file in source.downloads:
        assert file.size > 1000
        assert len(bytes.fromhex(file.md5)) == 16 and len(bytes.fromhex(file.sha256)) == 32
    assert source.site.startswith("http") and source.site.endswith("/")
    assert all(file.name in source.by_hand for file in source.downloads)
    assert f"gedi data get {source.name} --from DIR" in source.by_hand
    per_image = int(np.prod(source.shape))
    if source.archive:
        for split in source.splits.values():
            labels = 2 if source.classes == 100 else 1
            assert sum(file.size for file in split.images) == split.count * (per_image + labels)


def test_no_two_files_share_a_checksum():
    files = [file for source in SOURCES.values() for file in (*source.downloads, *source.files)]
    sums = {file.md5 for file in files if file.md5}
    assert len(sums) == len({(file.name, file.md5) for file in files if file.md5})


def test_names_of_sets_may_have_a_split():
    assert split_of("mnist") == ("mnist", "train")
    assert split_of("fashion-mnist:test") == ("fashion-mnist", "test")
    assert split_of("moons") is None and split_of("x:test") is None
    with pytest.raises(InputError, match="mnist:train or mnist:test"):
        split_of("mnist:valid")
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        find("cifra10")
