"""Hostile input: one line with the place and the way out, exit code 2, no file lost or left behind.

One row a case. The fuzzer (`tests/fuzz`) plays what nobody thought of.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import struct
import zipfile
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

from gedilearn import GEDI, GEDIOutlierDetector, io, progress
from gedilearn.cli import app
from gedilearn.data.load import load
from gedilearn.errors import InputError, closest, suggestion
from gedilearn.training import journal
from gedilearn.training.result import Result
from gedilearn.training.run import RunDirectory
from helpers import gedi, run_command

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + np.repeat([[-3.0], [3.0]], 20, axis=0)
TINY: dict[str, Any] = {
    "training.max_iter": 20,
    "training.check_every": 5,
    "training.tol": 0.0,
    "network.hidden": [6],
    "density.base": "none",
    "density.iterations": 10,
    "optimizer.batch_size": 16,
    "sampler.buffer": 32,
    "sampler.chains": 8,
}
SHORT = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


def contents(folder: Path) -> dict[str, bytes | int]:
    """Every file with its bytes, everything else with its mode; the lock holds nothing."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else path.lstat().st_mode
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }


def refused(call: Callable[..., object], *arguments: Any) -> str:
    """The one line that a call raises; all files are as they were."""
    before = contents(Path.cwd())
    with pytest.raises(InputError) as caught:
        call(*arguments)
    assert contents(Path.cwd()) == before
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000
    return str(caught.value)


def refusal(*arguments: object) -> str:
    """The one line of a command that exits with 2; all files are as they were."""
    before = contents(Path.cwd())
    result = run_command(*arguments, code=2)
    assert contents(Path.cwd()) == before
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)
    assert result.stderr.startswith("error: ")
    return str(result.stderr.removeprefix("error: ").rstrip("\n"))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own. No phase is reported before the error on a slow machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "SHORTEST", 60.0)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    np.save(folder / "x.npy", X)
    run_command("fit", folder / "x.npy", "-k", 2, *SHORT, "--out", folder / "run", "--quiet")
    return folder


