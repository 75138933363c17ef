"""The paper's table on moons and circles, on few points and with short training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import normalized_mutual_info_score
from typer.testing import CliRunner

from gedilearn.cli import app
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.experiments import toy, toy_tables
from gedilearn.experiments.runner import Cell, Runner
from gedilearn.presets import ABOUT, CHOSEN, preset
from gedilearn.registry import METHODS
from gedilearn.settings import resolve, settings_type

SHORT = {
    "optimizer.batch_size": 40,
    "training.check_every": 10,
    "network.hidden": (8,),
    "sampler.buffer": 100,
    "sampler.chains": 40,
}
ASKED = {"preset": "paper/toy", "iterations": 20, "n": 60, "changes": SHORT, "together": 2}
COMMANDS = ("toy", "labels", "generation", "sensitivity")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def out(root):
    return root / "made"


@pytest.fixture(scope="module")
def rows(out):
    return toy.run([0, 1, 2], runner=Runner(out), **ASKED)


def find(rows, data, method, seed):
    (row,) = [r for r in rows if (r["data"], r["method"], r["seed"]) == (data, method, seed)]
    return row


def made_up(nmi, seed=0, **others):
    row = {"data": "moons", "method": "gedi", "seed": seed, "preset": "default"}
    row |= {
        "shortened_to": None,
        "changes": None,
        "nmi": nmi,
        "ami": nmi - 0.001,
        "accuracy": nmi,
        "gap": 0.001,
    }
    row |= {"certified": True, "verdict": "certified", "modes": [], "stopped": "certified"}
    row |= {"recoveries": 0, "iterations": 500, "together": 5, "seconds": 1.0 + seed}
    return row | others


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(toy, "fit_together", lambda *_: pytest.fail("trained again"))


# --- settings


def of_points(values):
    return resolve(values, (60, 2))


def as_stated(values):
    """What is left to the data stays open."""
    return settings_type().model_validate(values)


def test_jem_alone_differs_from_gedi_in_the_papers_settings():
    base = as_stated(preset("paper/toy-literal"))
    assert base.sampler.steps == 1
    for method in METHODS:
        expected = {"method": method}
        if method == "jem":
            expected["sampler"] = base.sampler.model_copy(update={"steps": 10})
        assert as_stated(preset("paper/toy-literal", method)) == base.model_copy(update=expected)


def test_methods_under_the_papers_preset_differ_in_what_the_gap_can_choose():
    base = as_stated(preset("paper/toy"))
    for method in METHODS:
        expected = {"method": method}
        if method in ("jem", "no-unif", "no-inv", "barlow", "ebclr"):
            expected["training"] = base.training.model_copy(update={"n_init": 1})
        if method not in ("gedi", "no-gen", "no-inv", "no-unif"):
            expected["optimizer"] = as_stated(preset("paper/toy-literal")).optimizer
            expected["views"] = as_stated(preset("paper/toy-literal")).views
        if method == "jem":
            expected["views"] = base.views
            expected["sampler"] = base.sampler.model_copy(update={"steps": 10})
        assert as_stated(preset("paper/toy", method)) == base.model_copy(update=expected)


def test_a_shortened_training_warms_up_for_its_share():
    def warmup(iterations):
        return toy.values_of("paper/toy", "no-gen", iterations)["optimizer"]["warmup"]

    assert (warmup(None), warmup(2_000), warmup(40_000)) == (10_000, 1_000, 10_000)


def test_the_default_preset_changes_nothing_but_the_method():
    assert of_points(preset("default", "swav")) == of_points({"method": "swav"})


@pytest.mark.parametrize(
    ("asked", "says"),
    [(("paper/toi", "gedi"), "did you mean 'paper/toy'"), (("default", "gedy"), "mean 'gedi'")],
)
def test_an_unknown_preset_or_method_is_answered_with_the_nearest(asked, says):
    with pytest.raises(InputError, match=says):
        toy.values_of(*asked, None)


def test_a_preset_of_images_is_refused_for_points():
    with pytest.raises(InputError, match=r"unknown preset 'paper/cifar10' .*paper/toy"):
        toy.values_of("paper/cifar10", "gedi", None)


def test_the_command_offers_every_method_of_the_settings():
    known = METHODS
    assert set(METHODS) == set(known) == {*toy.METHODS, *toy.OTHERS}


def test_shorter_training_shortens_both_stages():
    settings = of_points(toy.values_of("default", "gedi", 30))
    assert (settings.training.max_iter, settings.density.iterations) == (30, 30)
    assert of_points(toy.values_of("paper/toy-literal", "gedi", 30)).density.iterations == 0


# --- running


def test_every_method_has_a_row_a_seed_and_barlow_two(rows):
    names = ["jem", "barlow", "barlow k-means", *toy.METHODS[2:]]
    for data in ("moons", "circles"):
        for seed in (0, 1, 2):
            assert [r["method"] for r in rows if (r["data"], r["seed"]) == (data, seed)] == names
    assert json.loads(json.dumps(rows)) == rows
    assert {r["shortened_to"] for r in rows} == {20}
    two_stages = {r["method"] for r in rows if r["iterations"] == 40}
    assert two_stages == {"gedi", "no-inv", "no-unif"}
    assert {r["iterations"] for r in rows if r["method"] not in two_stages} == {20}
    assert {(r["seed"], r["together"]) for r in rows} == {(0, 2), (1, 2), (2, 1)}


@pytest.mark.parametrize("data", ["moons", "circles"])
def test_a_row_scores_the_kept_model_on_fresh_points(rows, out, data):
    make, options = {"moons": (make_moons, {}), "circles": (make_circles, {"factor": 0.5})}[data]
    x, y = make(60, noise=0.05, random_state=1_000_001, **options)
    train, _ = make(60, noise=0.05, random_state=1, **options)
    for method in ("no-inv", "barlow", "barlow k-means"):
        model = GEDI.load(toy.model_file(out / "models", (data, method, 1)))
        row = find(rows, data, method, 1)
        assert row["nmi"] == pytest.approx(normalized_mutual_info_score(y, model.predict(x)))
        assert np.array_equal(model.predict(train), model.labels_)
        assert row["gap"] == pytest.approx(model.certificate_gap_)
        assert row["seconds"] == pytest.approx(model.seconds_ / 2, abs=0.002)


def test_barlow_with_k_means_is_what_training_it_so_gives():
    x = make_circles(60, noise=0.05, factor=0.5, random_state=3)[0]
    values = toy.values_of("paper/toy", "barlow", 20, SHORT)
    found = toy.train(Cell("circles", "barlow", (3,), ("barlow",)), 60, values)
    values["barlow"] = {"assign": "kmeans"}
    (trained,) = toy.fit_together([x], toy.seeded(values, 3, 60))
    assert np.array_equal(found["barlow k-means", 3].labels_, trained.labels_)
    assert found["barlow k-means", 3].settings_ == trained.settings_
    assert np.allclose(found["barlow k-means", 3].predict_proba(x), trained.predict_proba(x))
    alone = found["barlow", 3]
    assert not np.allclose(alone.predict_proba(x), trained.predict_proba(x))
    assert alone.settings_.barlow.assign == "argmax"


def test_a_second_call_trains_nothing(rows, out, no_training):
    assert toy.run([0, 1, 2], runner=Runner(out), **ASKED) == rows
    some = toy.run([1], ["circles"], ["gedi"], runner=Runner(out), **ASKED)
    assert some == [find(rows, "circles", "gedi", 1)]


def test_after_an_interruption_only_what_is_missing_is_trained(rows, out, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text((out / "config.json").read_text())
    done = [r for r in rows if r["method"] != "no-gen" or r["seed"] == 0]
    lines = [json.dumps(r) + "\n" for r in done]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    real, trained = toy.fit_together, []

    def recorded(data, settings):
        trained.append((settings.method, len(data)))
        return real(data, settings)

    monkeypatch.setattr(toy, "fit_together", recorded)
    again = toy.run([0, 1, 2], runner=Runner(tmp_path), **ASKED)
    assert trained == [("no-gen", 1)] * 4
    # A seed that trains alone, as before, gives what it gave before.
    same = [find(found, "moons", "no-gen", 2) for found in (again, rows)]
    assert same[0]["nmi"] == same[1]["nmi"] and same[0]["gap"] == same[1]["gap"]


@pytest.mark.parametrize(
    ("name", "guard", "sizes"),
    [
        ("paper/toy-literal", "ignore", [10, 2]),
        ("paper/toy-literal", "recover", [1] * 12),
        ("paper/toy-literal", "stop", [1] * 12),
        ("default", "recover", [1] * 12),
        ("default", "ignore", [10, 2]),
    ],
)
def test_seeds_train_side_by_side_where_no_guard_stops_one_for_another(
    monkeypatch, name, guard, sizes
):
    seen = []
    monkeypatch.setattr(
        toy,
        "fit",
        lambda cell, *_, **__: (
            seen.append(len(cell.seeds)),
            [made_up(1.0, seed) for seed in cell.seeds],
        )[1],
    )
    changes = {"training.on_divergence": guard}
    toy.run(range(12), ["moons"], ["gedi"], preset=name, changes=changes)
    assert seen == sizes


def test_a_folder_of_another_preset_is_refused(rows, out):
    with pytest.raises(InputError, match="other settings"):
        toy.run([0], runner=Runner(out), **(ASKED | {"preset": "default"}))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"data": ["moon"]}, "did you mean 'moons'"),
        ({"methods": ["gedy"]}, "did you mean 'gedi'"),
        ({"preset": "paper/toi"}, "did you mean 'paper/toy'"),
        ({"seeds": []}, "at least one seed"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_fit(asked, says, no_training):
    with pytest.raises(InputError, match=says):
        toy.run(**({"seeds": [0]} | asked))


# --- judging


def test_the_page_judges_every_preset_found(rows, root, out, tmp_path):
    text = toy_tables.page(root).text
    assert "gedi reproduce toy --preset paper/toy --seeds 3 --iterations 20 --set opt" in text
    assert "Seeds 0, 1, 2; 60 points" in text and "scikit-learn " in text
    assert "ends the training of no gen and GEDI, all others train to the end; " in text
    assert f"{ABOUT['paper/toy']} {CHOSEN['paper/toy']}" in text
    assert "; the guard is on (recover); up to 2 seeds side by side; " in text
    assert (
        all(rule in text for rule in toy_tables.RULES)
        and "Not run" not in text
        and "(labels-" not in text
    )
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| moons |")]
    assert len(cells) == 8
    groups = toy_tables.tables(rows)[0].groups
    assert len(groups) == 16
    for group, cell in zip(groups, cells, strict=False):
        assert cell[1] == toy.NAMES[group[0]["method"]]
        assert cell[2] == "3" and cell[6] == toy_tables.judged(group)
        assert cell[7] == toy_tables.reason(group)
    for name in ("config.json", "rows.jsonl"):
        (tmp_path / "some").mkdir(exist_ok=True)
        lines = (out / name).read_text()
        (tmp_path / "some" / name).write_text(
            lines
            if name == "config.json"
            else json.dumps(json.loads(lines.splitlines()[0]) | {"changes": None})
        )
    (tmp_path / "some" / "labels.png").write_bytes(b"")
    text = toy_tables.page(tmp_path).text
    assert "--data moons --methods jem" in text and "Not run: circles JEM, moons SwAV" in text
    assert "(labels-some.png)" in text
    assert toy_tables.page(tmp_path).pictures == {
        "labels-some.png": tmp_path / "some" / "labels.png"
    }
    lines = (out / "rows.jsonl").read_text().splitlines()
    without = [line for line in lines if not ('"swav"' in line and '"seed": 2' in line)]
    assert len(without) < len(lines)
    (tmp_path / "some" / "rows.jsonl").write_text("\n".join(without) + "\n")
    assert (
        "Seeds 0, 1, 2 (not all of them for every method: SwAV 2);"
        in toy_tables.page(tmp_path).text
    )
    begun = tmp_path / "elsewhere" / "begun"
    begun.mkdir(parents=True)
    (begun / "rows.jsonl").write_text("")
    with pytest.raises(InputError, match="holds no rows"):
        toy_tables.page(tmp_path / "elsewhere")


def kept(root, name, rows, guard, ended=()):
    """A folder with rows, as `toy.run` would keep it."""
    preset, changes = rows[0]["preset"], rows[0]["changes"] or {}
    settings = {"preset": preset, "iterations": None, "changes": changes, "together": 1}
    settings |= {"ended_by_certificate": list(ended), "on_divergence": guard}
    (root / name).mkdir()
    (root / name / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {"n": 1000, "settings": settings, "versions": {"torch": "2"}}
    (root / name / "config.json").write_text(json.dumps(config))


def test_the_page_holds_the_guard_against_no_guard(tmp_path):
    literal = {"preset": "paper/toy-literal", "certified": False, "stopped": "budget"}
    gone = {"stopped": "diverged", "verdict": "not certified; training diverged at iteration 9"}
    back = {"verdict": "not certified; training diverged at iteration 9, but not at the end"}
    off = [
        *(made_up(0.2, s, **literal | gone) for s in (0, 1)),
        made_up(0.6, 2, **literal | back),
        made_up(0.9, 3, **literal),  # a seed that the other run does not have
        made_up(0.1, 0, method="swav", **literal),
    ]
    on = literal | {"changes": {"training.on_divergence": "recover"}}
    on = [
        made_up(1.0, 0, **on | {"certified": True, "recoveries": 2}),
        made_up(0.8, 1, **on | gone | {"recoveries": 5}),
        made_up(0.6, 2, **on),
    ]
    kept(tmp_path, "off", off, "ignore")
    kept(tmp_path, "on", on, "recover", ended=("gedi", "no-gen"))
    kept(tmp_path, "other", [made_up(1.0, 0)], "recover")
    text = toy_tables.page(tmp_path).text
    before, section = text.split("## What the guard does")
    assert "## Preset paper/toy-literal, training.on_divergence=recover" in before
    assert "--seeds 3 --data moons --methods gedi --set training.on_divergence=recover" in before
    assert "; all train to the end; the guard is off (ignore); " in before
    assert "; a certificate ends the training; the guard is on (recover); " in before
    assert [line for line in section.splitlines() if line.startswith("|")][2:] == [
        "| moons | GEDI | the guard is on (recover) | 3 | 0.80 ± 0.16 | 1/3 | 2/3 | 1/3 | 1/3 |",
        "| moons | GEDI | the guard is off (ignore) | 3 | 0.33 ± 0.19 | 0/3 | 3/3 | 0/3 | 2/3 |",
    ]
    assert section.count("### ") == 1 and "### Preset paper/toy-literal\n" in section


def test_without_two_runs_that_differ_in_the_guard_there_is_nothing_to_compare(tmp_path):
    kept(tmp_path, "off", [made_up(1.0)], "recover")
    kept(tmp_path, "on", [made_up(1.0, changes={"training.tol": 0.1})], "ignore")
    assert "What the guard does" not in toy_tables.page(tmp_path).text


def test_what_ends_the_training_and_the_guard_are_kept_with_the_rows(out, rows):
    settings = json.loads((out / "config.json").read_text())["settings"]
    assert settings["ended_by_certificate"] == ["no-gen", "gedi"]
    assert settings["on_divergence"] == "recover"
    values = {m: toy.values_of("paper/toy-literal", m, None) for m in toy.METHODS}
    facts = {"ended_by_certificate": [], "on_divergence": "ignore"}
    assert toy.training_facts(values) == facts


# --- commands


def gedi(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_writes_table_csv_and_figure_and_says_it_was_short(tmp_path, monkeypatch):
    monkeypatch.setattr(
        toy,
        "fit",
        lambda cell, n, settings, models: [
            made_up(1.0, seed, shortened_to=settings["iterations"]) for seed in cell.seeds
        ],
    )
    asked = ["--seeds", 2, "--data", "moons", "--methods", "gedi", "--iterations", 7]
    result = gedi("reproduce", "toy", *asked, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "shortened to 7 iterations" in " ".join(result.output.split())
    folder = tmp_path / "default-7-iterations"
    assert (folder / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert "shortened to 7 iterations" in (folder / "toy.md").read_text()
    head, *lines = (folder / "toy.csv").read_text().splitlines()
    assert head.startswith("data,method,seed,preset,shortened_to,changes,nmi") and len(lines) == 2


def test_runs_of_other_settings_have_folders_and_titles_of_their_own(tmp_path, monkeypatch):
    def fit(cell, n, settings, models):
        assert settings["methods"]["gedi"]["training"]["on_divergence"] == "recover"
        changes = {"changes": settings["changes"], "preset": settings["preset"]}
        return [made_up(1.0, seed, **changes) for seed in cell.seeds]

    monkeypatch.setattr(toy, "fit", fit)
    asked = ["--seeds", 1, "--data", "moons", "--methods", "gedi", "--preset", "paper/toy-literal"]
    change = ["--set", "training.on_divergence=recover", "--set", "network.hidden=[8, 8]"]
    result = gedi("reproduce", "toy", *asked, *change, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    folder = "paper-toy-literal-training.on_divergence=recover-network.hidden=-8-8-"
    words = "Preset paper/toy-literal, training.on_divergence=recover, network.hidden=[8, 8]."
    assert words in (tmp_path / folder / "toy.md").read_text()
    page = toy_tables.page(tmp_path).text
    assert "--set training.on_divergence=recover --set 'network.hidden=[8, 8]'\n" in page


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        *((name, ("--preset", "paper/toi")) for name in COMMANDS),
        *((name, ("--data", "moonz")) for name in COMMANDS),
        *((name, ("--methods", "gedy")) for name in COMMANDS[:3]),
    ],
)
def test_a_wrong_name_is_one_line_and_exit_2(command, asked, tmp_path, no_training):
    result = gedi("reproduce", command, *asked, "--out", tmp_path / "new")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1 and "did you mean" in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_fit_takes_a_method_and_refuses_an_unknown_one(tmp_path):
    short = ["--set", "training.max_iter=2", "--set", "density.iterations=0", "--quiet"]
    run = tmp_path / "run"
    result = gedi("fit", "moons", "-k", 2, "--method", "no-gen", "--out", run, *short)
    assert result.exit_code == 0, result.output
    assert GEDI.load(run / "model.safetensors").settings_.method == "no-gen"
    result = gedi("fit", "moons", "-k", 2, "--method", "gedy")
    assert result.exit_code == 2 and "'gedy'" in result.stderr
