"""The picture of the README: three fits, their clusters, density and grade.

python docs/make_readme_picture.py     writes docs/figures/readme.png and prints the verdicts
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons

from gedilearn import GEDI, panels

TARGET = Path(__file__).parent / "figures" / "readme.png"
POINTS = 500
NODES = 160  # of the grid under a picture, on each side


def sets() -> list[tuple[str, int, np.ndarray]]:
    """Name, number of clusters and points: separated, touching, and without clusters."""
    rng = np.random.default_rng(0)
    moons, _ = make_moons(POINTS, noise=0.06, random_state=0)
    centres = np.array([[0, 0], [4.6, 0], [2.3, 4.0]])
    touching = rng.normal(size=(POINTS, 2)) + centres[rng.integers(0, 3, POINTS)]
    return [
        ("two half circles", 2, moons),
        ("three groups close together", 3, touching),
        ("a square without clusters", 3, rng.uniform(size=(POINTS, 2))),
    ]


def main() -> None:
    """Fit the three and draw them."""
    figure = panels.new_figure(11, 3.9, "")
    for axes, (name, n_clusters, points) in zip(figure.subplots(1, 3), sets(), strict=True):
        model = GEDI(n_clusters=n_clusters, random_state=0).fit(points)
        print(f"{name}:\n{model.verdict_}\n")
        low, high = points.min(0), points.max(0)
        low, high = low - 0.12 * (high - low), high + 0.12 * (high - low)
        x, y = (np.linspace(low[i], high[i], NODES) for i in (0, 1))
        grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
        density = np.exp(model.score_samples(grid)).reshape(NODES, NODES)
        box = (low[0], high[0], low[1], high[1])
        shades = {"cmap": "Greys", "vmin": 0, "vmax": 1.6 * density.max()}
        axes.imshow(density, origin="lower", extent=box, aspect="auto", **shades)
        for cluster in range(n_clusters):
            chosen = points[model.labels_ == cluster].T
            axes.scatter(*chosen, s=7, color=panels.colour(cluster), linewidths=0)
        panels.label_axes(axes, model.grade_, name, "")
        axes.title.set_fontweight("bold")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    panels.save(figure, TARGET)


if __name__ == "__main__":
    main()
