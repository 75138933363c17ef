"""Rows of `images` that are made up, for tests of what is said about them."""

from __future__ import annotations

from gedilearn.experiments.images import NOTHING

LIKE_FID = "Frechet distance in EfficientNet-Lite0 features"


def made_up(scale="paper", method="gedi", seed=0, **others):
    row = {"data": "cifar10", "method": method, "seed": seed, "scale": scale}
    row |= {
        "shortened_to": None,
        "changes": None,
        **NOTHING,
        "n_clusters": 128,
        "nmi": 0.12,
        "ami": 0.1,
    }
    row |= {"accuracy": 0.2, "clusters_used": 100, "batchwise_nmi": 0.46, "batchwise_chance": 0.4}
    row |= {"gap": 1.5, "certified": False, "verdict": "not certified", "modes": []}
    row |= {"stopped": "budget", "recoveries": 0, "iterations": 156250, "probe": 0.2}
    row |= {"probe_protocol": "paper", "knn": 0.3, "frechet": 50.0, "frechet_floor": 9.0}
    row |= {"frechet_title": LIKE_FID, "frechet_n": 500, "seconds": 100.0}
    areas = {"n": 10000, "log_density": 0.9, "gradient_norm": 0.58, "confidence": 0.7}
    row |= {"ood": {"svhn": areas | {"mean_pixel": 0.6, "nonzero_share": 0.5}}}
    return row | {"evaluation_seconds": 20.0} | others
