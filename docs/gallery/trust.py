"""Trust, point by point

Two groups of unequal size, close together. On the left, colour is the cluster. On the right, it is
the trust of each point: low where subsamples give it another cluster, or where it is uncertain.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from gedilearn import GEDI
from gedilearn.panels import COLOURS

colours = np.array(COLOURS)
centres = [[0, 0], [4.6, 0]]
X, _ = make_blobs([350, 150], centers=centres, cluster_std=0.9, random_state=0)
model = GEDI(n_clusters=2, w_gen=0, random_state=0).fit(X)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.scatter(*X.T, c=colours[model.labels_], s=10)
left.set_title(f"clusters: {model.grade_}")
points = right.scatter(*X.T, c=model.trust_, cmap="viridis", vmin=0, vmax=1, s=10)
figure.colorbar(points, ax=right, label="trust")
right.set_title(f"proportions found: {model.prior_.max():.2f} and {model.prior_.min():.2f}")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
