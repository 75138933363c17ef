"""Labels: a few that are known, and all that were made elsewhere.

    python benchmarks/labels.py classes --seeds 10
    python benchmarks/labels.py grade --seeds 1

classes: accuracy on the rows without a label, with 1, 5 and 20 labels a class, compared with
    scikit-learn's LabelSpreading (both kernels) and SelfTrainingClassifier of a random forest, on
    standardised columns. With a tenth of 20 labels a class wrong, the share of wrong labels and of
    right labels that are disputed.
grade: `gedilearn.grade` of labels by other methods, of true labels and of shuffled ones, on the
    sets of `shapes.py`: does trust follow AMI, is anything wrong certified, and do shuffled rows
    lose trust?

Seeds from 1000 on are for reports: no number was chosen on them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import adjusted_mutual_info_score, roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from gedilearn import GEDI, grade
from shape_sets import NOT_SCORED, SHAPES
from shapes import RIVALS, SOLVED, build

Row = dict[str, Any]
TABLES = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
EACH = (1, 5, 20)
WRONG = 0.1
SHUFFLED = (0.1, 0.3)
KINDS = ("wrong", "right")
JUDGED = [name for name in RIVALS if not name.startswith("spectral")]

# --- a few labels ---------------------------------------------------------------------------------


def ours(x: np.ndarray, given: np.ndarray, seed: int) -> np.ndarray:
    return GEDI(w_gen=0, random_state=seed).fit(x, classes=given).labels_


def others(model: Any) -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    def labels(x: np.ndarray, given: np.ndarray, seed: int) -> np.ndarray:
        x = StandardScaler().fit_transform(x)
        return np.asarray(model(seed).fit(x, given).predict(x))

    return labels


LEARNERS = {
    "GEDI": ours,
    "spreading": others(lambda seed: LabelSpreading()),
    "spreading, neighbours": others(lambda seed: LabelSpreading(kernel="knn")),
    "self-training forest": others(
        lambda seed: SelfTrainingClassifier(RandomForestClassifier(random_state=seed))
    ),
}


def class_rows(seed: int) -> Iterator[Row]:
    moons = make_moons(500, noise=0.2, random_state=seed)
    sets = {"noisy moons": moons} | {name: load(return_X_y=True) for name, load in TABLES.items()}
    for name, (x, y) in sets.items():
        for each in EACH:
            given = some_labels(y, each, seed)
            for learner, labels in LEARNERS.items():
                found = labels(x, given, seed)
                right = float((found == y)[given < 0].mean())
                yield {"data": name, "each": each, "method": learner, "accuracy": right}
        given = some_labels(y, EACH[-1], seed)
        rng, k, rows = np.random.default_rng(seed), int(y.max()) + 1, np.flatnonzero(given >= 0)
        wrong = rng.choice(rows, round(WRONG * len(rows)), replace=False)
        given[wrong] = (given[wrong] + rng.integers(1, k, len(wrong))) % k
        model = GEDI(w_gen=0, random_state=seed).fit(x, classes=given)
        disputed = np.isin(rows, model.disputed_)
        yield {
            "data": name,
            "each": "20, a tenth wrong",
            "method": "GEDI",
            "accuracy": float((model.labels_ == y)[given < 0].mean()),
            "wrong disputed": float(disputed[np.isin(rows, wrong)].mean()),
            "right disputed": float(disputed[~np.isin(rows, wrong)].mean()),
        }


def some_labels(y: np.ndarray, each: int, seed: int) -> np.ndarray:
    """So many labels of each class, -1 elsewhere."""
    rng, given = np.random.default_rng([seed, each]), np.full(len(y), -1)
    for k in range(int(y.max()) + 1):
        rows = rng.choice(np.flatnonzero(y == k), each, replace=False)
        given[rows] = k
    return given


def class_tables(rows: list[Row]) -> None:
    groups = dict.fromkeys((row["data"], row["each"]) for row in rows)
    print("| data | labels a class | " + " | ".join(LEARNERS) + " |")
    print("| --- | ---: " + "| ---: " * len(LEARNERS) + "|")
    for group in groups:
        own = [row for row in rows if (row["data"], row["each"]) == group]
        cells = [
            [row["accuracy"] for row in own if row["method"] == learner] for learner in LEARNERS
        ]
        shown = [f"{np.mean(cell):.3f}" if cell else "" for cell in cells]
        print(f"| {group[0]} | {group[1]} | {' | '.join(shown)} |")
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name and "wrong disputed" in row]
        wrong, right = (np.mean([row[f"{kind} disputed"] for row in own]) for kind in KINDS)
        print(f"{name}: {wrong:.0%} of wrong labels disputed, {right:.1%} of right ones")


# --- labels made elsewhere ------------------------------------------------------------------------


def grade_rows(seed: int) -> Iterator[Row]:
    for name, shape in SHAPES.items():
        if shape.structureless:
            continue
        data = shape.draw(1_000, seed)
        x, y, rng = data.x, np.asarray(data.y), np.random.default_rng(seed)
        truth = np.where(y == NOT_SCORED, -1, y)
        made = {m: np.asarray(build(m, shape, seed, {}).fit_predict(x)) for m in JUDGED}
        made["truth"] = truth
        for share in SHUFFLED:
            moved = rng.random(len(y)) < share
            made[f"{share:.0%} shuffled"] = np.where(moved, rng.permutation(truth), truth)
        for method, labels in made.items():
            if len(set(labels[labels >= 0].tolist())) < 2:
                continue
            inside = (labels >= 0) & (truth >= 0)
            found = grade(x, labels, random_state=seed)
            row = {"data": name, "method": method, "seed": seed, "grade": found.grade}
            row["ami"] = float(adjusted_mutual_info_score(y[inside], labels[inside]))
            row["trust"] = found.trust
            if "shuffled" in method:
                row["auroc"] = float(roc_auc_score((labels != y)[inside], -found.trust_[inside]))
            yield row


def grade_tables(rows: list[Row]) -> None:
    print("| labels | sets | mean AMI | mean trust | certified | certified below 0.95 | AUROC |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        certified = [row for row in own if row["grade"] == "certified"]
        false = sum(row["ami"] < SOLVED for row in certified)
        ami, trust = (np.mean([row[name] for row in own]) for name in ("ami", "trust"))
        areas = [row["auroc"] for row in own if "auroc" in row]
        area = f"{np.mean(areas):.3f}" if areas else ""
        line = f"| {method} | {len(own)} | {ami:.3f} | {trust:.3f} | {len(certified)} | {false} |"
        print(f"{line} {area} |")
    rank = spearmanr([row["trust"] for row in rows], [row["ami"] for row in rows]).statistic
    print(f"Rank correlation of trust with AMI: {rank:.3f} on {len(rows)} clusterings.")


FAMILIES = {"classes": (class_rows, class_tables), "grade": (grade_rows, grade_tables)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1_000)
    parser.add_argument("--json", action="store_true", help="one line for each row")
    asked = parser.parse_args()
    draw, show = FAMILIES[asked.family]
    warnings.simplefilter("ignore")
    rows = []
    for seed in range(asked.first, asked.first + asked.seeds):
        for row in draw(seed):
            rows.append(row)
            if asked.json:
                print(json.dumps(row), flush=True)
    if not asked.json:
        show(rows)


if __name__ == "__main__":
    main()
