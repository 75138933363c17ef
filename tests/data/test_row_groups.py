"""Large Parquet files of numbers: unpacked row group by row group, and the same as read whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gedilearn import GEDI
from gedilearn.data import row_groups, scratch
from gedilearn.data.load import load, load_table
from gedilearn.data.scratch import is_mapped
from gedilearn.errors import InputError
from helpers import run_command

SMALL = ("training.max_iter=20", "training.check_every=10", "weights.gen=0")


@pytest.fixture(autouse=True)
def low_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes are large; temporary files are in tmp_path/tmp."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(row_groups, "MAPPED_FROM", 1_000)
    monkeypatch.setattr(scratch, "MAPPED_FROM", 1_000)
    monkeypatch.setattr("gedilearn.data.arrays._CHUNK_VALUES", 200)


def frame(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    shift = 4 * rng.integers(2, size=n)
    return pd.DataFrame(
        {
            "a": rng.normal(size=n) + shift,
            "b.c": (rng.normal(size=n) + shift).astype(np.float32),
            "count": rng.integers(-(2**60), 2**60, size=n),
            "small": rng.integers(200, size=n).astype(np.uint8),
        }
    )


def write(data: pd.DataFrame, **options: Any) -> None:
    data.to_parquet("x.parquet", row_group_size=70, **options)
    assert pq.ParquetFile("x.parquet").metadata.num_row_groups > 3


def read_whole(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    with monkeypatch.context() as only:
        only.setattr(row_groups, "MAPPED_FROM", 10**9)
        return load("x.parquet", **options)


def left() -> list[Path]:
    return list(Path("tmp").rglob(".gedi.*"))


@pytest.mark.parametrize("index", [False, True])
def test_numbers_are_those_of_the_file_read_whole(
    monkeypatch: pytest.MonkeyPatch, index: bool
) -> None:
    data = frame()
    data.index = pd.Index(np.arange(300)[::-1], name="key") if index else data.index
    write(data)
    whole, found = read_whole(monkeypatch), load("x.parquet")
    assert is_mapped(found.x) and not is_mapped(whole.x)
    assert found.columns == whole.columns == ("a", "b.c", "count", "small")
    assert found.x.dtype == whole.x.dtype == np.float64
    np.testing.assert_array_equal(found.x, whole.x)
    table = load_table("x.parquet")
    assert table.names == whole.columns and is_mapped(table.matrix())
    np.testing.assert_array_equal(table["b.c"].values, whole.x[:, 1])
    np.testing.assert_array_equal(table.without("a").matrix(), whole.x[:, 1:])
    some = ["small", "a"]
    expected = read_whole(monkeypatch, columns=some).x
    np.testing.assert_array_equal(load("x.parquet", columns=some).x, expected)
    assert not left()


def test_some_columns_or_rows_of_such_a_table_are_those_asked_for() -> None:
    write(data := frame())
    table = load_table("x.parquet")
    assert is_mapped(table.matrix())
    for some, expected in (
        (table.select(["small", "a"], "x"), data[["small", "a"]]),
        (table.without("a"), data.drop(columns="a")),
        (table.take(np.array([5, 2])), data.iloc[[5, 2]]),
    ):
        assert np.array_equal(some.matrix(), expected.to_numpy(np.float64))


@pytest.mark.parametrize("kind", ["text", "missing", "nan", "labels", "boolean"])
def test_other_files_are_read_as_before(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    data, options = frame(), {}
    if kind == "missing":
        data["small"] = data["small"].astype("Int64").mask(data.index == 250)
    elif kind == "nan":
        data.loc[250, "a"] = np.nan
    elif kind == "labels":
        options = {"label_column": "small"}
    else:
        data["more"] = ["x" if kind == "text" else True] * len(data)
    write(data)
    if kind in ("labels", "boolean"):
        expected, found = read_whole(monkeypatch, **options), load("x.parquet", **options)
        assert not is_mapped(found.x)
        np.testing.assert_array_equal(found.x, expected.x)
    else:
        with pytest.raises(InputError, match=r"more|row 250"):
            load("x.parquet")
        assert len(load_table("x.parquet")) == 300
    assert not left()


def test_the_limit_on_what_is_read_holds_for_a_row_group_and_not_for_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(frame(3000))
    monkeypatch.setenv("GEDI_MAX_GB", "0.00008")
    with pytest.raises(InputError, match="more than the 80000 bytes"):
        read_whole(monkeypatch)
    assert load("x.parquet").x.shape == (3000, 4)
    frame(9000).to_parquet("x.parquet", row_group_size=9000)
    with pytest.raises(InputError, match=r"row group 0, unpacked: .*GEDI_MAX_GB"):
        load("x.parquet")


def test_a_file_that_unpacks_to_more_than_the_disk_has_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pq.write_table(pa.table({"a": np.zeros(600_000), "b": np.zeros(600_000)}), "x.parquet")
    assert Path("x.parquet").stat().st_size < 100_000
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, 16 * 600_000 - 1))
    with pytest.raises(InputError, match=r"600000 rows of 2 columns needs 0\.0 GB .*tmp") as told:
        load("x.parquet")
    assert "\n" not in str(told.value) and not left()
    monkeypatch.undo()


def test_a_damaged_file_is_told_in_one_line_and_leaves_nothing() -> None:
    write(frame())
    content = bytearray(Path("x.parquet").read_bytes())
    content[300:2000] = bytes(1700)
    Path("x.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.parquet") as told:
        load("x.parquet")
    assert "\n" not in str(told.value) and not left()


def test_a_fit_of_such_a_file_is_that_of_the_table_and_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(frame())
    options = ["-k", "2", "--seed", "1", "--quiet", *(p for s in SMALL for p in ("--set", s))]
    run_command("fit", "x.parquet", *options, "--out", "mapped")
    with monkeypatch.context() as only:
        only.setattr(row_groups, "MAPPED_FROM", 10**9)
        run_command("fit", "x.parquet", *options, "--out", "whole")
    assert Path("mapped/labels.csv").read_bytes() == Path("whole/labels.csv").read_bytes()
    names = [GEDI.load(f"{run}/model.safetensors").feature_names_in_ for run in ("mapped", "whole")]
    assert names[0].tolist() == names[1].tolist() == ["a", "b.c", "count", "small"]
    Path("mapped/labels.csv").unlink()
    Path("mapped/summary.json").unlink()
    run_command("resume", "mapped", "--quiet")
    kept = [json.loads(Path(f"{run}/summary.json").read_text()) for run in ("mapped", "whole")]
    assert kept[0]["gap"] == kept[1]["gap"]
    assert not left()


RANK = """
import os, sys
import numpy as np
from gedilearn.data import row_groups
from gedilearn.data.load import load
from gedilearn.ranks import n_ranks