@pytest.fixture
def run(finished: Path, here: Path) -> Path:
    """A copy of a finished run beside its data x.npy."""
    shutil.copytree(finished, here, dirs_exist_ok=True)
    return Path("run")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that Ctrl-C ended at its third check."""
    run, add_metrics, rows = tmp_path_factory.mktemp("run"), RunDirectory.add_metrics, []

    def add(self: RunDirectory, row: dict[str, Any]) -> None:
        add_metrics(self, row)
        rows.append(row)
        if len(rows) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunDirectory, "add_metrics", add)
        gedi(2, n_init=2, run_dir=run, random_state=0, device="cpu", **TINY).fit(X)
    return run


@pytest.fixture
def begun(interrupted: Path) -> Path:
    """A copy of an interrupted run."""
    return Path(shutil.copytree(interrupted, "begun"))


# --- arrays and tables --------------------------------------------------------------------------

BROKEN = X.copy()
BROKEN[7, 1] = BROKEN[11, 0] = np.nan
TEXT = np.array([["a", "b"], ["c", "d"]])
ARRAYS = [
    (BROKEN, 2, "2 NaN or infinite values in rows 7, 11"),
    (np.where(np.isnan(BROKEN), -np.inf, X), 2, "2 NaN or infinite values in rows 7, 11"),
    *((np.zeros(shape), 2, str(shape)) for shape in ((80,), (20, 2, 2), (2, 1, 2, 2, 2), (0, 3))),
    (TEXT, 2, "not numbers"),
    (X + 1j, 2, "complex"),
    (X[:4], 5, "--clusters 5 for 4 points"),
    (X[:1], 2, "1 sample"),
    (np.repeat(X[:1], 30, axis=0), 3, "only 1 distinct point"),
    (np.repeat(X[:2], 30, axis=0), 3, "only 2 distinct points"),
]


@pytest.mark.parametrize(("x", "clusters", "words"), ARRAYS)
def test_an_array_that_cannot_be_clustered_is_refused_in_programs_and_commands(x, clusters, words):
    np.save("x.npy", x)
    assert words in refusal("fit", "x.npy", "-k", clusters)
    with pytest.raises((ValueError, TypeError), match=r"."):
        GEDI(clusters).fit(x)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a,b\n1,2\n3,4\n5,inf\n", (), "'b'"),
        ("name,colour\nann,red\nbob,red\n", (), "colour"),
        ("a,b\n1,2\n3,4,5\n6,7\n", (), "x.csv"),
        ("a,b,kind\n1,2,0\n3,4,1\n", ("--label-column", "kinds"), "did you mean 'kind'?"),
        ("", (), "x.csv"),
    ],
)
def test_a_table_that_cannot_be_clustered_is_refused(text, options, words):
    Path("x.csv").write_text(text)
    assert words in refusal("fit", "x.csv", "-k", 2, *options)


def test_other_columns_than_those_of_the_fit_are_refused(run):
    np.save("y.npy", X[:, :2])
    assert "2 features" in refusal("predict", run, "y.npy")
    with pytest.raises(ValueError, match="2 features"):
        GEDI.load(run / "model.safetensors").predict(X[:, :2])


@pytest.fixture(scope="module")
def with_density() -> GEDI:
    return gedi(2, **TINY | {"density.base": "mixture"}).fit(X)


OUTLIERS = ["outlier_score", "outlier_pvalue", "outliers", "outlier_reasons"]


@pytest.mark.parametrize("call", [*OUTLIERS, "detector"])
@pytest.mark.parametrize(
    ("x", "words"),
    [
        (X[:0], "0 sample"),
        (X[0], "Expected 2D array"),
        (X[:, :2], "2 features"),
        (np.where(np.arange(3) == 1, np.nan, X[:5]), "5 NaN or infinite values in rows 0, 1"),
        (X * 1e200, "check its units"),
    ],
    ids=["empty", "one dimension", "columns", "NaN", "huge"],
)
def test_rows_that_cannot_be_scored_are_refused(call, x, words, with_density):
    found = GEDIOutlierDetector(random_state=0).fit(X)
    assert words in refused(found.predict if call == "detector" else getattr(with_density, call), x)


@pytest.mark.parametrize("call", OUTLIERS)
def test_outliers_need_a_fit_with_a_density_and_one_row(call, with_density):
    assert "density" in refused(getattr(gedi(2, **TINY).fit(X), call), X)
    assert len(getattr(with_density, call)(X[:1])) == 1
    for model in (GEDI(), GEDIOutlierDetector()):
        with pytest.raises(NotFittedError):
            getattr(model, call if isinstance(model, GEDI) else "predict")(X)


def test_levels_and_numbers_of_reasons_that_are_none_are_refused(with_density):
    for level in (0, 1, -0.5, np.nan, True, "0.05", None, [0.05], np.full(2, 0.05)):
        assert "give a number between 0 and 1" in refused(with_density.outliers, X, level)
    for most in (0, -1, 1.5, True, "2", None):
        assert "give a whole number" in refused(with_density.outlier_reasons, X, most)


@pytest.mark.parametrize("scale", [1e15, 1e30, 1e37])
def test_rows_as_far_as_numbers_go_are_outliers(scale, with_density):
    for x in (X[:4] * scale, -X[:4] * scale):
        assert np.isfinite(with_density.outlier_score(x)).all()
        assert with_density.outliers(x).all()
        assert (GEDIOutlierDetector(random_state=0).fit(X).predict(x) == -1).all()


# --- files --------------------------------------------------------------------------------------


def npy_head(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def packed(**arrays: bytes) -> None:
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.parquet"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_not_read(name, kind):
    os.mkfifo(name) if kind == "pipe" else Path(name).symlink_to("/dev/zero")
    words = f"{name}: not a regular file; copy its content into one"
    assert refused(load, name) == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "y.npy", "-k", 2), "did you mean x.npy?"),
        (("fit", "x.doc", "-k", 2), "x.doc"),
        (("fit", "run", "-k", 2), "without images"),
        (("predict", "run", "nothing.csv"), "no such file"),
        (("predict", "empty", "x.npy"), "no config.yaml"),
        (("resume", "empty"), "no config.yaml"),
        (("resume", "missing"), "missing"),
        (("sample", "missing"), "missing"),
        (("sample", "x.npy"), "safetensors"),
        (("sample", "run/preview.safetensors"), "not a model of gedi-learn"),
        (("sample", "model"), "model: not a regular file"),
        (("sample", "run", "-n", 10**12), "choose smaller n_samples"),
        (("predict", "run", "x.npy", "--out", "a.csv"), "exists already"),
        (("sample", "run", "--out", "a.csv"), "exists already"),
        (("fit", "x.npy", "-k", 2, "--out", "run"), "exists already"),
        (("fit", "x.npy", "-k", 2, "--out", "a.csv"), "exists already"),
        (("predict", "run", "x.npy", "--out", "a.txt"), "unknown ending '.txt'"),
        (("sample", "run", "--out", "nowhere/a.csv"), "no folder nowhere"),
        (("fit", "moons", "-k", 2, "--preset", "papertoy"), "did you mean 'paper/toy'?"),
    ],
)
def test_names_that_lead_to_nothing_or_to_something_else_are_refused(run, arguments, words):
    Path("a.csv").write_text("precious")
    Path("x.doc").write_bytes(b"PK")
    Path("empty").mkdir()
    os.mkfifo("model")
    assert words in refusal(*arguments)


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("x.npz", lambda: packed(x=npy_head((150_000, 10)) + bytes(12 * 10**6)), "GEDI_MAX_GB=1"),
        ("x.npz", lambda: packed(x=npy_head((10**12, 2)) + bytes(64)), "x.npz"),
        ("x.npz", lambda: packed(x=b"text"), "x.npz"),
        (
            "x.npz",
            lambda: packed(x=npy_head((1, 1)) + bytes(8), y=npy_head((600_000,)) + bytes(4800000)),
            "x.npz[y]",
        ),
        (
            "x.npy",
            lambda: Path("x.npy").write_bytes(npy_head((-1, 2)) + bytes(64)),
            "negative dimensions",
        ),
        (
            "x.npy",
            lambda: np.save("x.npy", np.zeros((1000, 600, 1))),
            "x.npy: 0.0048 GB, more than",
        ),
        ("x.npy", lambda: np.save("x.npy", np.zeros((3000, 1000), np.uint8)), "uint8 (3000, 1000)"),
        (
            "x.parquet",
            lambda: pd.DataFrame({"a": np.zeros(600_000, np.int8)}).to_parquet("x.parquet"),
            "x.parquet: 600000 rows",
        ),
    ],
)
def test_data_beyond_the_limit_is_refused_before_it_is_unpacked(name, make, words, monkeypatch):
    monkeypatch.setenv("GEDI_MAX_GB", "0.004")
    make()
    assert words in refused(load, name)


def test_a_large_npy_is_mapped_and_not_limited(monkeypatch):
    monkeypatch.setattr("gedilearn.data.dataset.MAPPED_FROM", 10**6)
    monkeypatch.setenv("GEDI_MAX_GB", "0.004")
    x = np.arange(2_000_000, dtype=np.float32).reshape(-1, 4)
    np.save("x.npy", x)
    np.testing.assert_array_equal(load("x.npy").x, x)
    np.save("x.npy", x.astype(">f4"))  # must be read, to be turned into native numbers
    assert "x.npy: 0.008 GB, more than the 0.004 GB" in refused(load, "x.npy")


def test_a_folder_of_images_beyond_the_limit_or_with_links_to_nowhere_is_refused(
    monkeypatch,
):
    monkeypatch.setenv("GEDI_MAX_GB", "0.004")
    for k in range(8):
        Image.new("RGB", (500, 400)).save(f"{k}.png")
    assert "the first 7 of 8 images: 0.0042 GB" in refused(load, Path.cwd())
    Path("0a.png").symlink_to("nowhere.png")
    assert "0a.png" in refused(load, Path.cwd())
    with pytest.warns(UserWarning, match=r"left out 1 of 9 images .* 0a.png"):
        assert load(Path.cwd(), size=(8, 8), broken="skip").x.shape == (8, 3, 8, 8)


@pytest.mark.parametrize("text", ["much", "0", "-1", "nan"])
def test_a_limit_that_is_no_number_is_refused(text, monkeypatch):
    monkeypatch.setenv("GEDI_MAX_GB", text)
    assert refused(io.most_bytes).startswith(f"GEDI_MAX_GB={text}: give a number")


# --- text and tensors that are read -------------------------------------------------------------

READERS = (io.read_bytes, io.read_json, io.read_yaml, io.read_tensors, io.read_json_lines)
ALIASES = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 10)]


@pytest.mark.parametrize("read", READERS)
def test_only_regular_files_of_a_bounded_size_are_read(read):
    os.mkfifo("pipe")
    assert "pipe: not a regular file" in refused(read, Path("pipe"))
    Path("file").touch()
    os.truncate("file", 3 * 10**9)
    with pytest.raises(InputError, match=r"file: 3 GB, more than .* GEDI_MAX_GB=[0-9]+$"):
        read(Path("file"))


@pytest.mark.parametrize(
    ("read", "content", "words"),
    [
        (io.read_yaml, "\n".join(["a0: &a0 [x]", *ALIASES]), "alias"),
        (io.read_yaml, "{a: " * 400, "recursion"),
        (io.read_yaml, "!!python/name:os.system ''", "python/name"),
        (io.read_yaml, "!!int ''", "is damaged"),
        (io.read_json, "[" * 9_000, "recursion"),
        (io.read_json, "\udcff", "decode byte"),
    ],
)
def test_text_that_stands_for_more_than_it_says_is_refused(read, content, words):
    Path("file").write_text(content, errors="surrogateescape")
    assert words in refused(read, Path("file"))


def test_whole_lines_are_kept_around_cut_or_damaged_ones():
    assert io.read_json_lines(Path("rows")) == []
    lines = [b'{"a": 1}', b'{"a": \xff}', b"5", b"", b"[" * 100_000, b'{"a": 2}', b'{"a": 3, "b']
    Path("rows").write_bytes(b"\n".join(lines))
    assert io.read_json_lines(Path("rows")) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "error", [MemoryError(), PermissionError(), AssertionError(), IndexError()]
)
def test_an_error_while_reading_is_one_line_that_names_the_file(error):
    def read() -> None:
        with io.reading("run/file", "fit anew"):
            raise error

    assert refused(read).startswith("run/file")


TENSOR = '{"a": {"dtype": "F32", "shape": %s, "data_offsets": %s}}'


@pytest.mark.parametrize(
    "header",
    [
        *("[]", "null", "{", '{"a": 5}', TENSOR % ('["x"]', "[0, 0]"), TENSOR % ("[2]", "[0]")),
        *(TENSOR % ("[1000000000]", "[0, 4000000000]"), '{"__metadata__": {"a": 5}}'),
    ],
)
def test_a_header_of_tensors_that_cannot_be_is_damage(header):
    Path("t").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    assert "is damaged" in refused(io.read_tensors, Path("t"))


def test_tensors_and_metadata_are_read_back_and_a_cut_file_is_damage():
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(3, dtype=torch.bfloat16)}
    path = Path(os.fsdecode(b"\xff"))  # a name that is not UTF-8
    io.write_tensors(path, tensors, {"key": "value"})
    read, metadata = io.read_tensors(path)
    assert metadata == {"key": "value"} and read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    path.write_bytes(path.read_bytes()[:-1])
    assert "is damaged" in refused(io.read_tensors, path)


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("training.maxiter=3", "did you mean 'training.max_iter'?"),
        ("seed=3", "did you mean 'training.seed'?"),
        ("sampler=3", "unknown setting 'sampler'"),
        ("training.max_iter", "write it as name=value"),
        ("training.max_iter=many", "training.max_iter='many'"),
        ("training.max_iter=0", "training.max_iter=0"),
        ("training.max_iter=[1", "not valid YAML"),
        ("n_clusters=3", "--clusters"),
        ("sampler.buffer=10", "smaller than sampler.chains"),
        ("prior=[0.5, 0.6]", "sum to 1"),
        ("prior=[.nan,0.5]", "prior=[nan, 0.5]"),
        ("device.accelerator=abacus", "device.accelerator='abacus'"),
        ("device.devices=1000", "device.devices=1000: at most"),
        ("sampler.restart=1.5", "should be less than or equal to 1"),
        ("network.hidden=[]", "give at least one hidden layer"),
        ("network.hidden=[300000,300000]", "training would need 2,880.4 GB"),
        ("network.features=1000000000000", "should be less"),
        ("training.n_init=1000000", "choose smaller network.hidden"),
        ("weights.inv=[1,2,3]", "give a number, or (progress, value)"),
        ("weights.inv=[[0.5,1],[0.2,1]]", "progress from 0 to 1"),
        ("weights.inv=.nan", "values must be from 0"),
        ("training.tol=.nan", "should be a finite number"),
    ],
)
def test_wrong_settings_are_refused(assignment, words):
    assert words in refusal("fit", "moons", "-k", 2, "--set", assignment, "--out", "run")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ft"], "Did you mean 'fit'"),
        (["fit", "moons", "-k", "1"], "--clusters"),
        (["fit", "moons", "-k", "two"], "--clusters"),
        (["fit", "moons", "-k", "2", "--seed", str(2**70)], "seed"),
        (["fit", "moons", "-k", "2", "--set", "device.accelerator=abacus"], "cuda"),
        (["predict", "r"], "run directory"),
    ],
)
def test_a_command_line_that_is_not_understood_is_refused(arguments, words):
    result = run_command(*arguments, code=2)
    assert words in result.stderr and result.stdout == "" and not os.listdir()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has such a device")
def test_a_device_that_is_not_there_is_refused():
    assert "device.accelerator='cuda'" in refusal(
        "fit", "moons", "-k", 2, "--set", "device.accelerator=cuda"
    )


def test_the_hint_names_the_nearest_or_else_all():
    assert (closest("moon", ["circles", "moons"]), closest("moon", [])) == ("moons", None)
    assert suggestion("moon", iter(["circles", "moons"])) == " (did you mean 'moons'?)"
    assert suggestion("xyz", iter(["circles", "moons"])) == " (known: circles, moons)"


def test_an_unexpected_error_is_not_reported_as_bad_input(run, monkeypatch):
    monkeypatch.setattr(GEDI, "load", lambda *_: 1 / 0)
    result = CliRunner().invoke(app, ["predict", "run", "x.npy"])
    assert (result.exit_code, type(result.exception)) == (1, ZeroDivisionError)


# --- runs: config, checkpoint, model ------------------------------------------------------------


def entry(tree: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        tree = tree[name]
    return tree


GONE = object()


def change(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    owner = entry(tree, path[:-1])
    if value is GONE:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value(owner[path[-1]]) if callable(value) else value


def put(*path: Any, value: Any) -> tuple[tuple[Any, ...], Any]:
    return path, value


def with_config(run: Path, path: tuple[str, ...], value: Any) -> Path:
    config = yaml.safe_load((run / "config.yaml").read_text())
    change(config, path, value)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    return run


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((path, value)
          for path in (("settings",), ("data",), ("format",), ("data", "shape"),
                       ("settings", "n_clusters"), ("settings", "network"))
          for value in (None, [1, "a"], "text", -3)),
        *(((name,), GONE) for name in ("data", "version", "objects")),
        put("settings", "n_clusters", value=5),
        put("settings", "network", "hidden", value=[7]),
        put("settings", "network", "hidden", value=[10**12, 10**12]),
        put("settings", "training", "n_init", value=3),
    ],
)  # fmt: skip
def test_a_config_that_the_checkpoint_cannot_have_is_refused(begun, path, value):
    message = refused(GEDI.resume, with_config(begun, path, value), X)
    assert "is damaged (" in message or "format" in message


@pytest.mark.parametrize(
    "text", ["", "{", "settings: 3", "- 1\n", "\n".join(["a0: &a0 [x]", *ALIASES])]
)
def test_a_damaged_config_is_refused_by_every_command_that_reads_it(run, text):
    (run / "config.yaml").write_text(text)
    for command in (["predict", run, "x.npy"], ["resume", run], ["report", run]):
        assert "config.yaml is damaged" in refusal(*command)


@pytest.mark.parametrize("ending", ["shared.safetensors", "rank-0.safetensors"])
def test_a_checkpoint_with_one_other_byte_is_refused(begun, ending):
    (file,) = begun.glob(f"checkpoint/step-*/{ending}")
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    assert refused(GEDI.resume, begun, X).startswith(f"{file} is damaged (its checksum")


@pytest.mark.parametrize("name", ["shared.safetensors", "rank-0.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"[" * 100_000, b'{"value": {}}', "pipe"])
def test_other_content_in_a_checkpoint_is_refused(begun, name, content):
    (file,) = begun.glob(f"checkpoint/step-*/{name}")
    file.unlink()
    if content == "pipe":
        os.mkfifo(file)
    elif content is not None:
        file.write_bytes(content)
    assert name in refused(GEDI.resume, begun, X)


@pytest.mark.parametrize("name", ["/etc", "..", "", "step-1/..", "step-1\n", None, ["x"]])
def test_a_pointer_names_a_checkpoint_beside_it_and_nothing_else(begun, name):
    pointer = begun / "checkpoint/latest.json"
    version = json.loads(pointer.read_text())["format"]
    pointer.write_text(json.dumps({"format": version, "folder": name}))
    assert refused(GEDI.resume, begun, X).startswith(f"{pointer} is damaged")
    pointer.write_text(json.dumps({"format": 99, "folder": name}))
    assert "format 99" in refused(GEDI.resume, begun, X)


def test_damaged_lines_of_a_log_are_dropped_alone(begun):
    lines = (begun / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b":", b"\xff", 1)
    (begun / "metrics.jsonl").write_bytes(b"".join([*lines, b'{"iteration": 99}\n', b'{"itera']))
    (begun / "events.jsonl").write_bytes(b'\x00\n{"iteration": "x"}\n[]\n{"kind": "a"}\n')
    assert GEDI.resume(begun, X).n_iter_ == 30
    rows = [json.loads(line) for line in (begun / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [5, 15, 20, 25, 30]
    assert json.loads((begun / "events.jsonl").read_text().splitlines()[0]) == {"kind": "a"}


def described(path: Path) -> dict[str, Any]:
    with safe_open(path, "pt") as file:
        return dict(json.loads(file.metadata()["gedi-learn"]))


def filled(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: torch.full_like(tensor, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("model.encoder.layers.weights.0", filled(value)) for value in (np.nan, np.inf)),
        *((name, GONE) for name in ("labels", "box.low", "model.encoder.layers.weights.0")),
        ("prior", filled(np.nan)),
        ("prior", torch.zeros(3).double()),
        ("model.encoder.layers.weights.0", torch.zeros(1, 3, 7)),
        ("model.more", torch.zeros(2)),
        *((name, torch.Tensor.long) for name in ("model.encoder.layers.weights.0", "prior")),
        *(("box.high", value) for value in (torch.zeros(2), torch.Tensor.double)),
        *((name, GONE) for name in ("prior", "box.high")),
        *(("labels", torch.full((40,), value)) for value in (2, -1)),
        *(("labels", value) for value in (torch.zeros(40, 2).long(), torch.zeros(40))),
        *(("box.low", value) for value in (torch.zeros(4), torch.full((3,), 1e9), torch.zeros(()))),
    ],
)
def test_a_model_with_other_tensors_is_refused(run, name, value):
    model = run / "model.safetensors"
    tensors, header = load_file(model), described(model)
    change(tensors, (name,), value)
    save_file(tensors, model, {"gedi-learn": json.dumps(header)})
    assert refused(GEDI.load, model).startswith(str(model))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(((name,), value)
          for name in ("settings", "objects", "scaling", "feature_names_in", "summary", "format")
          for value in (None, [1, "a"], -3, {"a": 1})),
        *((("summary", name), value)
          for name, value in (("diagnosis", {}), ("verdict", 5), ("stopped", "maybe"),
                              ("seconds", "soon"), ("recoveries", -1), ("cluster_sizes", None))),
        *((("settings", "network", "hidden"), value)
          for value in ([30_000, 30_000], [7], [], [10**12, 10**12], ["x"], None)),
        *(put("scaling", value=json.dumps({"offset": offset, "scale": [1.0] * len(offset)}))
          for offset in ([0.0], [0.0, 0.0, float("nan")], [0, 0, 0, 0])),
    ],
)  # fmt: skip
def test_a_header_of_another_model_is_refused_before_a_network_is_built(
    run, path, value, monkeypatch
):
    if path[-1] == "hidden":
        monkeypatch.setattr(Result, "read", lambda *_: pytest.fail("built"))
    model = run / "model.safetensors"
    header, tensors = described(model), load_file(model)
    change(header, path, value)
    save_file(tensors, model, {"gedi-learn": json.dumps(header)})
    assert refused(GEDI.load, model).startswith(str(model))


@pytest.mark.parametrize("keep", [0, 4, 500, 4_000])
def test_a_cut_model_is_refused(run, keep):
    model = run / "model.safetensors"
    model.write_bytes(model.read_bytes()[:keep])
    assert "model.safetensors is damaged" in refusal("predict", run, "x.npy")


def test_a_density_of_columns_that_are_not_there_is_refused():
    short = {"training.max_iter": 2, "density.iterations": 2, "network.hidden": (4,)}
    GEDI(2, random_state=0, settings=short).fit(X).save("model")
    header, tensors = described(Path("model")), load_file("model")
    for column in (-1, 3, 2**62):
        tensors["density.coordinates.used"] = torch.tensor([0, 1, column])
        save_file(tensors, "model", {"gedi-learn": json.dumps(header)})
        assert refused(GEDI.load, "model").startswith("model is damaged (")


def test_a_run_with_only_a_config_is_not_finished_and_can_be_resumed(run):
    for path in run.iterdir():
        if path.name != "config.yaml":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for command in (["predict", run, "x.npy"], ["sample", run]):
        assert refusal(*command) == "run is not finished: gedi resume run"
    run_command("resume", run, "--data", "x.npy", "--quiet")
    assert (run / "labels.csv").exists()


# --- writing ------------------------------------------------------------------------------------


@contextmanager
def file_size_limit(size: int):
    """Writing beyond `size` bytes fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["a.csv", "a.npy"])
