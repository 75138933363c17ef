"""The image experiments, on small synthetic images and with short training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from gedilearn import GEDI, evaluation
from gedilearn.data.dataset import Dataset
from gedilearn.errors import InputError
from gedilearn.experiments import images
from gedilearn.experiments.images import SCALES, SHAPE
from gedilearn.experiments.runner import Runner, asked_for
from gedilearn.io import read_json_lines
from gedilearn.pretrained import EfficientNetLite0
from gedilearn.settings import resolve
from gedilearn.training import loop

SHORT = {
    "n_clusters": 3,
    "network.width": 4,
    "network.head": (8,),
    "optimizer.batch_size": 16,
    "sampler.buffer": 40,
    "sampler.steps": 2,
    "training.check_every": 2,
    "training.checkpoint_every": 0,
}
ASKED = {
    "iterations": 6,
    "changes": SHORT,
    **{"samples": 6, "steps": 2, "probe": "fast"},
}


def coloured(n, seed):
    """Three classes, each of one colour, with noise: k-means finds them, short training may not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    x = rng.integers(0, 60, (n, 3, 8, 8))
    x[np.arange(n), y] += 150
    return Dataset("coloured", x.astype(np.uint8), y, None, "made up")


SETS = coloured(64, 0), coloured(70, 1)
OTHERS = {"svhn, first 30": coloured(30, 2)}
RUN = {"data": ["cifar10"], "seeds": [0], "ood": OTHERS, "sets": SETS}