row_groups.MAPPED_FROM = 1_000
read = []
both = row_groups.arrow

def arrow(path):
    pa, pq = both(path)
    class File(pq.ParquetFile):
        def iter_batches(self, *args, row_groups, **more):
            read.extend(row_groups)
            return super().iter_batches(*args, row_groups=row_groups, **more)
    return pa, type("pq", (), {"ParquetFile": File})

row_groups.arrow = arrow
assert n_ranks() == 1
rank = os.environ["RANK"]
for name in ("x", "gap", "x"):
    try:
        x = load(f"{name}.parquet", shared=True).x
    except ValueError as error:
        assert "row 250" in str(error), error
np.savez(f"found-{rank}.npz", x=x, read=read)
"""


def test_ranks_of_a_machine_read_different_row_groups_into_one_file(tmp_path: Path) -> None:
    data = frame()
    write(data)
    data.assign(a=data["a"].where(data.index != 250)).to_parquet("gap.parquet", row_group_size=70)
    Path("rank.py").write_text(RANK)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, *torchrun, "rank.py"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    first, second = (np.load(f"found-{rank}.npz") for rank in (0, 1))
    assert first["read"].tolist() == [0, 1, 0, 1, 0, 1]
    assert second["read"].tolist() == [2, 3, 4, 2, 3, 4, 2, 3, 4]
    for found in (first, second):
        np.testing.assert_array_equal(found["x"], frame().to_numpy(np.float64))
    assert not left()