def test_an_output_that_does_not_fit_on_the_disk_leaves_nothing(run, name):
    with file_size_limit(100):
        assert refusal("predict", run, "x.npy", "--out", name) == f"{name}: file too large"


def test_a_disk_that_fills_up_leaves_the_last_checkpoint_and_the_run_goes_on(finished, monkeypatch):
    shutil.copy(finished / "x.npy", "x.npy")
    add_metrics, rows = RunDirectory.add_metrics, []
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up(self: RunDirectory, row: dict[str, Any]) -> None:
        add_metrics(self, row)
        rows.append(row)
        if len(rows) == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))

    monkeypatch.setattr(RunDirectory, "add_metrics", fill_up)
    arguments = ["fit", "x.npy", "-k", 2, *SHORT, "--set", "training.checkpoint_every=0"]
    try:
        result = run_command(*arguments, "--out", "r", code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)
    _, (shared,) = journal.load_checkpoint(Path("r/checkpoint"), journal.SHARED)
    assert shared["iteration"] == 10
    run_command("resume", "r", "--quiet")
    assert Path("r/labels.csv").read_text() == (finished / "run/labels.csv").read_text()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(monkeypatch):
    path = Path("a.json")
    io.write_text(path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    for write, content in ((io.write_text, "new"), (io.write_tensors, {"x": torch.zeros(3)})):
        with pytest.raises(OSError, match=r"No space.*a\.json"):
            write(path, content)
    assert (path.read_text(), os.listdir()) == ("old", ["a.json"])


@pytest.mark.parametrize("turn", ["os.fsync", "os.replace"])
def test_a_process_killed_in_the_middle_of_a_write_leaves_the_old_file_readable(turn, monkeypatch):
    path = Path("a.safetensors")
    io.write_tensors(path, {"x": torch.zeros(3)})
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(turn, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        with suppress(BaseException):
            io.write_tensors(path, {"x": torch.ones(3)})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert torch.equal(io.read_tensors(path)[0]["x"], torch.zeros(3))
    assert len(os.listdir()) == 2
    io.remove_leftovers(Path())
    assert os.listdir() == [path.name]


def test_a_new_file_never_replaces_one_that_appeared_meanwhile():
    path = Path("a.csv")
    with pytest.raises(InputError, match="exists already"), io.replacing(path, new=True) as other:
        other.write_text("mine")
        path.write_text("theirs")
    assert (path.read_text(), os.listdir()) == ("theirs", ["a.csv"])


def test_names_that_are_not_utf_8_are_read_back(finished):
    name = os.fsdecode(b"\xff")
    shutil.copy(finished / "x.npy", f"{name}.npy")
    run_command("fit", f"{name}.npy", "-k", 2, *SHORT, "--quiet")
    run = f"gedi-runs/{name}-1"
    for arguments in (["resume", run], ["predict", run, f"{name}.npy", "--out", f"{name}.csv"]):
        run_command(*arguments)
    assert sorted(os.listdir()) == sorted(["gedi-runs", f"{name}.npy", f"{name}.csv"])


def test_a_name_with_a_tilde_is_a_home_only_if_it_says_so(run, here, monkeypatch):
    shutil.copy("x.npy", "~x.npy")
    monkeypatch.setenv("HOME", str(here))
    for name in ("~x.npy", "~/~x.npy"):
        run_command("predict", run, name)
