"""Points that belong to no cluster

New points are scattered over the plane. Those that are less likely than 1% of the training points
are marked as outliers, with the cluster -1.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from gedilearn import GEDI

X, _ = make_moons(400, noise=0.07, random_state=0)
model = GEDI(n_clusters=2, random_state=0).fit(X)
new = np.random.default_rng(0).uniform([-1.8, -1.3], [2.8, 1.8], (600, 2))
cluster = model.predict(new, outliers=0.05)

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.scatter(*X.T, s=4, color="lightgrey", label="training points")
ax.scatter(*new[cluster == -1].T, marker="x", s=14, color="black", label="outliers")
for k, colour in enumerate(["tab:blue", "tab:orange"]):
    ax.scatter(*new[cluster == k].T, s=22, color=colour, label=f"cluster {k}")
ax.legend(loc="upper right", fontsize=8)
ax.set_title(f"600 points at random, {np.sum(cluster == -1)} of them outliers")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
