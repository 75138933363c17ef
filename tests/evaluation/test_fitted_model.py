"""`evaluate` against direct calls and other libraries, on drawn 8x8 images and on vectors."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score

from gedilearn import GEDI
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.evaluation import evaluate, fitted_model, frechet, heading, table
from gedilearn.evaluation.clustering import batchwise_nmi, clustering_scores
from gedilearn.evaluation.fitted_model import image_grid, share_off
from gedilearn.evaluation.ood import converted, roc
from gedilearn.evaluation.probe import fast_probe
from helpers import gedi

CHEAP = {"n_samples": 0, "probe": "none"}


def drawn(n: int, seed: int, name: str = "squares") -> Dataset:
    """Bright squares in one of four corners, as bytes (n, 1, 8, 8)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    x = rng.integers(0, 40, (n, 1, 8, 8)) * (rng.random((n, 1, 8, 8)) < 0.3)
    for image, k in zip(x, y, strict=True):
        image[0, 4 * (k // 2) : 4 * (k // 2) + 4, 4 * (k % 2) : 4 * (k % 2) + 4] += 200
    return Dataset(name, x.astype(np.uint8), y, None, "made up")


def unlabelled(name: str, x: np.ndarray) -> Dataset:
    return Dataset(name, x, None, None, "made up")


@pytest.fixture(scope="module")
def train() -> Dataset:
    return drawn(300, 0)


@pytest.fixture(scope="module")
def test() -> Dataset:
    return drawn(150, 1, "more-squares")


@pytest.fixture(scope="module")
def model(train) -> GEDI:
    short = {"max_iter": 20, "density.iterations": 5, "training.check_every": 10, "n_init": 1}
    short["density.base"] = "none"  # log p(x) of the network
    small = {"network.width": 8, "network.features": 8, "optimizer.batch_size": 32}
    chains = {"sampler.steps": 2, "sampler.buffer": 60}
    return gedi(4, random_state=0, **short, **small, **chains).fit(train.x)


@pytest.fixture(scope="module")
def colour() -> Dataset:
    x = np.random.default_rng(2).integers(0, 256, (70, 3, 12, 10), dtype=np.uint8)
    return unlabelled("colour", x)


def test_clusters_are_scored_over_the_whole_test_set_and_in_batches(model, train, test):
    part, labels = evaluate(model, train, test, **CHEAP)["clustering"], model.predict(test.x)
    assert clustering_scores(test.y, labels).items() <= part.items() and part["n"] == 150
    assert part["n_clusters"] == 4 and part["batchwise_nmi"]["batch_size"] == 64
    batches = batchwise_nmi(test.y, labels, 64)
    assert (part["batchwise_nmi"]["nmi"], part["batchwise_nmi"]["chance"]) == batches


def test_the_certificate_is_that_of_diagnose(model, test):
    part = evaluate(model, None, test, **CHEAP)["certificate"]
    diagnosis = model.diagnose(test.x)
    assert part["bound_gap"] == pytest.approx(diagnosis.gap) and part["grade"] == diagnosis.grade
    assert part["certified"] == diagnosis.certified and part["n"] == 150
    without = evaluate(model, None, test, certificate=False, **CHEAP)
    assert set(without["certificate"]) == {"skipped"}


def test_every_score_separates_ood_data_as_a_direct_call_does(model, train, test, colour):
    part = evaluate(model, train, test, others={"c": colour}, **CHEAP)["ood"]["c"]
    x, changes = converted(colour.x, (1, 8, 8), (0.0, 255.0))
    assert part["changes"] == changes
    assert part["n_inside"] == 150 and part["n_outside"] == 70
    for kind, numbers in part["scores"].items():
        expected = roc(model.score_samples(test.x, kind), model.score_samples(x, kind))
        assert numbers == pytest.approx(expected._asdict(), abs=0.01)
    assert set(part["scores"]) == {"log_density", "gradient_norm", "confidence", "energy"}


def test_trivial_scores_take_the_better_direction_and_say_which(model, train, test):
    rng = np.random.default_rng(3)
    bright = unlabelled("bright", rng.integers(180, 256, (40, 1, 8, 8), dtype=np.uint8))
    black = unlabelled("black", np.zeros((40, 1, 8, 8), dtype=np.uint8))
    ood = evaluate(model, train, test, others={"bright": bright, "black": black}, **CHEAP)["ood"]
    assert ood["bright"]["trivial"]["mean_pixel"]["direction"] == "lower inside"
    assert ood["black"]["trivial"]["mean_pixel"]["direction"] == "higher inside"
    assert ood["black"]["trivial"]["nonzero_share"]["auroc"] == 1.0
    low = train.x.min()
    counted = [(data > low).reshape(len(data), -1).mean(1) for data in (test.x, bright.x)]
    truth = np.r_[np.ones(150), np.zeros(40)]
    expected = roc_auc_score(truth, -np.concatenate(counted))
    assert ood["bright"]["trivial"]["nonzero_share"]["auroc"] == pytest.approx(expected)


def test_the_number_of_points_is_limited_and_in_the_result(model, train, test, colour, monkeypatch):
    monkeypatch.setattr(fitted_model, "MOST", 50)
    result = evaluate(model, train, test, others={"c": colour}, n_samples=0)
    assert result["ood"]["c"]["n_inside"] == result["ood"]["c"]["n_outside"] == 50
    assert result["certificate"]["n"] == 50 and result["clustering"]["n"] == 150
    assert result["probe"]["n_train"] == 50


def test_the_probe_uses_the_features_of_the_model(model, train, test):
    part = evaluate(model, train, test, n_samples=0)["probe"]
    data = model.transform(train.x), train.y, model.transform(test.x), test.y
    assert part["accuracy"] == pytest.approx(fast_probe(*data), abs=0.02)


def test_the_paper_s_probe_uses_all_training_points(model, train, test, monkeypatch):
    monkeypatch.setattr(fitted_model, "MOST", 40)
    part = evaluate(model, train, test, probe="paper", n_samples=0)["probe"]
    assert part["n_train"] == 300 and "SGD" in part["method"]


class MeanOfRows(torch.nn.Module):
    """A network for features that stores its input."""

    space = "means of rows"

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def __deepcopy__(self, memo: object) -> MeanOfRows:
        return self

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        self.seen.append(pixels)
        return pixels.mean((1, 3))


def test_samples_are_compared_with_real_images_in_the_pixels_of_a_file(
    model, train, test, monkeypatch, tmp_path
):
    network = MeanOfRows()
    monkeypatch.setattr(frechet, "extractor", lambda: network)
    result = evaluate(model, train, test, n_samples=30, steps=2, probe="none", out=tmp_path)
    part = result["frechet"]
    assert part["title"] == "Frechet distance in means of rows" and part["n"] == 30
    assert part["distance"] > 0 and part["floor"] > 0
    originals = {image.tobytes() for image in test.x[:, 0]}
    shown = {image.tobytes() for image in torch.cat(network.seen)[:, 0].byte().numpy()}
    assert len(shown & originals) == 60 and len(shown) == 90  # 30, 30 for the floor, 30 samples
    assert result["samples"]["n"] == result["samples"]["finite"] == 30


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [([0, 0, 0, 1], 0.5), ([0, 0, 1, 1], 0.0), ([2, 2, 2, 2], 1.0), ([], None)],
)
def test_shares_of_samples_are_compared_with_those_of_the_data(drawn, expected):
    assert share_off(np.array(drawn), np.array([0, 1, 0, 1])) == expected


def test_without_a_network_of_features_the_error_says_what_to_install(model, test, monkeypatch):
    def missing() -> None:
        raise InputError("no network for features: pip install something")

    monkeypatch.setattr(frechet, "extractor", missing)
    part = evaluate(model, None, test, n_samples=4, steps=1, probe="none")["frechet"]
    assert part == {"skipped": "no network for features: pip install something"}


def test_the_folder_has_a_picture_and_numbers(model, train, test, colour, tmp_path, monkeypatch):
    monkeypatch.setattr(frechet, "extractor", MeanOfRows)
    asked = {"n_samples": 30, "steps": 1, "probe": "none"}
    out = tmp_path / "new" / "folder"
    result = evaluate(model, train, test, others={"c": colour}, out=out, **asked)
    assert sorted(result["files"]) == sorted(path.name for path in out.iterdir())
    assert json.loads((out / "evaluation.json").read_text()) == json.loads(json.dumps(result))
    with Image.open(out / "samples.png") as picture:
        assert picture.width <= 20 * 10 - 2 and (picture.height + 2) % 10 == 0
    again = evaluate(model, train, test, out=out, **CHEAP)
    assert sorted(path.name for path in out.iterdir()) == again["files"]


def test_the_result_says_when_the_test_data_is_the_training_data(model, train, test):
    result = evaluate(model, train, train, n_samples=0)
    assert result["data"]["test_is_train"] and "which is the training data" in heading(result)
    assert "training data" in result["probe"]["skipped"]
    other = evaluate(model, train, test, **CHEAP)
    assert not other["data"]["test_is_train"]
    assert "which is the training data" not in heading(other)


def test_without_labels_there_are_no_scores_of_clusters(model, train, test):
    result = evaluate(model, train, unlabelled("plain", test.x), n_samples=0)
    assert result["clustering"]["skipped"] == "plain has no labels"
    assert "labels" in result["probe"]["skipped"] and "nmi" not in result["clustering"]


def test_images_are_in_rows_with_white_lines_between_sorted_by_label():
    grey = np.array([1, 2, 3, 4], dtype=np.uint8)[:, None, None, None]
    images = np.broadcast_to(grey, (4, 3, 3, 4))
    grid = image_grid(images[:3], np.array([7, 0, 7]), columns=2)
    assert grid.shape == (2 * 3 + 2, 2 * 4 + 2, 3) and grid.dtype == np.uint8
    assert grid[::5, ::6, 0].tolist() == [[2, 1], [3, 255]]
    assert (grid[3:5] == 255).all() and (grid[:, 4:6] == 255).all() and (grid[:3, :4] == 2).all()


def test_a_grid_keeps_pixels_and_channels_and_is_as_wide_as_its_rows():
    image = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    grid = image_grid(image, np.zeros(2), columns=9)
    assert grid.shape == (4, 5 + 2 + 5, 3)
    for channel in range(3):
        assert (grid[:, :5, channel] == image[0, channel]).all()
        assert (grid[:, 7:, channel] == image[1, channel]).all()


def test_scores_that_are_not_finite_are_reported_without_an_error(model, train, test, colour):
    broken = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in broken.model_.parameters():
            parameter.fill_(torch.nan)
    result = evaluate(broken, train, test, others={"c": colour}, n_samples=4, steps=1)
    assert result["frechet"] == {"skipped": "no samples"}
    numbers = result["ood"]["c"]
    assert "NaN or infinite" in numbers["scores"]["log_density"]["skipped"]
    assert "auroc" in numbers["trivial"]["mean_pixel"]
    assert result["samples"]["finite"] == 0 and "NaN" in result["probe"]["skipped"]
    assert any(value == "-" for _, value, _ in table(result))


@pytest.fixture(scope="module")
def points() -> tuple[GEDI, Dataset]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    x = rng.normal(size=(120, 3)) + 8.0 * y[:, None]
    short = {"density.iterations": 5, "training.check_every": 10, "optimizer.batch_size": 60}
    model = gedi(2, random_state=0, max_iter=30, **short).fit(x)
    return model, Dataset("two", x, y, None, "made up")


def test_vectors_have_everything_but_pictures_of_images(points, tmp_path):
    model, data = points
    far = unlabelled("far", 3 * data.x - 6)
    fresh = Dataset("fresh", data.x + 0.01, data.y, None, "made up")
    result = evaluate(model, data, fresh, others={"far": far}, n_samples=9, steps=3, out=tmp_path)
    assert result["files"] == ["evaluation.json"]
    assert result["frechet"] == {"skipped": "only for images with 1 or 3 channels"}
    assert result["samples"]["n"] == 9 and result["clustering"]["batchwise_nmi"]["chance"] < 0.1
    trivial = result["ood"]["far"]["trivial"]
    assert list(trivial) == ["distance_from_mean"]
    assert trivial["distance_from_mean"]["direction"] == "lower inside"
    standard = (fresh.x - data.x.mean(0)) / data.x.std(0), (far.x - data.x.mean(0)) / data.x.std(0)
    norms = [-np.linalg.norm(part, axis=1) for part in standard]
    assert trivial["distance_from_mean"]["auroc"] == pytest.approx(roc(*norms).auroc)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"probe": "slow"}, "probe='slow'"),
        ({"n_samples": -1}, "n_samples=-1"),
        ({"steps": -1}, "steps=-1"),
        ({"steps": 10**15}, "from 0 to 100000000"),
        ({"test": unlabelled("wide", np.zeros((3, 1, 8, 9)))}, "wide has points of shape"),
        ({"train": unlabelled("flat", np.zeros((3, 64)))}, "flat has points of shape"),
        ({"others": {"flat": unlabelled("", np.zeros((3, 64)))}}, "flat has points of shape"),
    ],
)
def test_bad_input_is_one_line_before_any_work(model, train, test, change, words, tmp_path):
    arguments = {"train": train, "test": test, "out": tmp_path / "out", **CHEAP} | change
    with pytest.raises(InputError) as caught:
        evaluate(model, **arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
