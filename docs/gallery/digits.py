"""Handwritten digits, typical and doubtful

The 1,797 digits of scikit-learn as vectors of 64 pixels. A row is a cluster: five typical images
on the left, the five most uncertain ones on the right.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from gedilearn import GEDI

X = load_digits().data
model = GEDI(n_clusters=10, random_state=0).fit(X)

figure, axes = plt.subplots(10, 11, figsize=(6.6, 6.6), layout="constrained")
for ax in axes.flat:
    ax.axis("off")
for profile, line in zip(model.explain(X).clusters, axes, strict=True):
    rows = [*profile.typical[:5], None, *profile.uncertain[:5]]
    for ax, row in zip(line, rows, strict=False):
        if row is not None:
            ax.imshow(X[row.row].reshape(8, 8), cmap="Greys")
figure.suptitle(f"digits: {model.grade_}; typical on the left, least certain on the right")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
