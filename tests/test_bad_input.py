"""Bad input: one line that says what is wrong, exit code 2, nothing overwritten or left behind."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from gedilearn import GEDI, progress
from gedilearn.cli import app
from gedilearn.data.load import load
from gedilearn.training import run as checkpoint
from gedilearn.training.run import RunDirectory

SHORT = [
    *("--set", "training.max_iter=60", "--set", "training.check_every=30"),
    *("--set", "density.iterations=10"),
    *("--set", "sampler.buffer=400"),
]
RNG = np.random.default_rng(0)
POINTS = np.concatenate([RNG.normal(-3, 1, (40, 3)), RNG.normal(3, 1, (40, 3))])


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every folder with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def refusal(*arguments: object) -> str:
    """The one line that the command prints before it exits with 2 and leaves all as it was."""
    before = contents(Path.cwd())
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert contents(Path.cwd()) == before
    return result.stderr.removeprefix("error: ").rstrip("\n")


def fit_refusal(data: object, *options: object, clusters: int = 2) -> str:
    return refusal("fit", data, "--clusters", clusters, *options)


def accept(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """In a folder of its own; on a slow machine too, no line tells of a phase before the error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "SHORT", 60.0)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    np.save(folder / "x.npy", POINTS)
    accept("fit", folder / "x.npy", "-k", 2, *SHORT, "--out", folder / "run", "--quiet")
    return folder


@pytest.fixture
def run(finished, here) -> Path:
    """A copy of a finished run, to be damaged, beside its data x.npy."""
    shutil.copytree(finished, here, dirs_exist_ok=True)
    return Path("run")


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def cut(path: Path, keep: int | None = None) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 if keep is None else keep])


# --- values and shapes --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_their_rows(value):
    x = POINTS.copy()
    x[7, 1] = x[11, 0] = value
    np.save("x.npy", x)
    assert "2 NaN or infinite values in rows 7, 11" in fit_refusal("x.npy")
    with pytest.raises(ValueError, match="rows 7, 11"):
        GEDI(2).fit(x)


def test_missing_cells_are_refused_where_no_column_has_two_values_beside_them():
    Path("x.csv").write_text("a,b\n1,2\n,2\n,nan\n")
    assert "a (constant, 2 missing), b (constant, 1 missing)" in fit_refusal("x.csv")


def test_infinite_cells_of_a_table_are_refused_with_column_and_row():
    Path("x.csv").write_text("a,b\n1,2\n,3\n4,inf\n")
    assert "column 'b': infinite in row 2" in fit_refusal("x.csv")


@pytest.mark.parametrize(
    "shape", [(80,), (20, 2, 2), (5, 2, 2, 2), (2, 1, 2, 2, 2), (0, 3), (3, 0)]
)
def test_wrong_shapes_are_refused(shape):
    np.save("x.npy", np.zeros(shape))
    assert str(shape) in fit_refusal("x.npy")
    with pytest.raises(ValueError, match=r"."):
        GEDI(2).fit(np.zeros(shape))


def test_text_that_is_of_no_use_is_refused():
    Path("x.csv").write_text("name,colour\nann,red\nbob,red\n")
    assert "name (no two values alike: taken for an ID), colour" in fit_refusal("x.csv")
    np.save("x.npy", np.array([["a", "b"], ["c", "d"]]))
    assert "not numbers" in fit_refusal("x.npy")
    with pytest.raises(ValueError, match=r"."):
        GEDI(2).fit(np.array([["a", "b"], ["c", "d"]]))


def test_complex_numbers_and_objects_are_refused():
    for x in (POINTS + 1j, np.array([[1, None], [2, 3]], dtype=object)):
        np.save("x.npy", x, allow_pickle=True)
        assert fit_refusal("x.npy")
        with pytest.raises((ValueError, TypeError)):
            GEDI(2).fit(x)


def test_other_columns_than_those_of_the_fit_are_refused(run):
    np.save("y.npy", POINTS[:, :2])
    for command in ("predict", "score", "diagnose"):
        assert "2 features" in refusal(command, run, "y.npy")
    with pytest.raises(ValueError, match="2 features"):
        GEDI.load(run / "model.safetensors").predict(POINTS[:, :2])


def test_an_unknown_label_column_is_refused_with_the_nearest():
    Path("x.csv").write_text("a,b,kind\n1,2,0\n3,4,1\n")
    assert "did you mean 'kind'?" in fit_refusal("x.csv", "--label-column", "kinds")


