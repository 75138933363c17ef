"""The density of a ring, and samples from it

On the left log p(x), in nats, with the data. On the right new points drawn from the model, in the
colours of their clusters.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles

from gedilearn import GEDI
from gedilearn.panels import COLOURS

colours = np.array(COLOURS)
X, _ = make_circles(500, noise=0.06, factor=0.45, random_state=0)
model = GEDI(n_clusters=2, random_state=0).fit(X)
side = np.linspace(-1.5, 1.5, 120)
grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
heights = model.score_samples(grid).reshape(120, 120)
points, clusters = model.sample(500, random_state=0)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
levels = left.contourf(side, side, heights.clip(-8), levels=20, cmap="Blues")
figure.colorbar(levels, ax=left, label="log p(x), nats")
left.scatter(*X.T, s=3, color="black")
left.set_title(f"the data: {model.grade_}")
right.scatter(*points.T, c=colours[clusters], s=6)
right.set(title="drawn from the model", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
