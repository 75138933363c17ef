"""Outliers: GEDI's two scores and other detectors, false alarms, reasons, and seconds.

FILES are .npz with x (n, d) and y (n,), 1 for outliers. AUROC and average precision (AP) are means
over tables and seeds. Two protocols: outliers are among the fitted rows; or detectors are fitted to
half of the normal rows, and score all others. Other detectors are PyOD's, in the extra
`yardsticks`, with its defaults.

With `--classes` they are embeddings with classes y. Rows of half of the classes are normal, and a
twentieth as many of the others are outliers. Other detectors see rows at length 1.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from pyod.models.copod import COPOD
from pyod.models.ecod import ECOD
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from pyod.models.lof import LOF
from pyod.models.mcd import MCD
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import Normalizer, StandardScaler

from gedilearn import GEDI

ROWS = 100_000  # for the seconds of scoring
WRONG = 200  # rows of a table with one wrong cell
FAR = (5.0, 10.0)  # deviations from the median, of a wrong cell
LEVEL = 0.05
WIDE = 64  # columns; tables have fewer
RARE = 20  # normal rows for each outlier


def scores(train: np.ndarray, x: np.ndarray, seed: int) -> tuple[dict[str, np.ndarray], GEDI]:
    """The scores (n,) of rows x by each detector, and the fitted model."""
    model = GEDI(2, random_state=seed).fit(train)
    is_wide = train.shape[1] > WIDE
    scaler = (Normalizer() if is_wide else StandardScaler()).fit(train)
    z, fresh = scaler.transform(train), scaler.transform(x)
    found = {"outlier_score": model.outlier_score(x), "-log p(x)": -model.score_samples(x)}
    others = {
        "isolation forest": IForest(random_state=seed),
        "nearest neighbours": KNN(),
        "LOF": LOF(),
        "ECOD": ECOD(),
        "COPOD": COPOD(),
        "HBOS": HBOS(),
    } | ({} if is_wide else {"MCD": MCD(random_state=seed)})
    for name, detector in others.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns that are nearly collinear
            detector.fit(z)
        found[name] = detector.decision_scores_ if train is x else detector.decision_function(fresh)
    return found, model


def measure(x: np.ndarray, y: np.ndarray, seed: int, found: dict[str, list[float]]) -> None:
    """Both protocols and the wrong cells of one table."""
    varied = x[:, x.std(0) > 0]
    every, model = scores(varied, varied, seed)
    for name, values in every.items():
        found[f"among: {name}"].append(
            (roc_auc_score(y, values), average_precision_score(y, values))
        )
    named = model.outliers(varied, LEVEL)
    found["named among, normal rows"].append(named[y == 0].mean())
    found["named among, outliers"].append(named[y == 1].mean())
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(y == 0))
    half, rest = normal[: len(normal) // 2], normal[len(normal) // 2 :]
    used = x[half].std(0) > 0
    train, new = x[half][:, used], x[np.r_[rest, np.flatnonzero(y == 1)]][:, used]
    every, model = scores(train, new, seed)
    truth = np.arange(len(new)) >= len(rest)
    for name, values in every.items():
        found[f"normal: {name}"].append(
            (roc_auc_score(truth, values), average_precision_score(truth, values))
        )
    found["p <= .05, new normal rows"].append((model.outlier_pvalue(new[~truth]) <= LEVEL).mean())
    found["named, new normal rows"].append(model.outliers(new, LEVEL)[~truth].mean())
    found["named, new outliers"].append(model.outliers(new, LEVEL)[truth].mean())
    if not 3 <= new.shape[1] <= WIDE:
        return
    rows = new[~truth][:WRONG].copy()
    at = rng.integers(rows.shape[1], size=len(rows))
    moves = rng.uniform(*FAR, len(rows)) * rng.choice([-1, 1], len(rows))
    rows[np.arange(len(rows)), at] = (np.median(train, 0) + moves[:, None] * train.std(0))[
        np.arange(len(rows)), at
    ]
    first = [why[0].column if why else "" for why in model.outlier_reasons(rows, 1)]
    found["wrong cell first"].append(np.mean([f"x{k + 1}" for k in at] == np.array(first)))


def other_classes(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of half of the classes y (n,), and some others: these have 1 in the place of a class."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(y))
    is_other = np.isin(y, classes[len(classes) // 2 :])
    normal, others = np.flatnonzero(~is_other), rng.permutation(np.flatnonzero(is_other))
    rows = np.concatenate([normal, others[: len(normal) // RARE]])
    return x[rows], is_other[rows].astype(int)


def generated(seed: int, found: dict[str, list[float]]) -> None:
    """False alarms on sets without outliers."""
    rng = np.random.default_rng(seed)
    d, kind = int(rng.integers(2, 12)), ("normal", "uniform", "exponential", "blobs", "t")[seed % 5]
    x = {
        "normal": lambda: rng.normal(size=(1_000, d)),
        "uniform": lambda: rng.uniform(size=(1_000, d)),
        "exponential": lambda: rng.exponential(size=(1_000, d)),
        "blobs": lambda: rng.normal(size=(1_000, d)) + 8 * rng.integers(0, 3, (1_000, 1)),
        "t": lambda: rng.standard_t(5, size=(1_000, d)),
    }[kind]()
    model = GEDI(2, random_state=seed, settings={"training.max_iter": 20}).fit(x[:500])
    found["p <= .05, generated"].append((model.outlier_pvalue(x[500:]) <= LEVEL).mean())
    found["named, generated"].append(model.outliers(x[500:], LEVEL).mean())
    found["named among, generated"].append(model.outliers(x[:500], LEVEL).mean())


def seconds() -> float:
    """Of scoring many rows, as a ratio to an isolation forest."""
    x = np.random.default_rng(0).normal(size=(ROWS, 20))
    model = GEDI(2, random_state=0, settings={"training.max_iter": 20}).fit(x[:3_000])
    forest, ratios = IsolationForest(random_state=0).fit(x[:3_000]), []
    points = model.prepare(x)
    subsamples, bulk = model.result_.subsamples, model.result_.density.coordinates.leading(points)
    for _ in range(3):
        start = time.process_time()
        subsamples.measured(bulk)
        middle = time.process_time()
        forest.score_samples(x)
        ratios.append((middle - start) / (time.process_time() - middle))
    return float(np.median(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10])
    parser.add_argument("--sets", type=int, default=20, help="generated sets without outliers")
    parser.add_argument("--classes", action="store_true", help="embeddings with classes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(options.sets):
        generated(seed, found)
    found["seconds, times the forest's"] = [seconds()]
    for file in options.files:
        with np.load(file) as content:
            x, y = content["x"].astype(float), content["y"]
        for seed in options.seeds:
            measure(*(other_classes(x, y, seed) if options.classes else (x, y)), seed, found)
        last = {name: values[-1] for name, values in found.items() if "score" in name}
        print(file.stem, last, flush=True)
    means = {name: np.round(np.mean(values, 0), 3).tolist() for name, values in found.items()}
    lowest = [
        float(np.min([value[0] for value in found[f"among: {name}"]], initial=1.0))
        for name in ("outlier_score", "isolation forest")
    ]
    means["lowest AUROC, GEDI and forest"] = np.round(lowest, 3).tolist()
    print(json.dumps(means) if options.json else "\n".join(f"{k}: {v}" for k, v in means.items()))


if __name__ == "__main__":
    main()
