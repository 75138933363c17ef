import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sklearn.decomposition import PCA

from gedilearn import GEDI, panels
from gedilearn.errors import InputError
from gedilearn.report.figures import clusters_figure, draw_all, training_figure
from gedilearn.report.run import Run
from helpers import gedi

TINY = {
    "max_iter": 20,
    "training.check_every": 5,
    "density.base": "none",
    "density.iterations": 10,
    "network.hidden": (16,),
    "random_state": 0,
    "device": "cpu",
}


def fit(
    path: Path, x: np.ndarray, n_clusters: int, scaling: str = "standard", **settings: object
) -> Path:
    model = gedi(n_clusters=n_clusters, run_dir=path, **{**TINY, **settings})
    model.set_params(settings=model.settings | {"scaling": scaling}).fit(x)
    return path


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.random.default_rng(0).normal(size=(90, 2)) * (1, 50) + (0, 1000)
    return fit(tmp_path_factory.mktemp("runs") / "plane", x, 3, n_init=2)


@pytest.fixture
def run(plane: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, to be spoiled."""
    return Path(shutil.copytree(plane, tmp_path / "run"))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved, in order."""
    figures: list[Figure] = []
    save = panels.save

    def keep(fig: Figure, path: Path) -> Path:
        figures.append(fig)
        return save(fig, path)

    monkeypatch.setattr(panels, "save", keep)
    return figures


def overlapping(fig: Figure) -> list[tuple[str, str]]:
    """Pairs of titles, labels, notes and legends that lie on top of each other."""
    renderer = FigureCanvasAgg(fig).get_renderer()
    parts = [fig._suptitle, *fig.legends]  # type: ignore[attr-defined]
    for axes in fig.axes:
        parts += [axes.title, axes._left_title, *axes.texts]  # type: ignore[attr-defined]
        if axes.axison:
            parts += [axes.xaxis.label, axes.yaxis.label]
    boxes = []
    for part in parts:
        name = "legend" if isinstance(part, Legend) else part.get_text()
        if name:
            boxes.append((name, part.get_window_extent(renderer).padded(-1)))
    return [(a, b) for (a, x), (b, y) in itertools.combinations(boxes, 2) if x.overlaps(y)]


def write_summary(run: Path, **changes: object) -> None:
    file = run / "summary.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_all_figures_are_pictures_and_leave_pyplot_and_its_backend_alone(run: Path) -> None:
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("svg")
    paths = draw_all(run)
    assert pyplot.get_fignums() == []
    assert matplotlib.get_backend() == "svg"
    assert paths == [run / "figures" / "training.png", run / "figures" / "clusters.png"]
    for path in paths:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert picture.width > 1000
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 100
    assert sorted(p.name for p in (run / "figures").iterdir()) == ["clusters.png", "training.png"]


def test_the_training_figure_shows_every_term_member_and_event(
    run: Path, drawn: list[Figure]
) -> None:
    event = {"time": "t", "kind": "finding", "message": "odd", "iteration": 15}
    with open(run / "events.jsonl", "a") as file:
        file.write(json.dumps(event) + "\n")
    training_figure(run)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    terms = {axes.get_title(): axes for axes in drawn[0].axes}
    for title, name in {"INV (invariance)": "inv", "GEN (generative)": "gen"}.items():
        lines = [np.asarray(line.get_ydata(), float) for line in terms[title].lines]
        shown = {tuple(values[np.isfinite(values)]) for values in lines}
        expected = set()
        for member in (0, 1):
            of_both = [row[name][member] for row in rows if len(row.get(name, [])) == 2]
            of_kept = [row[name][0] for row in rows if len(row.get(name, [])) == 1]
            expected.add(tuple(of_both + (of_kept if member == rows[-1]["kept"] else [])))
        assert shown == expected
    gap = terms["gap to the optimum of Proposition 1"]
    assert gap.get_yscale() == "log"
    dashed = [line for line in gap.lines if line.get_linestyle() == "--"]
    assert [list(line.get_ydata()) for line in dashed] == [[0.002, 0.002]]
    dotted = {line.get_xdata()[0] for line in gap.lines if line.get_linestyle() == ":"}  # type: ignore[index]
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert dotted == {e["iteration"] for e in events} >= {15, 20}


def test_the_density_continues_the_line_of_the_kept_member(run: Path) -> None:
    rows = [
        {"iteration": 5, "inv": [1, 2, 3], "gap": [0.9, 0.3, "inf"], "kept": 1},
        {"iteration": 10, "inv": [4], "gen": [7], "gap": [0.2], "kept": 1},
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curves, nan = Run.read(run).curves(), np.nan
    assert curves.kept == 1
    np.testing.assert_array_equal(curves.gap, [[0.9, 0.3, np.inf], [nan, 0.2, nan]])
    np.testing.assert_array_equal(curves.terms["inv"], [[1, 2, 3], [nan, 4, nan]])
    np.testing.assert_array_equal(curves.terms["gen"], [[nan, nan, nan], [nan, 7, nan]])


def test_a_plane_shows_regions_density_and_samples_on_the_same_axes(
    run: Path, drawn: list[Figure]
) -> None:
    clusters_figure(run)
    left, middle, right = (axes for axes in drawn[0].axes if axes.get_title())
    assert left.get_xlim() == middle.get_xlim() == right.get_xlim()
    assert left.get_ylim() == middle.get_ylim() == right.get_ylim()
    model = GEDI.load(run / "model.safetensors")
    counts = [len(group.get_offsets()) for group in left.collections]
    assert counts == np.bincount(model.labels_, minlength=3).tolist()
    assert sum(len(group.get_offsets()) for group in right.collections) == 300
    for cluster, group in enumerate(right.collections):
        samples = np.asarray(group.get_offsets())
        assert all(model.predict(samples) == cluster) if len(samples) else True
    # The shade in a corner of the picture is that of the cluster predicted in that corner.
    picture = left.images[0].get_array()
    corner = np.array([[left.get_xlim()[0], left.get_ylim()[0]]])
    assert picture is not None
    np.testing.assert_allclose(picture[0, 0], panels.shade(int(model.predict(corner)[0])))
    legend = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert legend == [f"cluster {k} ({n})" for k, n in enumerate(counts)]


def test_vectors_are_shown_on_their_principal_components(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    x = np.random.default_rng(1).normal(size=(60, 5)) * (1, 2, 3, 4, 5)
    run = fit(tmp_path / "run", x, 2, scaling="none")
    clusters_figure(run)
    points, bars = drawn[0].axes
    shown = np.concatenate([np.asarray(group.get_offsets()) for group in points.collections])
    labels = GEDI.load(run / "model.safetensors").labels_
    expected = PCA(2).fit_transform(x)[np.argsort(labels, kind="stable")]
    np.testing.assert_allclose(np.abs(shown), np.abs(expected), atol=1e-9)
    share = PCA(2).fit(x).explained_variance_ratio_[0]
    assert f"{share:.0%}" in points.get_xlabel()
    widths = [bar.get_width() for bar in bars.patches]  # type: ignore[attr-defined]
    assert widths == np.bincount(labels, minlength=2).tolist()


def test_images_are_shown_in_the_row_of_their_cluster(tmp_path: Path, drawn: list[Figure]) -> None:
    x = np.random.default_rng(2).uniform(size=(10, 1, 8, 8))
    run = fit(tmp_path / "run", x, 2, max_iter=2)
    clusters_figure(run)
    labels = GEDI.load(run / "model.safetensors").labels_
    scaled = (x - x.min()) / (x.max() - x.min())
    for cluster, axes in enumerate(drawn[0].axes):
        strip = axes.images[0].get_array()
        assert strip is not None
        for i, image in enumerate(scaled[labels == cluster]):
            tile = strip[:, 9 * i : 9 * i + 8, 0]
            np.testing.assert_allclose(tile, image[0], atol=1e-6)


def test_long_verdicts_and_hostile_names_neither_overlap_nor_fail(
    run: Path, drawn: list[Figure]
) -> None:
    write_summary(run, verdict="not certified: " + "cluster collapse and $\\frac{ more " * 9)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("source: null", 'source: "$\\\\frac{\\n<b>"'))
    for iteration in range(20):
        event = {"kind": "finding", "message": "$\\x{ " * 30, "iteration": iteration}
        with open(run / "events.jsonl", "a") as file:
            file.write(json.dumps(event) + "\n")
    draw_all(run)
    for fig in drawn:
        assert "$\\frac{ <b>" in fig._suptitle.get_text()  # type: ignore[attr-defined]
        assert overlapping(fig) == []


def test_a_run_that_diverged_from_the_start_is_drawn_without_its_network(
    run: Path, drawn: list[Figure]
) -> None:
    file = run / "model.safetensors"
    with safe_open(file, "pt") as opened:
        header = opened.metadata()
    tensors = {name: tensor * float("nan") for name, tensor in load_file(file).items()}
    save_file(tensors, file, header)
    write_summary(run, gap="nan")
    row = {"iteration": 5, "inv": ["nan", 1.0], "gap": ["inf", "nan"], "kept": 0}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    draw_all(run)
    words = [text.get_text() for fig in drawn for axes in fig.axes for text in axes.texts]
    assert "no finite gap above 0 was measured" in words
    assert "points by cluster" in [axes.get_title() for axes in drawn[1].axes]


@pytest.mark.parametrize(
    ("missing", "draw"),
    [
        ("config.yaml", training_figure),
        ("metrics.jsonl", training_figure),
        ("summary.json", clusters_figure),
        ("preview.safetensors", clusters_figure),
        ("model.safetensors", clusters_figure),
    ],
)
def test_a_missing_file_is_named_in_one_line(run: Path, missing: str, draw: object) -> None:
    (run / missing).unlink()
    with pytest.raises(InputError, match=missing) as caught:
        draw(run)  # type: ignore[operator]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damaged", "content", "draw"),
    [
        ("metrics.jsonl", "5\n", training_figure),
        ("metrics.jsonl", '{"iteration": 5, "inv": [1.0]}\n', training_figure),
        ("metrics.jsonl", '{"iteration": 5, "inv": ["x"], "gap": [1.0]}\n', training_figure),
        ("metrics.jsonl", '{"iteration": 5, "inv": [1], "gap": [1], "kept": 7}\n', training_figure),
        ("summary.json", "{", clusters_figure),
        ("summary.json", '{"verdict": "v", "cluster_sizes": ["1"]}', clusters_figure),
        ("summary.json", "\n".join(["["] * 100_000), clusters_figure),
        ("preview.safetensors", "none", clusters_figure),
        ("model.safetensors", "none", clusters_figure),
    ],
)
def test_a_damaged_file_is_named_in_one_line(
    run: Path, damaged: str, content: str, draw: object
) -> None:
    (run / damaged).write_text(content)
    with pytest.raises(InputError, match=damaged) as caught:
        draw(run)  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_a_run_that_goes_on_shows_its_training(run: Path, drawn: list[Figure]) -> None:
    (run / "summary.json").unlink()
    training_figure(run)
    assert "training has not finished" in drawn[0]._suptitle.get_text()  # type: ignore[attr-defined]


def test_a_run_whose_model_is_damaged_gets_no_figure_at_all(run: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(run, copied)
    shutil.rmtree(copied / "figures", ignore_errors=True)
    (copied / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"model\.safetensors"):
        draw_all(copied)
    assert not (copied / "figures").exists()
