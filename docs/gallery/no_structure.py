"""When there is nothing to find

Each fit was asked for three clusters. From left to right the groups move together, until there are
none. Where the density does not dip between the clusters, the grade is at most doubtful. It is
doubtful and not "no structure found" on the right, because subsamples reproduce the cut.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from gedilearn import GEDI
from gedilearn.panels import COLOURS

colours = np.array(COLOURS)
rng = np.random.default_rng(0)
corners = np.array([[0, 0], [1, 0], [0.5, 0.87]])
noise = rng.normal(size=(450, 2))
group = rng.integers(0, 3, 450)

figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for ax, distance in zip(axes, (8, 5, 3.5, 0), strict=True):
    X = noise + distance * corners[group]
    model = GEDI(n_clusters=3, w_gen=0, random_state=0).fit(X)
    ax.scatter(*X.T, c=colours[model.labels_], s=8)
    ax.set(xticks=[], yticks=[], title=f"distance {distance}: {model.grade_}")
    ax.set_xlabel(f"stability {model.stability_:.2f}")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