# --- numbers of points and clusters -------------------------------------------------------------


@pytest.mark.parametrize("clusters", [1, 0, -3])
def test_less_than_two_clusters_are_refused(clusters):
    np.save("x.npy", POINTS)
    expected = f"--clusters {clusters}: clustering needs at least 2"
    assert fit_refusal("x.npy", clusters=clusters) == expected


def test_less_than_one_cluster_is_refused_in_programs():
    with pytest.raises(ValueError, match="n_clusters=0"):
        GEDI(0).fit(POINTS)


def test_fewer_points_than_clusters_are_refused():
    np.save("x.npy", POINTS[:4])
    assert "n_clusters=5 for 4 points" in fit_refusal("x.npy", clusters=5)
    with pytest.raises(ValueError, match="n_clusters=5 for 4 points"):
        GEDI(5).fit(POINTS[:4])


def test_a_single_point_is_refused():
    np.save("x.npy", POINTS[:1])
    assert "1 sample" in fit_refusal("x.npy")


def test_constant_data_and_too_few_distinct_points_are_refused():
    for n_distinct in (1, 2):
        x = np.repeat(POINTS[:n_distinct], 30, axis=0)
        np.save("x.npy", x)
        words = f"only {n_distinct} distinct point"
        assert words in fit_refusal("x.npy", clusters=3)
        with pytest.raises(ValueError, match=words):
            GEDI(3).fit(x)


def test_duplicates_and_a_constant_column_are_fine():
    x = np.repeat(POINTS, 2, axis=0)
    x[:, 1] = 4.0
    np.save("x.npy", x)
    content = json.loads(accept("fit", "x.npy", "-k", 2, *SHORT, "--json"))
    assert content["n_samples"] == 160
    labels = np.loadtxt("gedi-runs/x-1/labels.csv", delimiter=",", skiprows=1)[:, 1]
    assert (labels[::2] == labels[1::2]).all()
    assert np.isfinite(content["gap"])


# --- files --------------------------------------------------------------------------------------


def write_good(ending: str) -> Path:
    """A readable data set of this kind."""
    path = Path(f"x{ending}")
    if ending == ".npy":
        np.save(path, POINTS)
    elif ending == ".npz":
        np.savez(path, x=POINTS)
    elif ending == ".parquet":
        pd.DataFrame(POINTS, columns=["a", "b", "c"]).to_parquet(path)
    elif ending == "":
        path.mkdir()
        for k in range(3):
            pixels = RNG.integers(0, 255, (16, 16)).astype(np.uint8)
            Image.fromarray(pixels).save(path / f"{k}.png")
    else:
        separator = "\t" if ending == ".tsv" else ","
        path.write_text("\n".join(separator.join(map(str, row)) for row in POINTS) + "\n")
    return path


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".csv", ".tsv", ""])
def test_truncated_and_empty_files_are_refused(ending):
    path = write_good(ending)
    assert len(load(path).x) in (80, 3)
    file = path / "1.png" if path.is_dir() else path
    # Half a number is still a number, but half a row is no row: text is cut at a separator.
    keep = None
    if ending in (".csv", ".tsv"):
        keep = file.read_bytes().rindex(b"," if ending == ".csv" else b"\t")
    cut(file, keep)
    assert str(file) in fit_refusal(path)
    file.write_bytes(b"")
    assert str(file) in fit_refusal(path)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".csv", ".tsv"])
def test_random_bytes_are_refused(ending):
    Path(f"x{ending}").write_bytes(bytes(RNG.integers(128, 256, 2000, dtype=np.uint8)))
    assert f"x{ending}" in fit_refusal(f"x{ending}")


def test_missing_data_is_refused_with_the_nearest_name(run):
    write_good(".csv")
    assert "did you mean x.csv?" in fit_refusal("x.cvs")
    assert "no such file" in refusal("predict", run, "nothing.csv")
    assert "without images" in fit_refusal(run)


def test_an_unknown_ending_is_refused():
    Path("x.doc").write_bytes(b"PK")
    assert "unknown extension '.doc'" in fit_refusal("x.doc")


