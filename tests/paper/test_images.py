"""The image experiments, on small synthetic images and with short training."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from gedilearn import GEDI, evaluation
from gedilearn.data.dataset import Dataset
from gedilearn.io import read_json_lines
from gedilearn.paper import images
from gedilearn.paper.images import SCALES, SHAPE
from gedilearn.paper.runner import Runner
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
    "training.max_iter": 6,
    "density.iterations": 6,
    "optimizer.warmup": 0,
}
ASKED = {"changes": SHORT, "samples": 6, "steps": 2}


def coloured(n, seed):
    """Three classes, each of one colour, with noise."""
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


def test_every_method_has_a_row_of_plain_values(rows, out):
    assert [r["method"] for r in rows] == ["jem", "barlow", "swav", "no-gen", "gedi"]
    assert json.loads(json.dumps(rows)) == rows
    for row in rows:
        stages = 2 if row["method"] == "gedi" else 1
        assert row["scale"] == "small" and row["iterations"] == 6 * stages
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
    for name in ("nmi", "bound_gap", "iterations", "probe", "ood"):
        assert row_of(found, "no-gen")[name] == whole[name]


# --- options


def test_by_default_the_papers_sets_have_five_methods_and_our_own_two(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(Runner, "rows", lambda self, cells, *_: seen.extend(cells))
    monkeypatch.setattr(Runner, "finish", lambda *_: [])
    images.run(Runner(tmp_path), ["svhn"], sets=SETS)
    assert [cell.method for cell in seen] == [*images.METHODS]
    seen.clear()
    images.run(Runner(tmp_path), ["digits"])
    assert [cell.method for cell in seen] == ["no-gen", "gedi"] * 5


def test_default_settings_are_those_of_the_estimator_for_images():
    for data, classes in (("mnist", 10), ("cifar100", 100)):
        values = images.values_of(data, "gedi", {"scale": "default"})
        settings = resolve(values, SHAPE)
        assert settings == GEDI(classes, random_state=0).resolve(SHAPE)


def test_the_papers_scale_is_measured_by_its_protocol():
    assert (SCALES["paper"].samples, SCALES["paper"].probe) == (5_000, "paper")
    assert (SCALES["small"].samples, SCALES["small"].probe) == (500, "fast")


def test_the_table_has_the_papers_numbers_beside_ours(rows):
    own, ood = images.tables(rows)
    gedi, jem = own.lines[-1], own.lines[0]
    assert [gedi[f"paper's {name}"] for name in ("NMI", "probe", "FID")] == ["0.45", "0.53", "197"]
    assert jem["paper's FID"] == "263"
    assert gedi["NMI"] == f"{row_of(rows, 'gedi')['nmi']:.3f}"
    assert own.title.startswith("CIFAR-10, scaled down (small/cifar10), n_clusters=3")
    assert ood.lines[-1]["outside"] == "svhn, first 30 (30)" and ood.lines[-1]["paper's"] == "0.57"


def test_the_tables_say_whose_log_p_is(rows, out):
    own, ood = images.tables(rows)
    assert [line["log p(x) of"] for line in own.lines] == [*["network"] * 4, "base"]
    assert [line["log p(x) of"] for line in ood.lines] == [*["network"] * 4, "base"]
    model = GEDI.load(out / "runs" / "cifar10-gedi-0" / "model.safetensors")
    x = torch.from_numpy(model.scaling_.apply(model.validate(SETS[1].x[:5])))
    base = model.result_.density
    y, volume = base.coordinates(base.coordinates.values_of(x))
    alone = base.mixture.log_density(y) + volume
    assert model.result_.scores(x, "log_density") == pytest.approx(alone.numpy(), rel=1e-5)


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
    assert images.load_others("cifar10", {}) == {
        "svhn": "svhn:test",
        "cifar100": "cifar100:test",
    }
    given = images.load_others("cifar10", OTHERS)
    assert list(given) == ["cifar100", "svhn, first 30"]
    assert images.load_others("mnist", {}) == {}


# --- the plan


def test_a_dry_run_says_what_is_missing_and_counts_the_passes(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(EfficientNetLite0, "package", "no_such_package")
    small = {"network.width": 4, "sampler.buffer": 128, "sampler.steps": 3}
    asked = {"scale": "paper", "methods": ["no-gen", "gedi"], "seeds": range(2), "changes": small}
    needs, made = images.run(Runner(tmp_path / "out"), ["cifar10"], dry_run=True, **asked)
    state = {line["what"]: line["state"] for line in needs.lines}
    assert state["cifar10"] == "missing: gedi data get cifar10"
    assert "missing" in state["weights for Frechet distances"]
    assert state["training images"] == "614 MB in single precision"
    # An image and a view, 3 passes each; GEDI trains on samples too, drawn in 3 steps of 2 passes.
    passes = [line["passes of a batch"] for line in made.lines]
    assert passes == [f"{156_250 * n:.3g}" for n in (2 * 3, 3 * 3 + 3 * 2)]
    assert [line["chains, MB"] for line in made.lines] == ["0", "2"]
    seconds = [float(line["hours a seed"]) for line in made.lines]
    assert 0 < seconds[0] < seconds[1]
    assert float(made.lines[1]["hours"]) == pytest.approx(2 * seconds[1], rel=0.01)
    assert not (tmp_path / "out").exists()
