"""Folders of images on the command line: their size, broken files, and the units of pixels."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from gedilearn import GEDI
from gedilearn.cli.data import FitOptions, run_folder
from gedilearn.data.load import read_images
from gedilearn.errors import InputError
from gedilearn.training.run import RunDirectory
from helpers import run_command as gedi

SHORT = [
    *("--set", "training.max_iter=4", "--set", "training.check_every=2"),
    *("--set", "density.iterations=2", "--set", "sampler.buffer=64", "--set", "sampler.steps=2"),
    *("--set", "density.base=none"),
]
SIZES = [(8, 8), (12, 10), (9, 16), (20, 20)]  # width, height


def clusters(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mixed(here) -> Path:
    """Twelve pictures of mixed sizes, and three files that are none."""
    rng = np.random.default_rng(0)
    folder = here / "mixed"
    folder.mkdir()
    for k in range(12):
        width, height = SIZES[k % 4]
        pixels = rng.integers(0, 60, (height, width, 3)) + 180 * (k % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{k:02}.png")
    for name in ("03b.png", "05b.jpg", "0a.gif"):
        (folder / name).write_bytes(b"junk")
    return folder


@pytest.fixture
def fitted(mixed) -> Path:
    gedi("fit", "mixed", "-k", 2, "--size", "10x8", "--skip-broken", "--out", "run", *SHORT)
    return Path("run")


# --- fit ----------------------------------------------------------------------------------------


def test_mixed_sizes_and_broken_files_are_refused_with_the_option_that_helps(mixed):
    for given, missing in ((["--size", 8], "--skip-broken"), (["--skip-broken"], "--size 8x8")):
        refusal = gedi("fit", "mixed", "-k", 2, *given, code=2).stderr
        assert missing in refusal
        assert refusal.count("error:") == 1
    assert not Path("gedi-runs").exists()


def test_skipped_files_are_counted_and_named_on_one_line_of_stderr(mixed):
    result = gedi("fit", "mixed", "-k", 2, "--size", 8, "--skip-broken", "--json", *SHORT)
    lines = [line for line in result.stderr.splitlines() if "left out" in line]
    assert lines == [
        f"{Path('mixed')}: left out 3 of 15 images that cannot be read: 03b.png, 05b.jpg, 0a.gif"
    ]
    assert json.loads(result.stdout)["n_samples"] == 12


def test_size_is_width_by_height_and_is_kept_with_the_run(fitted):
    data = yaml.safe_load((fitted / "config.yaml").read_text())["data"]
    assert (data["size"], data["broken"]) == ([8, 10], "skip")
    assert data["shape"] == [12, 3, 8, 10]


@pytest.mark.parametrize(
    ("text", "size"), [("32", [32, 32]), ("40x30", [30, 40]), ("40X30", [30, 40])]
)
def test_a_size_is_one_number_or_two(text, size):
    assert FitOptions(size=text).load_arguments()["size"] == size
    with pytest.raises(InputError, match="for example 64x32 or 32"):
        FitOptions(size=f"{text}x").load_arguments()


# --- with a fitted run --------------------------------------------------------------------------


def test_a_fitted_run_reads_other_folders_in_its_size(fitted):
    folder = Path("more")
    folder.mkdir()
    for k, (width, height) in enumerate(SIZES):
        Image.new("RGB", (width, height), (80 * (k % 2), 9, 9)).save(folder / f"{k}.png")
    expected = GEDI.load(fitted / "model.safetensors").predict_proba(
        read_images(folder, size=(8, 10)).x
    )
    found = clusters(gedi("predict", fitted, "more", "--proba").stdout)
    probabilities = [[float(row["p0"]), float(row["p1"])] for row in found]
    np.testing.assert_allclose(probabilities, expected, rtol=1e-6)
    model = fitted / "model.safetensors"
    assert clusters(gedi("predict", model, "more", "--proba").stdout) == found
    np.save("x.npy", np.zeros((3, 3, 8, 10), np.uint8))
    assert len(clusters(gedi("predict", fitted, "x.npy").stdout)) == 3


def test_broken_files_are_skipped_in_new_data_only_when_asked(fitted):
    assert "--skip-broken" in gedi("predict", fitted, "mixed", code=2).stderr
    assert "left out 3" in gedi("predict", fitted, "mixed", "--skip-broken").stderr
    assert "left out 3" in gedi("evaluate", fitted, "--samples", 0, "--probe", "none").stderr


def test_an_interrupted_fit_of_a_folder_is_resumed_with_size_and_skipped_files(mixed, monkeypatch):
    options = ["mixed", "-k", 2, "--size", "10x8", "--skip-broken", *SHORT]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_summary", interrupt)
        assert "gedi resume" in gedi("fit", *options, "--out", "run", code=130).stderr
    resumed = gedi("resume", "run", "--json")
    assert "left out 3" in resumed.stderr
    gedi("fit", *options, "--out", "whole")
    assert Path("run/labels.csv").read_text() == Path("whole/labels.csv").read_text()
    Path("mixed").rename("moved")
    Path("run/labels.csv").unlink()
    gedi("resume", "run", "--data", "moved")
    assert Path("run/labels.csv").read_text() == Path("whole/labels.csv").read_text()


# --- one unit for pixels ------------------------------------------------------------------------


def write_pictures(folder: Path, images: np.ndarray) -> None:
    folder.mkdir()
    for k, image in enumerate(images):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{k:03}.png")


def without_path(text: str) -> str:
    rows = [line.split(",") for line in text.splitlines()]
    assert rows[0][1] == "path"
    return "".join(",".join([row[0], *row[2:]]) + "\n" for row in rows)


def test_a_skipped_file_shifts_no_row_and_pictures_are_found_by_their_path(here):
    images = np.random.default_rng(2).integers(0, 256, (6, 3, 8, 8)).astype(np.uint8)
    write_pictures(Path("pictures"), images)
    Path("pictures/001.png").write_bytes(b"junk")
    Path("pictures/deep/deeper").mkdir(parents=True)
    Path("pictures/005.png").rename("pictures/deep/deeper/x.png")
    gedi("fit", "pictures", "-k", 2, "--out", "run", "--skip-broken", *SHORT)
    rows = [line.split(",")[:2] for line in Path("run/labels.csv").read_text().splitlines()]
    kept = [["0", "000.png"], *([str(k), f"00{k}.png"] for k in (2, 3, 4))]
    assert rows == [["row", "path"], *kept, ["5", "deep/deeper/x.png"]]


def test_a_model_of_an_array_of_images_predicts_a_folder_of_its_pictures(here):
    """The same images from an array and from PNGs, through fit and predict."""
    rng = np.random.default_rng(1)
    images = rng.integers(0, 200, (16, 3, 32, 32)).astype(np.uint8)
    images[::2] += 50
    np.savez("images.npz", x=images)
    write_pictures(Path("pictures"), images)
    gedi("fit", "images.npz", "-k", 2, "--out", "run", *SHORT)
    from_file = gedi("predict", "run", "images.npz").stdout
    assert without_path(gedi("predict", "run", "pictures").stdout) == from_file
    gedi("fit", "pictures", "-k", 2, "--out", "again", *SHORT)
    again = without_path(Path("again/labels.csv").read_text())
    assert again == Path("run/labels.csv").read_text()
    prints = [
        yaml.safe_load(Path(run, "config.yaml").read_text())["data"]["fingerprint"]
        for run in ("run", "again")
    ]
    assert prints[0] == prints[1]


def test_the_number_of_clusters_of_a_folder_is_chosen_from_images_of_the_size(mixed, monkeypatch):
    def choose(x, *_, **__):
        raise InputError(f"shape {x.shape}")

    monkeypatch.setattr("gedilearn.selection.choose_n_clusters", choose)
    assert "--skip-broken" in gedi("choose", "mixed", "--size", 8, code=2).stderr
    told = gedi("choose", "mixed", "--size", "10x8", "--skip-broken", code=2).stderr
    assert "shape (12, 3, 8, 10)" in told


def test_runs_without_a_name_never_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with run_folder(None, "x") as first, run_folder(None, "x") as second:
        (second / "config.yaml").write_text("")
        assert (first, second) == (Path("gedi-runs/x-1"), Path("gedi-runs/x-2"))
    assert list(Path("gedi-runs").iterdir()) == [second]  # nothing came of the first


def test_names_that_are_not_utf8_are_written_with_their_bytes_escaped(tmp_path):
    for k in range(8):
        Image.fromarray(np.full((8, 8), 25 * k, np.uint8)).save(tmp_path / f"{k}.png")
    os.rename(tmp_path / "0.png", os.fsencode(tmp_path) + b"/\xff.png")
    quick = ("--set", "training.max_iter=2", "--set", "density.iterations=1")
    gedi("fit", str(tmp_path), "-k", 2, *quick, "--out", str(tmp_path / "run"))
    assert r"\udcff.png" in (tmp_path / "run" / "labels.csv").read_text()
