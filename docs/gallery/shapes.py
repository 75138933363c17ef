"""Shapes that k-means cannot separate

K-means above, GEDI below, both with the right number of clusters. The grade of the fit is above
each picture. GEDI finds long, curved and nested clusters because their points are connected.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons

from gedilearn import GEDI
from gedilearn.panels import COLOURS

colours = np.array(COLOURS)
rng = np.random.default_rng(0)
stripes = rng.normal(0, [3, 0.25], (300, 2)) + np.repeat([[0, 0], [0, 2], [0, 4]], 100, axis=0)
blobs, _ = make_blobs(300, centers=[[0, 0], [6, 0], [3, 5]], cluster_std=0.8, random_state=0)
sets = [
    ("moons", 2, make_moons(300, noise=0.06, random_state=0)[0]),
    ("circles", 2, make_circles(300, noise=0.05, factor=0.4, random_state=0)[0]),
    ("stripes", 3, stripes),
    ("blobs", 3, blobs),
]
figure, axes = plt.subplots(2, 4, figsize=(11, 5.6), layout="constrained")
for (name, k, X), (above, below) in zip(sets, axes.T, strict=True):
    above.scatter(*X.T, c=colours[KMeans(k, random_state=0).fit_predict(X)], s=8)
    above.set_title(f"{name}: k-means")
    model = GEDI(n_clusters=k, w_gen=0, random_state=0).fit(X)
    below.scatter(*X.T, c=colours[model.labels_], s=8)
    below.set_title(f"GEDI: {model.grade_}")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