@pytest.fixture(autouse=True)
def small_measurements(tmp_path, monkeypatch):
    """No cache, and no Frechet distance, which is slow and not ours."""
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "no-cache"))
    monkeypatch.setattr(EfficientNetLite0, "package", "no_such_package")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def rows(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEDI_CACHE", str(root / "no-cache"))
        patch.setattr(EfficientNetLite0, "package", "no_such_package")
        return again(root)


@pytest.fixture(scope="module")
def out(root, rows):
    return next(root.glob("cifar10-small-*"))


def again(root, **others):
    images.run(Runner(root), **(RUN | ASKED | others))
    return read_json_lines(next(root.glob("cifar10-small-*/rows.jsonl")))


def row_of(rows, method):
    (row,) = [r for r in rows if r["method"] == method]
    return row


# --- rows


def test_every_method_and_kmeans_have_a_row_of_plain_values(rows, out):
    assert [r["method"] for r in rows] == ["k-means", "jem", "barlow", "swav", "no-gen", "gedi"]
    assert json.loads(json.dumps(rows)) == rows
    for row in rows[1:]:
        assert row["scale"] == "small" and row["shortened_to"] == 6
        assert row["iterations"] == 6
        assert row["seconds"] > 0 and row["evaluation_seconds"] > 0
        name = f"cifar10-{row['method']}-0"
        assert (out / "evaluations" / name / "samples.png").exists()
        assert (out / "runs" / name / "model.safetensors").exists()


def test_scores_are_those_of_the_kept_model_on_the_test_images(rows, out):
    test = SETS[1]
    for method in ("no-gen", "gedi"):
        row = row_of(rows, method)
        labels = GEDI.load(out / "runs" / f"cifar10-{method}-0" / "model.safetensors").predict(
            test.x
        )
        assert row["nmi"] == pytest.approx(normalized_mutual_info_score(test.y, labels))
        assert row["ami"] == pytest.approx(adjusted_mutual_info_score(test.y, labels))
        assert row["clusters_used"] == len(set(labels.tolist()))


def test_kmeans_on_pixels_is_fitted_to_training_and_scored_on_test_images(rows):
    row = row_of(rows, "k-means")
    assert row["nmi"] == row["accuracy"] == pytest.approx(1)
    assert row["batchwise_nmi"] == pytest.approx(1) and 0 < row["batchwise_chance"] < 0.3
    assert "gap" not in row and "ood" not in row


def test_sets_outside_have_an_area_for_every_score(rows):
    areas = dict(row_of(rows, "gedi")["ood"]["svhn, first 30"])
    assert areas.pop("n") == 30
    names = {"log_density", "gradient_norm", "confidence", "energy", "mean_pixel", "nonzero_share"}
    assert set(areas) == names and all(0 <= area <= 1 for area in areas.values())


# --- going on


def test_a_finished_row_is_never_made_again(rows, root, monkeypatch):
    monkeypatch.setattr(loop, "step", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(evaluation, "evaluate", lambda *_, **__: pytest.fail("measured again"))
    assert again(root) == rows


def test_without_its_rows_a_folder_is_measured_again_but_not_trained(rows, root, out, monkeypatch):
    monkeypatch.setattr(loop, "step", lambda *_: pytest.fail("trained again"))
    (out / "rows.jsonl").unlink()
    (out / "config.json").unlink()
    found = again(root)
    clocks = ("seconds", "evaluation_seconds")
    assert [[r[k] for k in r if k not in clocks] for r in found] == [
        [r[k] for k in r if k not in clocks] for r in rows
    ]
    assert row_of(found, "gedi")["seconds"] == row_of(rows, "gedi")["seconds"]


def test_an_interrupted_training_goes_on_in_the_middle(rows, tmp_path, monkeypatch):
    step, taken = loop.step, []

    def interrupted(setup, state):
        taken.append(state.iteration)
        if len(taken) == 5:
            raise KeyboardInterrupt
        return step(setup, state)

    monkeypatch.setattr(loop, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again(tmp_path, methods=["no-gen"])
    found = again(tmp_path, methods=["no-gen"])
    assert taken == [1, 2, 3, 4, 5, 5, 6]
    whole = row_of(rows, "no-gen")
    for name in ("nmi", "gap", "iterations", "probe", "ood"):
        assert row_of(found, "no-gen")[name] == whole[name]


def test_a_model_of_other_settings_is_not_taken(out, tmp_path):
    asked = asked_for(6, SHORT | {"weights.inv": 3.0}, scale="small")
    values = images.values_of("cifar10", "jem", asked)
    with pytest.raises(InputError, match=r"cifar10-jem-0 was trained with other settings: remove"):
        images.train(SETS[0].x, values, out / "runs" / "cifar10-jem-0")


# --- options


def test_by_default_the_papers_sets_have_five_methods_and_our_own_two(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(Runner, "rows", lambda self, cells, *_: seen.extend(cells))
    monkeypatch.setattr(Runner, "finish", lambda *_: [])
    images.run(Runner(tmp_path), ["svhn"], sets=SETS)
    assert [cell.method for cell in seen] == ["k-means", *images.METHODS]
    seen.clear()
    images.run(Runner(tmp_path), ["digits"])
    assert [cell.method for cell in seen] == ["k-means", "no-gen", "gedi"] * 5


def test_default_settings_are_those_of_the_estimator_for_images():
    values = images.values_of("mnist", "gedi", asked_for(None, None, scale="default"))
    settings = resolve(values, SHAPE)
    assert settings == GEDI(10, random_state=0).resolve(SHAPE)


def test_shorter_training_shortens_both_stages():
    for scale, density in (("small", 7), ("paper", 0)):
        values = images.values_of("cifar10", "gedi", asked_for(7, None, scale=scale))
        settings = resolve(values, SHAPE)
        assert (settings.training.max_iter, settings.density.iterations) == (7, density)


def test_the_papers_scale_is_measured_by_its_protocol():
    assert (SCALES["paper"].samples, SCALES["paper"].probe) == (5_000, "paper")
    assert (SCALES["small"].samples, SCALES["small"].probe) == (500, "fast")


def test_the_table_has_the_papers_numbers_beside_ours(rows):
    own, ood = images.tables(rows)
    gedi, jem = own.lines[-1], own.lines[1]
    assert [gedi[f"paper's {name}"] for name in ("NMI", "probe", "FID")] == ["0.45", "0.53", "197"]
    assert jem["paper's FID"] == "263" and own.lines[0]["paper's NMI"] == ""
    assert gedi["NMI"] == f"{row_of(rows, 'gedi')['nmi']:.3f}"
    assert own.title.startswith("CIFAR-10, scaled down (small/cifar10), 6 iterations")
    assert ood.lines[-1]["outside"] == "svhn, first 30 (30)" and ood.lines[-1]["paper's"] == "0.57"


# --- sets


def test_the_digits_are_images_split_once_for_all():
    train, test = images.load_sets("digits")
    assert train.x.shape == (1297, 1, 8, 8) and test.x.shape == (500, 1, 8, 8)
    from sklearn.datasets import load_digits

    whole = {x.tobytes() for x in load_digits().images.astype(np.float32)}
    both = {x.tobytes() for x in np.concatenate([train.x, test.x])}
    assert both == whole
    again = images.load_sets("digits")[1]
    assert np.array_equal(again.x, test.x) and np.bincount(test.y).min() > 30


def test_shuffled_patches_hold_the_same_pixels_in_other_places():
    x = np.random.default_rng(0).integers(0, 256, (5, 1, 28, 28), dtype=np.uint8)
    mixed = images.shuffled_patches(x)
    assert mixed.shape == x.shape and mixed.dtype == x.dtype
    for old, new in zip(x, mixed, strict=True):
        # brute force: every 7x7 patch is somewhere else, or where it was, exactly once
        cut = [
            {
                image[0, i : i + 7, j : j + 7].tobytes()
                for i in range(0, 28, 7)
                for j in range(0, 28, 7)
            }
            for image in (old, new)
        ]
        assert cut[0] == cut[1] and len(cut[0]) == 16
        assert not np.array_equal(old, new)
    first, second = ((new != old).reshape(-1) for old, new in zip(x[:2], mixed[:2], strict=True))
    assert not np.array_equal(first, second)  # each image in its own way


@pytest.mark.parametrize(
    ("other", "name", "same"),
    [
        ("svhn", "svhn", True),
        ("svhn-first-1083", "svhn", True),
        ("SVHN, first 1083", "svhn", True),
        ("cifar100", "cifar10", False),
        ("cifar-100 first 916", "cifar100", True),
        ("cifar-100 first 916", "cifar10", False),
        ("textures", "svhn", False),
    ],
)
def test_a_part_of_a_set_stands_for_the_set(other, name, same):
    assert images.stands_for(other, name) is same


def test_the_papers_pairs_are_taken_from_the_cache_unless_a_part_is_given(monkeypatch):
    monkeypatch.setattr(images, "is_cached", lambda name: name != "fashion-mnist")
    monkeypatch.setattr(images, "open_set", lambda name, split: f"{name}:{split}")
    test = coloured(3, 0)
    assert images.load_others("cifar10", test, {}) == {
        "svhn": "svhn:test",
        "cifar100": "cifar100:test",
    }
    given = images.load_others("cifar10", test, OTHERS)
    assert list(given) == ["cifar100", "svhn, first 30"]
    assert list(images.load_others("mnist", test, {})) == ["shuffled patches"]