@pytest.fixture
def locked():
    """Take all permissions from a path, and give them back at the end."""
    paths: list[Path] = []

    def lock(path: Path, mode: int = 0) -> None:
        paths.append(path)
        path.chmod(mode)
        if os.access(path, os.W_OK):
            pytest.skip("this user, root perhaps, may do everything")

    yield lock
    for path in paths:
        path.chmod(0o700)


def test_data_without_permission_is_refused(run, locked):
    Path("closed").mkdir()
    shutil.copy("x.npy", "closed/x.npy")
    locked(Path("closed/x.npy"))
    result = CliRunner().invoke(app, ["fit", "closed/x.npy", "-k", "2"], catch_exceptions=False)
    assert result.exit_code == 2
    assert result.stderr == "error: closed/x.npy: permission denied; make it readable\n"


def test_folders_without_permission_are_refused(run, locked):
    Path("closed").mkdir()
    locked(Path("closed"), 0o500)
    words = refusal("predict", run, "x.npy", "--out", "closed/a.csv")
    assert words == "closed/a.csv: permission denied"
    assert "permission denied" in fit_refusal("x.npy", "--out", "closed/run")


# --- run directories and models -----------------------------------------------------------------


def test_a_run_of_another_version_is_refused(run):
    replace_in(run / "config.yaml", "format: 1", "format: 99")
    for arguments in (["predict", run, "x.npy"], ["resume", run], ["diagnose", run]):
        assert "format 99" in refusal(*arguments)


def test_a_model_of_another_version_is_refused(run):
    file = run / "model.safetensors"
    data = file.read_bytes()
    assert data.count(rb"{\"format\": 1,") == 1
    file.write_bytes(data.replace(rb"{\"format\": 1,", rb"{\"format\": 7,"))
    assert "format 7" in refusal("predict", run, "x.npy")


def test_what_is_no_run_is_refused(run):
    Path("empty").mkdir()
    assert "no config.yaml" in refusal("predict", "empty", "x.npy")
    assert "no config.yaml" in refusal("resume", "empty")
    assert "no such f" in refusal("sample", "missing")
    assert "no such f" in refusal("resume", "missing")
    assert "safetensors" in refusal("sample", "x.npy")


def test_a_run_with_only_a_config_is_not_finished_and_can_be_resumed(run):
    for path in run.iterdir():
        if path.name != "config.yaml":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    replace_in(
        run / "config.yaml", f"source: {_source(run)}", f"source: {Path('x.npy').absolute()}"
    )
    for arguments in (["predict", run, "x.npy"], ["sample", run], ["diagnose", run]):
        assert refusal(*arguments) == "run is not finished: gedi resume run"
    accept("resume", run)
    assert (run / "labels.csv").exists()


def _source(run: Path) -> str:
    text = (run / "config.yaml").read_text()
    return text.split("source: ")[1].splitlines()[0]


def test_a_damaged_config_is_refused(run):
    for text in ("", "{", "settings: 3", "- 1\n- 2\n"):
        (run / "config.yaml").write_text(text)
        assert "damaged" in refusal("predict", run, "x.npy")
        assert "damaged" in refusal("resume", run)


@pytest.mark.parametrize("keep", [0, 4, 500, 20_000])
def test_a_truncated_model_is_refused(run, keep):
    cut(run / "model.safetensors", keep)
    for arguments in (["predict", run, "x.npy"], ["score", run, "x.npy"], ["sample", run]):
        assert "model.safetensors is damaged" in refusal(*arguments)


def test_a_file_of_tensors_that_is_no_model_is_refused(run):
    assert "not a model of gedi-learn" in refusal("sample", run / "preview.safetensors")


def unfinish(run: Path) -> None:
    for name in ("model.safetensors", "summary.json", "labels.csv"):
        (run / name).unlink()


@pytest.mark.parametrize("pattern", ["shared.json", "shared.safetensors", "rank-0.json"])
def test_a_damaged_checkpoint_is_refused(run, pattern):
    unfinish(run)
    (file,) = run.glob(f"checkpoint/step-*/{pattern}")
    cut(file)
    assert "is damaged" in refusal("resume", run, "--data", "x.npy")
    file.unlink()
    assert "is damaged" in refusal("resume", run, "--data", "x.npy")


def test_a_cut_pointer_to_the_checkpoint_is_refused(run):
    unfinish(run)
    cut(run / "checkpoint/latest.json")
    assert "latest.json is damaged" in refusal("resume", run, "--data", "x.npy")
    (run / "checkpoint/latest.json").write_text('{"format": 99, "folder": "x"}')
    assert "format 99" in refusal("resume", run, "--data", "x.npy")


