"""Barlow Twins against numpy's correlations and scikit-learn's k-means."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from gedilearn.methods.barlow import BarlowTwins
from gedilearn.methods.method import Batch
from gedilearn.models.build import build_model
from gedilearn.settings import resolve
from helpers import SEEDED


def make(members: int = 2, temperature: float = 1.0, **options: object) -> tuple:
    network = {"hidden": (8,), "head": (6,), "temperature": temperature}
    settings = resolve(
        {"method": "barlow", "n_clusters": 3, "network": network, "barlow": dict(options)}, (60, 2)
    )
    return build_model(settings, (2,), members, generator=SEEDED).double(), BarlowTwins(
        settings.own
    )


def test_the_loss_equals_a_loop_over_members_and_coordinates() -> None:
    model, method = make(off_diagonal=0.3, scale=0.7)
    x, view = torch.randn(2, 20, 2, dtype=torch.float64)
    got = method.terms(model, model, Batch(torch.arange(20), x, view, 1, 0.5, SEEDED))
    assert got.keys() == {"redundancy"}
    # One pass a view: each has batch statistics of its own.
    z = [model(part.expand(2, -1, -1)).logits.detach().numpy() for part in (x, view)]
    for k in range(2):
        # What is added to variances, in numpy's covariances.
        spread = [np.sqrt(part[k].var(0) + 1e-5) for part in z]
        covariance = np.cov(z[0][k], z[1][k], rowvar=False, bias=True)[:3, 3:]
        expected = 0.0
        for i in range(3):
            for j in range(3):
                c = covariance[i, j] / spread[0][i] / spread[1][j]
                expected += (1 - c) ** 2 if i == j else 0.3 * c**2
        assert float(got["redundancy"][k].detach()) == pytest.approx(0.7 * expected, abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.2, 5.0])
def test_clusters_of_k_means_are_built_into_the_last_layer(temperature: float) -> None:
    model, method = make(1, temperature, assign="kmeans")
    model.eval()
    data = torch.randn(300, 2, dtype=torch.float64)
    embedding = model(data[None]).logits[0].detach().numpy()
    # k-means is blind to the temperature, which scales all distances alike.
    expected = KMeans(3, n_init=10, random_state=0).fit(embedding).predict(embedding)
    assert method.conclude(model, data)
    got = model(data[None]).logits[0].argmax(-1).numpy()
    assert len(np.unique(got)) == 3
    assert (got == expected).all()
