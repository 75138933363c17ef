"""Three example sets, clustered with the defaults, with a report on each: `make demo`."""

from __future__ import annotations

import shutil
from pathlib import Path

from gedilearn import GEDI
from gedilearn.data.load import load
from gedilearn.evaluation.clustering import clustering_scores
from gedilearn.report.page import write_report

SETS = {"moons": 2, "circles": 2, "digits": 10}  # and their clusters
FOLDER = Path("gedi-runs", "demo")  # that of an earlier demo is replaced

shutil.rmtree(FOLDER, ignore_errors=True)
for name, n_clusters in SETS.items():
    data = load(name)
    size = " x ".join(map(str, data.x.shape))
    print(f"{name} ({size}, {n_clusters} clusters) ... ", end="", flush=True)
    model = GEDI(n_clusters, random_state=0, run_dir=FOLDER / name).fit(data.x)
    write_report(FOLDER / name)
    scores = clustering_scores(data.y, model.labels_)
    grade = ": ".join(filter(None, [model.grade_, ", ".join(model.diagnosis_.failure_modes)]))
    print(
        f"{grade}, NMI {scores['nmi']:.3f}, AMI {scores['ami']:.3f}, "
        f"bound gap {model.bound_gap_:.4f}, {model.seconds_:.1f} s"
    )
print(
    "NMI and AMI compare the clusters with the true labels, which training never sees; 1 is "
    "perfect.\nThe bound gap is the distance in nats to the best clustering that Proposition 1 allows, "
    f"measured without labels.\nReports: {FOLDER / '<data>' / 'report.html'}"
)