# --- outputs ------------------------------------------------------------------------------------


def test_an_output_that_exists_is_refused(run):
    for name in ("a.csv", "a.npy", "a.json"):
        Path(name).write_text("precious")
        for arguments in (["predict", run, "x.npy"], ["score", run, "x.npy"], ["sample", run]):
            assert "exists already" in refusal(*arguments, "--out", name)
    Path("full").mkdir()
    Path("full/thing").write_text("precious")
    assert "exists already" in fit_refusal("x.npy", "--out", "full")
    assert "exists already" in fit_refusal("x.npy", "--out", "a.csv")
    assert "exists already" in fit_refusal("x.npy", "--out", run)


def test_an_output_that_cannot_be_written_is_refused_before_the_work(run, monkeypatch):
    monkeypatch.setattr(GEDI, "load", lambda *_: pytest.fail("worked"))
    for arguments in (["predict", run, "x.npy"], ["score", run, "x.npy"], ["sample", run]):
        assert "unknown ending '.txt'" in refusal(*arguments, "--out", "a.txt")
        assert "unknown ending ''" in refusal(*arguments, "--out", "a")
        assert "no folder nowhere" in refusal(*arguments, "--out", "nowhere/a.csv")


def test_an_output_that_appears_during_the_work_is_not_overwritten(run, monkeypatch):
    load_model = GEDI.load

    def meanwhile(path):
        Path("a.csv").write_text("precious")
        return load_model(path)

    monkeypatch.setattr(GEDI, "load", meanwhile)
    result = CliRunner().invoke(app, ["predict", "run", "x.npy", "--out", "a.csv"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "exists already" in result.stderr
    assert Path("a.csv").read_text() == "precious"
    assert sorted(os.listdir()) == ["a.csv", "run", "x.npy"]


@contextmanager
def file_size_limit(size: int):
    """Writing beyond `size` bytes fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("ending", [".csv", ".npy", ".json"])
def test_an_output_that_does_not_fit_on_the_disk_leaves_nothing(run, ending):
    with file_size_limit(100):
        words = refusal("predict", run, "x.npy", "--out", f"a{ending}")
    assert words == f"a{ending}: file too large"


def test_a_fit_that_cannot_even_begin_can_be_tried_again():
    np.save("x.npy", POINTS)
    with file_size_limit(100):
        result = CliRunner().invoke(app, ["fit", "x.npy", "-k", "2", "--out", "r", *SHORT])
    assert result.exit_code == 2
    assert result.stderr == "error: r/config.yaml: file too large\n"
    accept("fit", "x.npy", "-k", 2, "--out", "r", *SHORT)


def test_a_disk_that_fills_up_leaves_the_last_checkpoint_and_the_run_goes_on(monkeypatch):
    np.save("x.npy", POINTS)
    arguments = ["fit", "x.npy", "-k", "3", *SHORT, "--set", "training.checkpoint_every=0"]
    arguments += ["--set", "training.check_every=10"]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    metric, rows = RunDirectory.add_metrics, []

    def fill_up(self, row):
        metric(self, row)
        rows.append(row)
        if len(rows) == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "add_metrics", fill_up)
        try:
            result = CliRunner().invoke(app, [*arguments, "--out", "r"], catch_exceptions=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    folder = checkpoint.latest(Path("r/checkpoint"))
    assert checkpoint.load_tree(folder, "shared")["iteration"] == 20
    resumed = json.loads(accept("resume", "r", "--json"))
    whole = json.loads(accept(*arguments, "--json", "--out", "whole"))
    assert resumed["gap"] == whole["gap"]
    assert Path("r/labels.csv").read_text() == Path("whole/labels.csv").read_text()


@pytest.fixture
def tiny_disk(here):
    """A disk of 64 KB."""
    disk = here / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a tiny disk needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_really_full_disk_is_one_line(run, tiny_disk):
    result = CliRunner().invoke(app, ["sample", "run", "-n", "5000", "--steps", "1"])
    assert len(result.stdout) > 65536
    arguments = ["sample", "run", "-n", 5000, "--steps", 1, "--out", "disk/a.csv"]
    assert refusal(*arguments) == "disk/a.csv: no space left on device"
    result = CliRunner().invoke(app, ["fit", "x.npy", "-k", "2", *SHORT, "--out", "disk/r"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "pace left on device" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_pipe_to_a_full_disk_is_one_line(run):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "gedilearn.cli", "settings"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2
    assert result.stderr == "error: No space left on device\n"


# --- files that stall or swell ------------------------------------------------------------------


def test_a_config_that_never_ends_or_unfolds_is_refused(run):
    bomb = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 10)]
    (run / "config.yaml").write_text("\n".join(["a0: &a0 [x]", *bomb]))
    commands = (["predict", run, "x.npy"], ["resume", run], ["report", run])
    for command in commands:
        assert "config.yaml is damaged" in refusal(*command)
    (run / "config.yaml").unlink()
    (run / "config.yaml").symlink_to("/dev/zero")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "contents", lambda _: {})  # which would read it
        for command in commands:
            assert "config.yaml: not a regular file" in refusal(*command)


def test_a_pipe_in_the_place_of_a_file_is_refused(run):
    unfinish(run)
    for name in ("metrics.jsonl", "events.jsonl", "checkpoint/latest.json", "config.yaml"):
        (run / name).rename("kept")
        os.mkfifo(run / name)
        assert f"{name}: not a regular file" in refusal("resume", run, "--data", "x.npy")
        (run / name).unlink()
        Path("kept").rename(run / name)
    os.mkfifo("model")
    assert "model: not a regular file" in refusal("sample", "model")


def test_the_limit_of_what_is_read_is_set_by_the_environment(run, monkeypatch):
    monkeypatch.setenv("GEDI_MAX_GB", "1e-6")
    assert "GEDI_MAX_GB=" in refusal("fit", "x.npy", "-k", 2)
    assert "GEDI_MAX_GB=" in refusal("sample", run)
    monkeypatch.setenv("GEDI_MAX_GB", "lots")
    assert "give a number of gigabytes" in refusal("fit", "x.npy", "-k", 2)


def test_names_of_columns_that_no_config_could_hold_are_refused(monkeypatch):
    names = ",".join(f"c{k:039}" for k in range(100))
    Path("x.csv").write_text(f"{names}\n" + "\n".join([",".join("1" * 100)] * 4))
    monkeypatch.setenv("GEDI_MAX_GB", "0.004")
    assert "the names of its columns: 4800 bytes" in fit_refusal("x.csv")


# --- names --------------------------------------------------------------------------------------


def test_names_that_are_not_utf_8_are_read_back_and_leave_nothing_behind(finished):
    name = os.fsdecode(b"\xff")
    shutil.copy(finished / "x.npy", f"{name}.npy")
    accept("fit", f"{name}.npy", "-k", 2, *SHORT)
    run = f"gedi-runs/{name}-1"
    accept("resume", run)
    accept("diagnose", run)
    accept("report", run)
    accept("predict", run, f"{name}.npy", "--out", f"{name}.csv")
    assert sorted(os.listdir()) == sorted(["gedi-runs", f"{name}.npy", f"{name}.csv"])
    assert not [p for p in Path.cwd().rglob("*") if p.name.endswith(".part")]


def test_an_unknown_preset_is_refused_with_the_nearest():
    assert "did you mean 'paper/toy'?" in fit_refusal("moons", "--preset", "papertoy")


@pytest.mark.parametrize(
    "assignment, words",
    [
        ("training.maxiter=3", "did you mean 'training.max_iter'?"),
        ("seed=3", "did you mean 'training.seed'?"),
        ("training.batch_size=3", "did you mean 'optimizer.batch_size'?"),
        ("sampler=3", "unknown setting 'sampler'"),
        ("training.max_iter", "write it as name=value"),
        ("training.max_iter=many", "training.max_iter='many'"),
        ("training.max_iter=0", "training.max_iter=0"),
        ("training.max_iter=[1", "not valid YAML"),
        ("n_clusters=3", "--clusters"),
        ("sampler.buffer=10", "smaller than sampler.chains"),
        ("prior=[0.5, 0.6]", "sum to 1"),
        ("device.accelerator=abacus", "device.accelerator='abacus'"),
        ("device.precision=8-true", "device.precision='8-true'"),
        ("training.seed=-1", "training.seed=-1"),
        ("network.activation=", "network.activation=None"),
        ("optimizer.betas=[1.5,2.0]", "optimizer.betas=[1.5, 2.0]: should be less than 1"),
        ("optimizer.betas=[0.9]", "optimizer.betas=[0.9]: an entry is missing"),
        ("network.hidden=[0]", "network.hidden=[0]: should be greater than or equal to 1"),
        ("network.hidden=[]", "give at least one hidden layer"),
        ("network.hidden=[300000,300000]", "would need 2,880.1 GB"),
        ("network.features=1000000000000", "network.features=1000000000000: should be less"),
        ("sampler.buffer=1000000000000", "sampler.buffer=1000000000000: should be less"),
        ("training.n_init=1000000", "the network and its optimiser would need"),
        ("weights.inv=[1,2,3]", "weights.inv=[1, 2, 3]: give a number, or (progress, value)"),
        ("weights.inv=[]", "weights.inv=[]: give a number, or (progress, value) points"),
        ("weights.inv=[[0.5,1],[0.2,1]]", "progress from 0 to 1"),
        ("weights.inv=.nan", "weights.inv=nan: values must be finite, 0 or more"),
        ("weights.inv=[[0,.inf]]", "values must be finite, 0 or more"),
        ("training.tol=.nan", "training.tol=nan: should be a finite number"),
        ("prior=[.nan,0.5]", "prior=[nan, 0.5]: should be 'auto' or 'uniform' or a finite number"),
        ("device.devices=foo", "device.devices='foo': should be a valid integer"),
        ("device.devices=1000", "device.devices=1000: at most"),
        ("device.threads=100000", "device.threads=100000: should be less than or equal to 1024"),
    ],
)
def test_wrong_settings_are_refused(assignment, words):
    assert words in fit_refusal("moons", "--set", assignment, "--out", "run")


def test_wrong_options_are_refused(run):
    assert "training.n_init=0" in fit_refusal("moons", "--inits", 0)
    assert "training.seed=-1" in fit_refusal("moons", "--seed", -1)
    assert "training.seed" in fit_refusal("moons", "--seed", 2**70)
    assert "n_samples=0" in refusal("sample", run, "-n", 0)
    assert "choose smaller n_samples" in refusal("sample", run, "-n", 10**12)
    assert "steps=-1" in refusal("sample", run, "--steps", -1)
    assert "from 0 to 100000000" in refusal("sample", run, "--steps", 10**15)
    assert "--seed -1" in refusal("sample", run, "--seed", -1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has such a device")
def test_a_device_that_is_not_there_is_refused():
    np.save("x.npy", POINTS)
    assert "'cuda' is not available" in fit_refusal("x.npy", "--device", "cuda")
    with pytest.raises(ValueError, match="not available"):
        GEDI(2, device="cuda").fit(POINTS)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["ft"], "Did you mean 'fit'"),
        (["fit", "moons", "--cluster", "2"], "--clusters"),
        (["fit", "moons"], "--clusters"),
        (["fit", "moons", "-k", "two"], "--clusters"),
        (["score", "r", "moons", "--kind", "density"], "log_density"),
        (["fit", "moons", "-k", "2", "--device", "abacus"], "cuda"),
        (["predict", "r"], "run directory"),
    ],
)
def test_a_command_line_that_is_not_understood_is_refused(arguments, words):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""
    assert not os.listdir()


def test_a_name_with_a_tilde_is_a_home_only_if_it_says_so(here, monkeypatch):
    np.save("~x.npy", POINTS)
    accept("fit", "~x.npy", "-k", 2, *SHORT, "--out", "r")
    assert RunDirectory("r").config.read_text().count(str(here / "~x.npy")) == 1
    monkeypatch.setenv("HOME", str(here))
    accept("predict", "r", "~/~x.npy", "--out", "o.npy")
    monkeypatch.setenv("GEDI_CACHE", str(here / "cache"))
    asked = ["data", "get", "mnist", "--from", "~nobody-here"]
    result = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert result.exit_code == 2 and "error: ~nobody-here: no such folder" in result.stderr


# --- bugs ---------------------------------------------------------------------------------------


def test_an_unexpected_error_is_not_dressed_up_as_bad_input(run, monkeypatch):
    def broken(*_):
        raise ValueError("a bug")

    monkeypatch.setattr(GEDI, "predict", broken)
    result = CliRunner().invoke(app, ["predict", "run", "x.npy"])
    assert result.exit_code == 1
    assert str(result.exception) == "a bug"
