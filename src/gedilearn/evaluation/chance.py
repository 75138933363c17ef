"""What random labels score; ``python -m gedilearn.evaluation.chance`` prints the table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gedilearn.evaluation.clustering import batchwise_nmi, clustering_scores

CASES = ((100, 256), (10, 128), (10, 10))  # (classes, clusters)
N_POINTS = 10_000


class Chance(NamedTuple):
    """Scores of uniformly random cluster labels, which know nothing of the classes."""

    classes: int
    clusters: int
    batchwise_nmi: float
    nmi: float
    ami: float


def chance(classes: int, clusters: int, n: int = N_POINTS, random_state: int = 0) -> Chance:
    """Draw classes and clusters independently and score them in all three ways."""
    generator = np.random.default_rng(random_state)
    truth, labels = generator.integers(classes, size=n), generator.integers(clusters, size=n)
    whole = clustering_scores(truth, labels)
    batches = batchwise_nmi(truth, labels, random_state=random_state)
    return Chance(classes, clusters, batches.nmi, whole["nmi"], whole["ami"])


def table() -> str:
    """The scores of all cases, as Markdown."""
    lines = [
        "| classes | clusters | NMI, mean of batches of 64 | NMI, whole test | AMI, whole test |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in CASES:
        row = chance(*case)
        # Adding 0.0 turns a rounded -0.00 into 0.00.
        scores = [f"{round(value, 2) + 0.0:.2f}" for value in row[2:]]
        lines.append("| " + " | ".join([str(row.classes), str(row.clusters), *scores]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
