"""The table of docs/metrics.md: what random labels score.

python docs/chance_table.py
"""

from __future__ import annotations

import numpy as np

from gedilearn.evaluation.clustering import batchwise_nmi, clustering_scores

CASES = ((100, 256), (10, 128), (10, 10))  # (classes, clusters)
N_POINTS = 10_000


def main() -> None:
    print("| classes | clusters | NMI, mean of batches of 64 | NMI, whole test | AMI, whole test |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for case in CASES:
        generator = np.random.default_rng(0)
        truth, labels = (generator.integers(n, size=N_POINTS) for n in case)
        whole = clustering_scores(truth, labels)
        scores = (batchwise_nmi(truth, labels).nmi, whole["nmi"], whole["ami"])
        # Adding 0.0 turns a rounded -0.00 into 0.00.
        cells = [*map(str, case), *(f"{round(value, 2) + 0.0:.2f}" for value in scores)]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
