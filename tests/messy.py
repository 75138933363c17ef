"""Tables as people have them: mixed types, gaps, IDs, constant and doubled columns, with known
groups; and new rows for them, with categories that were not seen and more gaps."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np

Cells = dict[str, list[str]]


@dataclass(frozen=True)
class Recipe:
    """What a table is made of; counts are of columns."""

    clusters: int = 3
    rows: int = 400
    numbers: int = 4  # that tell the groups apart
    noise: int = 1
    distance: float = 4.0  # between the means of two groups, in deviations
    categories: int = 2  # that tell the groups apart, by this chance
    agreement: float = 0.7
    strange: int = 1  # categories that have nothing to do with the groups
    values: int = 4  # of a category
    rare: bool = False  # whether a category has many rare values
    truths: int = 1
    dates: int = 1
    missing: float = 0.2
    ids: tuple[str, ...] = ("text",)
    constant: bool = True
    doubled: bool = True


# Ten of them.
RECIPES = {
    "mixed": Recipe(),
    "two IDs": Recipe(clusters=2, ids=("text", "counting")),
    "one dominant category": Recipe(categories=0, strange=1, values=3),
    "two dominant categories": Recipe(clusters=4, categories=0, strange=2, values=3, distance=5),
    "three dominant categories": Recipe(categories=1, strange=3, values=2, truths=2),
    "categories that tell": Recipe(numbers=2, noise=1, categories=5, agreement=0.85, strange=0),
    "rare values": Recipe(rare=True, values=8, rows=500, distance=5),
    "dates and truths": Recipe(clusters=2, dates=3, truths=3, categories=1, numbers=3),
    "numbers with gaps": Recipe(numbers=6, categories=0, strange=0, truths=0, dates=0, ids=()),
    "random IDs": Recipe(clusters=3, ids=("random", "text"), noise=2, rows=300),
}


def make(recipe: Recipe, seed: int, gaps: bool = True) -> tuple[Cells, np.ndarray]:
    """The cells of a table and the group of each row."""
    rng = np.random.default_rng(seed)
    n, k = recipe.rows, recipe.clusters
    y = rng.integers(0, k, n)
    means = np.linalg.qr(rng.normal(size=(max(recipe.numbers, k), max(recipe.numbers, k))))[0]
    means = means[:k, : recipe.numbers] if recipe.numbers >= k else rng.normal(size=(k, 2))
    far = min(np.linalg.norm(a - b) for i, a in enumerate(means) for b in means[:i])
    means = means * recipe.distance / max(far, 1e-9)
    table: Cells = {}
    for j in range(recipe.numbers):
        values = (means[y, j] + rng.normal(size=n)) * 10 ** rng.integers(0, 4) + 100
        table[f"measure {j}"] = [f"{v:.4f}" if j % 2 else str(round(v, 1)) for v in values]
    for j in range(recipe.noise):
        table[f"noise {j}"] = [f"{v:.3f}" for v in rng.gamma(3, size=n)]
    for j in range(recipe.categories):
        told = np.where(rng.random(n) < recipe.agreement, y, rng.integers(0, recipe.values, n))
        table[f"told {j}"] = [f"{'ABC'[j % 3]}{v}" for v in told]
    for j in range(recipe.strange):
        shares = rng.dirichlet(np.full(recipe.values, 5.0))
        table[f"strange {j}"] = [f"s{v}" for v in rng.choice(recipe.values, n, p=shares)]
    if recipe.rare:
        seldom = [
            f"r{rng.integers(200)}" if r < 0.3 else f"o{rng.integers(3)}" for r in rng.random(n)
        ]
        table["town"] = seldom
    for j in range(recipe.truths):
        words = ("no", "yes") if j % 2 else ("False", "True")
        table[f"truth {j}"] = [
            words[int(r < 0.3 + 0.4 * (v == 0))] for r, v in zip(rng.random(n), y, strict=True)
        ]
    for j in range(recipe.dates):
        days = 300 * (y % 2) * (j == 0) + rng.integers(0, 400, n)
        table[f"date {j}"] = [str(date(2021, 1, 1) + timedelta(int(d))) for d in days]
    if gaps:
        for cells in table.values():
            for row in np.flatnonzero(rng.random(n) < recipe.missing):
                cells[row] = str(rng.choice(["", "NA", "NaN"]))
    if recipe.doubled:
        first = next(iter(table))
        table[f"{first} again"] = list(table[first])
    if recipe.constant:
        table["country"] = ["here"] * n
    for kind in recipe.ids:
        numbers = {"text": np.arange(n), "counting": np.arange(n) + 1000}.get(kind)
        numbers = rng.choice(10**7, n, replace=False) if numbers is None else numbers
        values = [f"C{v:06}" if kind == "text" else str(v) for v in numbers]
        table = {f"{kind}_id": values} | table
    return table, y


def new_rows(recipe: Recipe, seed: int) -> Cells:
    """Other rows of the same kind, with an unseen value in each category and whole rows of gaps."""
    table, _ = make(recipe, seed)
    for name, cells in table.items():
        if name.startswith(("told", "strange", "town")):
            cells[0] = "never seen"
        if "id" not in name and name != "country":
            cells[1] = ""
    return table


def write(table: Cells, path: Path) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path
