"""The density of tables, compared with mixtures, kernels and a spline flow alone.

    python benchmarks/tables.py bike.npz --first 10 --seeds 1

All methods get the same rows, those of files (arrays `x`) and of scikit-learn. Rows are shuffled.
Columns that are correlated above 0.98 with an earlier one are left out, the others are standardised
on the training rows, and normal noise of 0.05 is added, because many values repeat. At most 4,000
rows are for training, and the methods choose their settings on a tenth of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from density import BANDWIDTHS, Reference
from gedilearn.estimator import GEDI
from gedilearn.paper import table
from gedilearn.paper.table import Row
from gedilearn.registry import PARTS

CORRELATED, NOISE = 0.98, 0.05
MOST_TRAINING, MOST_TEST, TRAINING = 4_000, 1_500, 0.7
COMPONENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
N_CLUSTERS = 3


def friedman() -> np.ndarray:
    """Ten uniform columns, and one that depends on five of them."""
    return np.column_stack(datasets.make_friedman1(3_000, noise=0.5, random_state=0))


TABLES: dict[str, Callable[[], np.ndarray]] = {
    "iris": lambda: datasets.load_iris().data,
    "wine": lambda: datasets.load_wine().data,
    "diabetes": lambda: datasets.load_diabetes().data,
    "breast-cancer": lambda: datasets.load_breast_cancer().data,
    "friedman": friedman,
}


def drawn(x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and test rows: (n, d), (m, d)."""
    rng = np.random.default_rng(seed)
    x = x[rng.permutation(len(x))]
    n = min(MOST_TRAINING, max(len(x) - MOST_TEST, round(TRAINING * len(x))))
    x = x[:, x[:n].std(0) > 1e-3 * x.std(0)]
    alike = np.abs(np.corrcoef(x.T))
    kept: list[int] = []
    for j in range(x.shape[1]):
        if all(alike[j, i] < CORRELATED for i in kept):
            kept.append(j)
    x = (x[:, kept] - x[:n, kept].mean(0)) / x[:n, kept].std(0)
    x += NOISE * rng.normal(size=x.shape)
    return x[:n], x[n:]


class SplineFlow:
    """zuko's neural spline flow, as its users train it: Adam, stopped on a tenth of the rows."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, x: np.ndarray) -> None:
        import zuko

        torch.manual_seed(self.seed)
        held, rest = torch.from_numpy(x).float().split([len(x) // 10, len(x) - len(x) // 10])
        self.flow = zuko.flows.NSF(x.shape[1], transforms=4, hidden_features=(64, 64))
        adam = torch.optim.AdamW(self.flow.parameters(), lr=2e-3, weight_decay=1e-4)
        best, patience, kept = -np.inf, 10, {}
        while patience:
            for rows in torch.randperm(len(rest)).split(256):
                adam.zero_grad()
                (-self.flow().log_prob(rest[rows]).mean()).backward()
                torch.nn.utils.clip_grad_norm_(self.flow.parameters(), 5.0)
                adam.step()
            with torch.no_grad():
                level = float(self.flow().log_prob(held).clamp(min=-50).mean())
            patience -= 1
            if level > best + 1e-3:
                best, patience = level, 10
                kept = {name: own.clone() for name, own in self.flow.state_dict().items()}
        self.flow.load_state_dict(kept)

    @torch.no_grad()
    def score_samples(self, x: np.ndarray) -> np.ndarray:
        return self.flow().log_prob(torch.from_numpy(x).float()).double().numpy()


def references(seed: int) -> dict[str, Reference | SplineFlow]:
    return {
        "mixture": Reference(
            lambda k: GaussianMixture(k, reg_covar=1e-3, random_state=seed), COMPONENTS, seed
        ),
        "kernels": Reference(lambda width: KernelDensity(bandwidth=width), BANDWIDTHS, seed),
        "flow alone": SplineFlow(seed),
    }


def without_flow(x: np.ndarray, seed: int) -> GEDI:
    """The base as it is without a flow; GEN is not trained."""
    flow = PARTS["flow"]
    PARTS.remove("flow")
    try:
        return GEDI(N_CLUSTERS, random_state=seed, settings={"sampler.kind": "none"}).fit(x)
    finally:
        PARTS.register("flow", flow)


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor, on one thread."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(name: str, x: np.ndarray, seed: int) -> Row:
    """The mean log-likelihood of the test rows by each method, and what GEN adds to the base."""
    train, test = drawn(x, seed)
    row: Row = {"data": name, "seed": seed, "size": "{:,} x {}".format(*train.shape)}
    for method, model in references(seed).items():
        row[method + " seconds"] = timed(partial(model.fit, train))
        row[method] = float(model.score_samples(test).mean())
    row["ahead"] = -max(row[method] for method in references(seed))
    row["base without flow"] = without_flow(train, seed).score(test)
    model = GEDI(N_CLUSTERS, random_state=seed)
    row["seconds"] = timed(partial(model.fit, train))
    whole, density = model.score_samples(test), model.result_.density
    row["weight"], error = float(density.weight), float(density.error)
    density.weight, density.log_normaliser = 0 * density.weight, 0 * density.log_normaliser
    gain = whole - model.score_samples(test)
    row |= {"GEDI": float(whole.mean()), "base": float((whole - gain).mean())}
    row |= {
        "gain": float(gain.mean()),
        "error": float(np.hypot(gain.std() / len(gain) ** 0.5, error)),
    }
    row["ahead"] += row["GEDI"]
    return row


LEVELS = ("base without flow", "base", "GEDI", "mixture", "kernels", "flow alone")
LIKELIHOOD: dict[str, table.Text] = {
    "data": table.label("data"),
    "rows x columns": table.label("size"),
    **{name: table.statistic(name, 2) for name in LEVELS},
}
DETAILS: dict[str, table.Text] = {
    "data": table.label("data"),
    "seeds": table.seeds,
    "GEDI minus the best other": table.ranged("ahead"),
    "weight of the network": table.ranged("weight", 1),
    "GEN adds": table.ranged("gain"),
    "its standard error": table.statistic("error"),
    "seconds": table.ranged("seconds", 1),
    "seconds of the flow alone": table.ranged("flow alone seconds", 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="tables.py", description="The density of tables.")
    parser.add_argument("files", nargs="*", type=Path, help="files NAME.npz with an array x")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="number of seeds")
    parser.add_argument("--first", type=int, default=10, metavar="N", help="the first seed")
    parser.add_argument("--only-files", action="store_true", help="not those of scikit-learn")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sources = {file.stem: np.load(file)["x"] for file in options.files}
    if not options.only_files:
        sources |= {name: make() for name, make in TABLES.items()}
    rows = []
    for name, x in sources.items():
        for seed in range(options.first, options.first + options.seeds):
            rows.append(measure(name, x, seed))
            shown = {k: v if isinstance(v, int | str) else round(v, 3) for k, v in rows[-1].items()}
            print(shown, flush=True)
    groups = table.grouped(rows, data=sources)
    for columns in (LIKELIHOOD, DETAILS):
        print("\n" + table.make("", columns, groups).markdown())


if __name__ == "__main__":
    main()
