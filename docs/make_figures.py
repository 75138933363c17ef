"""The pictures and the table of how-it-trains.md, from training runs made here.

python docs/make_figures.py     writes docs/figures/*.png, docs/figures/numbers.json, and the table
between the two marks in docs/how-it-trains.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from PIL import Image
from torch import Tensor

from gedilearn import panels
from gedilearn.data.arrays import Scaling
from gedilearn.data.dataset import Dataset
from gedilearn.data.toy import moons
from gedilearn.evaluation.clustering import nmi
from gedilearn.graph.views import Views, WalkViews, make_views
from gedilearn.graph.walks import draw
from gedilearn.methods.priors import Fixed
from gedilearn.models.energy import EnergyModel, posterior
from gedilearn.settings import Settings, resolve
from gedilearn.training.loop import Result, train
from gedilearn.training.setup import Setup
from gedilearn.training.state import TrainState
from gedilearn.verdict.bound import REPEATS, measure

HERE = Path(__file__).parent
FIGURES = HERE / "figures"
PAGE = HERE / "how-it-trains.md"
MARKS = ("<!-- numbers: written by make_figures.py -->", "<!-- end of numbers -->")
SEED = 0
EVERY = 10  # iterations between two measurements of the gap
NODES = (140, 110)  # of the grid under the pictures
STUCK_SEEDS = 5
# GEN comes after the clusters by default, and is left out here.
CLUSTERS_ONLY = {"weights": {"gen": 0.0}}
# The pictures show what walks do from a network that knows nothing, under a uniform prior.
WALKS_ALONE = CLUSTERS_ONLY | {"prior": "uniform", "training": {"seed": SEED, "start": "random"}}
# Views and weights near the paper's: small noise, and PRIOR below INV.
NOISE_VIEWS = {
    "views": {"kind": "noise", "noise": 0.03},
    "weights": {"gen": 0.0, "inv": 50.0, "prior": 10.0},
    "prior": "uniform",
}
MAP = LinearSegmentedColormap.from_list("two", [panels.COLOURS[1], "#FFFFFF", panels.COLOURS[0]])
DARK = "#333333"


class Moment(NamedTuple):
    """The network at one iteration."""

    iteration: int
    steps: int  # of the walks; 0 for other views
    gap: float  # under the certifying views
    walk_gap: float  # under the longest walk, whatever the views of training
    surface: np.ndarray  # p(y=1|x) on the grid


class Watched(NamedTuple):
    """A training run on moons with what was seen on the way."""

    data: Dataset
    x: Tensor  # in the network's units
    views: Views
    result: Result
    moments: list[Moment]
    nmi: float


def watch(data: Dataset, *changes: dict[str, Any], seed: int = SEED) -> Watched:
    """Train as `GEDI.fit` does, and look every few iterations without disturbing it."""
    values: dict[str, Any] = {"training": {"seed": seed}}
    for change in changes:
        values |= change
    x = torch.from_numpy(Scaling.fit(data.x).apply(data.x))
    grid = torch.from_numpy(_grid(x)[0])
    settings = resolve(values, data.x.shape)
    walk = make_views(resolve({}, x.shape).views, x, settings.n_clusters, seed)
    moments: list[Moment] = []

    def look(setup: Setup, state: TrainState) -> None:
        if state.iteration != 1 and state.iteration % EVERY:
            return
        model, prior = state.model, state.prior
        generator = torch.Generator()
        generator.set_state(state.generators.cpu.get_state())
        gap = float(measure(model, setup.data, setup.views, prior, generator).gap[0])
        walked = float(measure(model, setup.data, walk, prior, generator).gap[0])
        progress = state.stage.view_progress(state.iteration)
        used.append(setup.views)
        steps = used[0].steps(progress) if isinstance(used[0], WalkViews) else 0
        moments.append(Moment(state.iteration, steps, gap, walked, _surface(model, grid)))

    used: list[Views] = []
    result = train(x, settings, on_step=look)
    labels = _predict(result.model, x).argmax(1)
    assert data.y is not None
    return Watched(data, x, used[0], result, moments, nmi(data.y, labels))


@torch.no_grad()
def _predict(model: EnergyModel, x: Tensor) -> np.ndarray:
    return posterior(model(x[None])[1])[0].numpy()


def _surface(model: EnergyModel, grid: Tensor) -> np.ndarray:
    return _predict(model, grid)[:, 1].reshape(NODES[1], NODES[0])


def kept(run: Watched) -> np.ndarray:
    """The surface of the network that training returned."""
    return _surface(run.result.model, torch.from_numpy(_grid(run.x)[0]))


def _grid(x: Tensor) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    low, high = x.min(0).values - 0.25, x.max(0).values + 0.25
    first = np.linspace(low[0], high[0], NODES[0], dtype=np.float32)
    second = np.linspace(low[1], high[1], NODES[1], dtype=np.float32)
    nodes = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
    return nodes, (float(low[0]), float(high[0]), float(low[1]), float(high[1]))


# --- drawing ------------------------------------------------------------------------------------


def plane(axes: Axes, run: Watched, surface: np.ndarray, title: str) -> Any:
    """Predictions as colour under the points, which are grey: no label was used."""
    image = axes.imshow(
        surface,
        origin="lower",
        extent=_grid(run.x)[1],
        cmap=MAP,
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="bilinear",
        alpha=0.85,
    )
    shown = run.x[::2]
    axes.scatter(shown[:, 0], shown[:, 1], s=3, color="#555555", lw=0)
    axes.set_title(title, fontsize=10.5)
    axes.set_xticks([])
    axes.set_yticks([])
    return image


def walks(axes: Axes, run: Watched, start: int, steps: int, number: int = 12) -> None:
    """The path of one walk from `start`, step by step, and rings where some walks end."""
    assert isinstance(run.views, WalkViews)
    generator = torch.Generator().manual_seed(SEED)
    path = [torch.tensor([start])]
    for _ in range(steps):
        path.append(draw(run.views.tables, path[-1], 1, generator))
    x, y = run.x[torch.cat(path)].T
    axes.plot(x, y, color=DARK, lw=0.5 if steps > 500 else 1.2, alpha=0.6)
    ends = draw(run.views.tables, torch.full((number - 1,), start), steps, generator)
    x, y = run.x[torch.cat([path[-1], ends])].T
    axes.scatter(x, y, s=22, facecolor="white", edgecolor="black", lw=1.1, zorder=3)
    _star(axes, run, start)


def _star(axes: Axes, run: Watched, start: int) -> None:
    x, y = run.x[start].tolist()
    axes.scatter([x], [y], s=110, marker="*", color="black", edgecolor="white", lw=0.8, zorder=4)


def stages(run: Watched, longer: Watched, start: int, path: Path) -> None:
    """Four moments from the first iteration to the certificate, and two after it."""
    chosen = [
        (run, run.moments[i]) for i in np.linspace(0, len(run.moments) - 1, 4).round().astype(int)
    ]
    later = longer.moments[len(run.moments) :]
    chosen.append((longer, next(m for m in later if m.steps <= 64)))
    chosen.append((longer, later[-1]))
    fig = panels.new_figure(9.6, 5.4, "")
    image = None
    grid = fig.subplots(2, 3)
    for axes, (watched, moment) in zip(grid.flat, chosen, strict=True):
        many = f"{moment.steps:,} steps" if moment.steps > 1 else "1 step"
        words = f"iteration {moment.iteration}, walks of {many}\n"
        if watched is longer:
            words += "(after the certificate)"
        elif moment is run.moments[-1]:
            words += f"gap {run.result.diagnosis.gap:.4f}: {run.result.stopped}"
        else:
            words += f"gap {moment.gap:.4f}"
        image = plane(axes, watched, moment.surface, words)
        walks(axes, watched, start, moment.steps)
    bar = fig.colorbar(image, ax=grid, shrink=0.6, aspect=25)
    bar.set_label("p(y = 1 | x), from the network", fontsize=10)
    _save(fig, path)


def gaps(run: Watched, longer: Watched, stuck: Watched, tol: float, path: Path) -> None:
    """The gap over the iterations, with the length of the walks above it."""
    fig = panels.new_figure(8.0, 5.8, "")
    top, axes = fig.subplots(2, 1, sharex=True, height_ratios=[1.3, 3])
    at = [m.iteration for m in longer.moments]
    top.step(at, [m.steps for m in longer.moments], where="post", color=panels.COLOURS[0])
    top.set_yscale("log", base=2)
    top.set_yticks([1, 16, 256, 4096], ["1", "16", "256", "4,096"])
    panels.label_axes(top, "", "", "steps of a walk")
    end = run.moments[-1].iteration
    rest = [m for m in longer.moments if m.iteration >= end]
    noise, under = "trained with small noise, under", [m.iteration for m in stuck.moments]
    for at, values, colour, width, words in (
        (under, [m.walk_gap for m in stuck.moments], "#8C2D04", 1.6, f"{noise} the longest walk"),
        (under, [m.gap for m in stuck.moments], panels.COLOURS[5], 0.8, f"{noise} that noise"),
        (
            [m.iteration for m in run.moments],
            [m.gap for m in run.moments],
            panels.COLOURS[0],
            1.8,
            "trained with walks, under the longest walk",
        ),
        (
            [m.iteration for m in rest],
            [m.gap for m in rest],
            panels.COLOURS[4],
            0.8,
            "the same, had it gone on",
        ),
    ):
        axes.plot(at, values, color=colour, lw=width, label=words)
    for each in (top, axes):
        each.axvline(end, color=panels.COLOURS[0], lw=1, ls=":")
    words = f" {run.result.stopped} at {end}"
    axes.text(end, 0.25, words, fontsize=9.5, color=panels.COLOURS[0])
    axes.axhline(tol, color="black", ls="--", lw=1.1, label=f"tolerance {tol:g}")
    log_2 = math.log(2)
    axes.axhline(log_2, color="#888888", ls=":", lw=1.1, label="log 2: the uniform prediction")
    axes.set_yscale("log")
    axes.set_ylim(bottom=1e-6)
    panels.label_axes(axes, "", "iteration", "bound gap in nats (one view a point)")
    axes.legend(
        fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, frameon=False
    )
    _save(fig, path)


def contrast(run: Watched, stuck: Watched, start: int, walked: float, path: Path) -> None:
    """What the two ended with, and the views of one point under which they were trained."""
    fig = panels.new_figure(8.6, 3.7, "")
    left, right = fig.subplots(1, 2)
    generator = torch.Generator().manual_seed(SEED)
    index = torch.full((40,), start)
    own = stuck.result.diagnosis.gap
    gap = f"gap {own:.4f} (noise), {walked:.1f} (long walk)"
    words = f"small noise: stuck, NMI {stuck.nmi:.3f}\n{gap}"
    plane(left, stuck, kept(stuck), words)
    gap = f"gap {run.result.diagnosis.gap:.4f} (long walk)"
    words = f"walks: {run.result.stopped}, NMI {run.nmi:.3f}\n{gap}"
    image = plane(right, run, kept(run), words)
    for axes, watched in ((left, stuck), (right, run)):
        x, y = watched.views.certify(index, watched.x[index], generator).T
        axes.scatter(x, y, s=16, facecolor="white", edgecolor="black", lw=0.9, zorder=3)
        _star(axes, watched, start)
    bar = fig.colorbar(image, ax=[left, right], shrink=0.8, aspect=25)
    bar.set_label("p(y = 1 | x)", fontsize=10)
    _save(fig, path)


def _save(fig: Any, path: Path) -> None:
    fig.set_dpi(90)
    panels.save(fig, path)
    with Image.open(path) as picture:  # 128 colours are enough, at a third of the size
        picture.convert("RGB").quantize(128).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(HERE.parent)}: {size / 1000:.0f} kB")


# --- numbers ------------------------------------------------------------------------------------


def gap_under_walks(run: Watched) -> float:
    """The bound gap under the long walk of a run that was trained with other views."""
    views = make_views(resolve({}, run.x.shape).views, run.x, 2, SEED)
    generator, prior = torch.Generator().manual_seed(SEED), Fixed()
    seen = measure(run.result.model, run.x, views, prior, generator, repeats=REPEATS)
    return float(seen.gap[0])


def case(name: str, run: Watched) -> dict[str, Any]:
    """A line of the table."""
    return {
        "case": name,
        "gap": round(run.result.diagnosis.gap, 4),
        "grade": run.result.diagnosis.grade,
        "nmi": round(run.nmi, 3),
        "iterations": run.result.iterations,
    }


def table(numbers: dict[str, Any]) -> str:
    """What the page quotes, in Markdown."""
    noise, tol = numbers["noise_views"], numbers["tol"]
    lines = [
        "| run (moons, 1000 points, seed 0) | bound gap, nats | grade | NMI | iterations |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    for c in numbers["cases"]:
        lines.append(
            f"| {c['case']} | {c['gap']:.4f} | {c['grade']} | {c['nmi']:.3f} | {c['iterations']} |"
        )
    one, many = numbers["modes_of_one_step"], numbers["modes_of_longest"]
    sentences = [
        f"The longest walk has {numbers['longest_walk']:,} steps on a graph of "
        f"{numbers['components']} components. The trace of the walk matrix, a count of the modes "
        f"that are left, is {one:.1f} after one step and {many:.2f} after the longest walk.",
        f"With small noise, {noise['stuck']} of {noise['seeds']} seeds ended with NMI below 0.99, "
        f"and {noise['stuck_and_certified']} of these with a bound gap below the tolerance under that "
        f"noise. The one in the picture (seed {noise['seed']}) has NMI {noise['nmi']:.3f} and a "
        f"bound gap of {noise['gap']:.4f} under the noise, {noise['gap_under_walk']:.2f} under the long "
        "walk.",
        f"The tolerance is {tol:g} nats. Under a uniform prior, an 80/20 split that is right has a "
        f"bound gap of at least {numbers['least_gap_80_20_uniform']:.4f}.",
    ]
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in sentences)])


def insert(page: Path, text: str) -> None:
    """Put `text` between the marks of the page."""
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    tol = Settings().training.tol
    data = moons()
    run = watch(data, WALKS_ALONE)
    start = int(((run.x - torch.tensor([-1.2, 0.9])) ** 2).sum(1).argmin())
    # Without a tolerance training goes on after the certificate, down to single steps.
    endless = {"training": {"seed": SEED, "start": "random", "tol": 0.0}}
    longer = watch(data, WALKS_ALONE, endless)
    stages(run, longer, start, FIGURES / "stages.png")

    noisy = {seed: watch(data, NOISE_VIEWS, seed=seed) for seed in range(STUCK_SEEDS)}
    stuck_seeds = [seed for seed, other in noisy.items() if other.nmi < 0.99]
    shown = stuck_seeds[0] if stuck_seeds else 0
    stuck = noisy[shown]
    walked = gap_under_walks(stuck)
    gaps(run, longer, stuck, tol, FIGURES / "gap.png")
    contrast(run, stuck, start, walked, FIGURES / "contrast.png")

    uneven, overlap, wrong = moons(share=0.8), moons(noise=0.2), {"n_clusters": 3}
    others: list[tuple[str, Callable[[], Watched]]] = [
        ("walks alone, uniform prior (the pictures)", lambda: run),
        ("walks alone, 80/20 moons, uniform prior", lambda: watch(uneven, WALKS_ALONE)),
        (
            "walks alone, 80/20 moons, prior (0.8, 0.2)",
            lambda: watch(uneven, WALKS_ALONE, _given(0.8, 0.2)),
        ),
        ("default", lambda: watch(data, CLUSTERS_ONLY)),
        ("default, 80/20 moons", lambda: watch(uneven, CLUSTERS_ONLY)),
        ("default, noise 0.2: the moons overlap", lambda: watch(overlap, CLUSTERS_ONLY)),
        ("default, three clusters asked for", lambda: watch(data, CLUSTERS_ONLY, wrong)),
    ]
    assert isinstance(run.views, WalkViews)
    tables = run.views.tables
    numbers = {
        "command": "make docs-figures",
        "tol": tol,
        "longest_walk": tables.longest,
        "components": tables.n_components,
        "modes_of_one_step": round(tables.traces[0], 1),
        "modes_of_longest": round(tables.traces[-1], 2),
        "cases": [case(name, make()) for name, make in others],
        "noise_views": {
            "seeds": STUCK_SEEDS,
            "stuck": len(stuck_seeds),
            "stuck_and_certified": sum(noisy[s].result.diagnosis.certified for s in stuck_seeds),
            "seed": shown,
            "nmi": round(stuck.nmi, 3),
            "gap": round(stuck.result.diagnosis.gap, 4),
            "gap_under_walk": round(walked, 4),
        },
        "least_gap_80_20_uniform": round(-math.log(0.8 * 0.2) / 2 - math.log(2), 4),
    }
    text = json.dumps(numbers, indent=2)
    (FIGURES / "numbers.json").write_text(text + "\n", encoding="utf-8")
    insert(PAGE, table(numbers))
    print(text)


def _given(*prior: float) -> dict[str, Any]:
    return {"prior": prior}


if __name__ == "__main__":
    main()
