"""Drawn rows of tables: are they possible, and can a classifier tell them from real ones?

    python benchmarks/drawn_rows.py rules --seeds 3
    python benchmarks/drawn_rows.py test --seeds 3
    python benchmarks/drawn_rows.py missing --seeds 3

rules: the share of drawn rows that break a rule that all real rows keep, with plain decoding (the
    nearest level, whole numbers rounded) and as `sample` gives them.
test: the AUROC of gradient boosting that tells real held-out rows from drawn ones, in five folds;
    0.5 is perfect. Compared are a Gaussian mixture alone (1 to 19 components, by validation rows)
    and, where zuko is installed, a neural spline flow alone. Each is decoded plainly and by the
    rules of the training rows.
missing: the mean absolute error of `impute` on held-out cells, in standard deviations of a column,
    compared with scikit-learn's IterativeImputer and with medians.

Files with an array `x` (.npz) can be given in the place of these tables. Seeds from 1000 on are for
reports.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (makes the next line work)
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from gedilearn import GEDI
from mixed_tables import TABLES, broken

LOADERS = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
}
KINDS = ("range", "decimals", "levels", "pairs", "order", "sums")
TRAINED_ON, DRAWN, MOST_ROWS = 0.7, 2_000, 4_000
HIDDEN = 0.2  # of the cells of held-out rows
COMPONENTS = (1, 2, 3, 4, 6, 9, 13, 19)
MOST_ROUNDS = 20  # of draws, until there are enough possible rows
Row = dict[str, Any]
Draw = Callable[[int, int], np.ndarray]  # of n points (n, width), by a seed


def tables(seed: int, files: list[Path]) -> Iterator[tuple[str, Any, Any]]:
    """Name, training rows and held-out rows, split by the seed."""
    made: dict[str, Any] = {file.stem: np.load(file)["x"] for file in files}
    if not files:
        made = {name: draw(n, seed) for name, (draw, n) in TABLES.items()}
        made |= {name: load().data for name, load in LOADERS.items()}
    for name, table in made.items():
        order = np.random.default_rng(seed).permutation(len(table))[:MOST_ROWS]
        cut = round(TRAINED_ON * len(order))
        take = table.iloc.__getitem__ if hasattr(table, "iloc") else table.__getitem__
        yield name, take(order[:cut]), take(order[cut:])


# --- rules ----------------------------------------------------------------------------------------


def rule_rows(seed: int, files: list[Path]) -> Iterator[Row]:
    for name, training, test in tables(seed, files):
        model = GEDI(2, random_state=seed).fit(training)
        real = pd.concat([pd.DataFrame(training), pd.DataFrame(test)])
        made = {"plain": plain(model, points_of(model, DRAWN, seed))}
        made["with rules"] = model.sample(DRAWN, random_state=seed)[0]
        for how, rows in made.items():
            found = broken(name, real, rows)
            shares = {kind: float(found[kind].mean()) for kind in KINDS if kind in found}
            yield {"data": name, "rows": how} | shares | {"any": float(any_of(found).mean())}


def any_of(found: dict[str, np.ndarray]) -> np.ndarray:
    return np.any(list(found.values()), axis=0)


def points_of(model: GEDI, n: int, seed: int) -> np.ndarray:
    """Points of the density, in the units of the encoded columns: (n, width)."""
    return model.scaling_.undo(model.result_.sample(n, None, seed).numpy())


def plain(model: GEDI, points: np.ndarray) -> Any:
    """The rows nearest to points: (n, width)."""
    columns = model.columns_
    return points if columns is None else columns.frame(columns.nearest(points))


# --- the two-sample test --------------------------------------------------------------------------


def test_rows(seed: int, files: list[Path]) -> Iterator[Row]:
    for name, training, test in tables(seed, files):
        model = GEDI(2, random_state=seed).fit(training)
        n = 4 * len(test)
        rows = {
            "GEDI, plain": plain(model, points_of(model, n, seed)),
            "GEDI": model.sample(n, random_state=seed)[0],
        }
        for method, draw in others(model, training, seed).items():
            rows[f"{method}, plain"] = plain(model, draw(n, seed))
            rows[method] = with_rules(model, draw, n, seed)
        yield {"data": name} | {method: auroc(test, drawn, model) for method, drawn in rows.items()}


def with_rules(model: GEDI, draw: Draw, n: int, seed: int) -> Any:
    """n possible rows of drawn points, by the quantiles of others."""
    columns, rules, rng = model.columns_, model.rules_, np.random.default_rng(seed)
    assert rules is not None
    nearest = np.asarray if columns is None else columns.nearest
    knots, kept = rules.knots(nearest(draw(4_000, seed + 1))), []
    for k in range(MOST_ROUNDS):
        values = nearest(draw(n, seed + 2 * k))
        rows, possible = rules.applied(values, knots, np.full(values.shape, np.nan), rng)
        kept.append(rows[possible])
        if sum(map(len, kept)) >= n:
            break
    found = np.concatenate(kept)[:n]
    return found if columns is None else columns.frame(found)


def others(model: GEDI, training: Any, seed: int) -> dict[str, Draw]:
    """What draws points of the same encoded columns: functions of a number and a seed."""
    x = model.scaling_.apply(model.validate(training)).astype(np.float64)
    used = x.max(0) > x.min(0)
    rng = np.random.default_rng(seed)
    gaps = np.array([np.median(np.diff(np.unique(column))) for column in x[:, used].T])
    spread = x[:, used] + gaps * (rng.random((len(x), used.sum())) - 0.5)
    cut = len(x) // 10
    found = {"mixture": mixture(spread[cut:], spread[:cut], seed)}
    if find_spec("zuko"):
        found["flow"] = flow(spread[cut:], spread[:cut], seed)

    def whole(draw: Draw) -> Draw:
        def points(n: int, seed: int) -> np.ndarray:
            made = np.repeat(x[:1], n, axis=0)
            made[:, used] = draw(n, seed)
            return model.scaling_.undo(made)

        return points

    return {name: whole(draw) for name, draw in found.items()}


def mixture(x: np.ndarray, validation: np.ndarray, seed: int) -> Draw:
    fits = [
        GaussianMixture(c, reg_covar=1e-6, random_state=seed).fit(x)
        for c in COMPONENTS
        if c <= len(x) // 3
    ]
    best = max(fits, key=lambda fit: fit.score(validation))

    def draw(n: int, seed: int) -> np.ndarray:
        best.random_state = seed
        return np.asarray(best.sample(n)[0])

    return draw


def flow(x: np.ndarray, validation: np.ndarray, seed: int) -> Draw:
    """A neural spline flow, stopped on the validation rows."""
    import torch
    import zuko

    torch.manual_seed(seed)
    model = zuko.flows.NSF(x.shape[1], transforms=4, hidden_features=(64, 64))
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    rows, held = (torch.from_numpy(part).float() for part in (x, validation))
    best, worse, kept = -np.inf, 0, model.state_dict()
    while worse < 10:
        for batch in torch.randperm(len(rows)).split(256):
            optimiser.zero_grad()
            (-model().log_prob(rows[batch]).mean()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
        with torch.no_grad():
            level = float(model().log_prob(held).clamp(min=-50).mean())
        if level > best + 1e-3:
            best, worse = level, 0
            kept = {name: value.clone() for name, value in model.state_dict().items()}
        else:
            worse += 1
    model.load_state_dict(kept)

    def draw(n: int, seed: int) -> np.ndarray:
        torch.manual_seed(seed)
        with torch.no_grad():
            return np.asarray(model().sample((n,)).double().numpy())

    return draw


def auroc(real: Any, drawn: Any, model: GEDI) -> float:
    """Of gradient boosting on the columns of both, mean of two splits into five folds.

    Missing cells of real rows are filled as in the fit: no drawn row has one.
    """
    columns = model.columns_
    if columns is None:
        x, categories = np.concatenate([np.asarray(real), drawn]), None
    else:
        both = columns.values(pd.concat([real[drawn.columns], drawn], ignore_index=True))
        fills = [np.nan if each.kind == "category" else each.fill[0] for each in columns.used]
        x = np.where(np.isnan(both), fills, both)
        categories = [k for k, each in enumerate(columns.used) if each.kind == "category"]
        x[:, categories] = x[:, categories].clip(max=250)
    y = np.arange(len(x)) < len(real)
    found = np.zeros(len(x))
    for seed in (0, 1):
        judge = HistGradientBoostingClassifier(categorical_features=categories, random_state=seed)
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        found += cross_val_predict(judge, x, y, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(y, found))


# --- missing cells --------------------------------------------------------------------------------


def missing_rows(seed: int, files: list[Path]) -> Iterator[Row]:
    for name, training, test in tables(seed, files):
        if name in TABLES or name == "iris":
            continue
        model = GEDI(2, random_state=seed).fit(training)
        scale, hidden = training.std(0), np.random.default_rng(seed).random(test.shape) < HIDDEN
        holes = np.where(hidden, np.nan, test)
        used = np.broadcast_to(scale > 0, test.shape) & hidden
        made = {"GEDI": model.impute(holes)}
        for method, imputer in {
            "IterativeImputer": IterativeImputer(random_state=seed),
            "median": SimpleImputer(strategy="median"),
        }.items():
            made[method] = imputer.fit(training).transform(holes)
        errors = {
            method: (np.abs(filled - test) / np.where(scale > 0, scale, 1))[used].mean()
            for method, filled in made.items()
        }
        yield {"data": name} | {method: float(error) for method, error in errors.items()}


# --- the command ----------------------------------------------------------------------------------

WORKS = {"rules": rule_rows, "test": test_rows, "missing": missing_rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WORKS)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.npz")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="number of seeds")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pd.DataFrame([row for s in seeds for row in WORKS[given.what](s, given.files)])
    keys = [name for name in ("data", "rows") if name in found]
    means = found.groupby(keys, sort=False).mean()
    print("| " + " | ".join([*keys, *means]) + " |")
    print("| " + "--- | " * len(keys) + "---: | " * len(means.columns))
    for key, row in means.iterrows():
        names = [key] if isinstance(key, str) else list(key)
        share = "{:.1%}" if given.what == "rules" else "{:.3f}"
        cells = ["" if np.isnan(value) else share.format(value) for value in row]
        print("| " + " | ".join([*names, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
