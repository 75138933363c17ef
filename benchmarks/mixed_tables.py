"""Tables of mixed columns whose rows obey known rules, drawn from seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd


def passengers(n: int, seed: int) -> pd.DataFrame:
    """A class and its number, sex and who, a fare that is never negative, counts of relatives."""
    rng = np.random.default_rng(seed)
    number = rng.choice([1, 2, 3], n, p=[0.24, 0.21, 0.55])
    age = np.round(np.clip(rng.gamma(4, 7.5, n), 0.5, 80) * 2) / 2
    sex = np.where(rng.random(n) < 0.64 - 0.1 * (number == 1), "male", "female")
    who = np.where(age < 16, "child", np.where(sex == "male", "man", "woman"))
    port = np.array(["Cherbourg", "Queenstown", "Southampton"])
    siblings = np.minimum(rng.geometric(0.65, n) - 1, 8)
    parents = np.where(rng.random(n) < 0.3 + 0.4 * (age < 16), rng.geometric(0.6, n), 0)
    fare = rng.lognormal(np.array([0, 4.1, 2.9, 2.3])[number], 0.5) * (
        1 + 0.4 * (siblings + parents)
    )
    fare = np.where(rng.random(n) < 0.02, 0, fare)
    alive = rng.random(n) < 0.2 + 0.45 * (sex == "female") + 0.15 * (number == 1)
    return pd.DataFrame(
        {
            "survived": alive.astype(int),
            "pclass": number,
            "sex": sex,
            "age": np.where(rng.random(n) < 0.15, np.nan, age),
            "siblings": siblings,
            "parents": np.minimum(parents, 6),
            "fare": np.round(fare, 2),
            "port": port[(rng.random(n)[:, None] > np.cumsum([0.19, 0.09])).sum(1)],
            "class": np.array(["", "First", "Second", "Third"])[number],
            "who": who,
        }
    )


def taxi_rides(n: int, seed: int) -> pd.DataFrame:
    """Pickup before dropoff, tolls that are mostly zero, a total that is a sum, rare zones."""
    rng = np.random.default_rng(seed)
    pickup = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 31 * 86_400, n), "s")
    distance = np.round(rng.lognormal(0.7, 0.8, n), 2)
    seconds = np.maximum((distance * rng.lognormal(5.3, 0.35, n)).astype(int), 30)
    fare = np.round(2.5 + 2.5 * distance + seconds / 240) / 2 * 2
    tolls = np.where((distance > 6) & (rng.random(n) < 0.5), 6.55, 0.0)
    tolls = np.where(rng.random(n) < 0.01, 12.5, tolls)
    is_card = rng.random(n) < 0.7
    tip = np.where(is_card, np.round(fare * rng.choice([0, 0.15, 0.2, 0.25], n), 2), 0.0)
    boroughs = np.array(["Bronx", "Brooklyn", "Manhattan", "Queens"])
    zones = 120  # the first thirty in the Bronx, and so on; few are frequent
    shares = np.tile(0.85 ** np.arange(30), 4) * np.repeat([0.5, 1, 6, 2.5], 30)
    zone = rng.choice(zones, n, p=shares / shares.sum())
    return pd.DataFrame(
        {
            "pickup": pickup,
            "dropoff": pickup + pd.to_timedelta(seconds, "s"),
            "passengers": rng.choice([1, 2, 3, 4, 5, 6], n, p=[0.72, 0.15, 0.04, 0.02, 0.04, 0.03]),
            "distance": distance,
            "fare": fare,
            "tip": tip,
            "tolls": tolls,
            "total": np.round(fare + tip + tolls + 0.8, 2),
            "payment": np.where(is_card, "card", "cash"),
            "zone": np.char.add("zone ", zone.astype(str)),
            "borough": boroughs[zone // 30],
        }
    )


def penguins(n: int, seed: int) -> pd.DataFrame:
    """Species that live on some islands only, and their measures."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n, p=[0.44, 0.2, 0.36])
    species = np.array(["Adelie", "Chinstrap", "Gentoo"])[kind]
    adelie = rng.choice(["Biscoe", "Dream", "Torgersen"], n, p=[0.29, 0.37, 0.34])
    island = np.where(kind == 0, adelie, np.array(["", "Dream", "Biscoe"])[kind])
    is_male = rng.random(n) < 0.5
    means = np.array([[38.8, 18.3, 190, 3700], [48.8, 18.4, 196, 3733], [47.5, 15.0, 217, 5076]])
    spread = np.array([[2.2, 1.0, 5.5, 300], [2.6, 1.0, 6, 280], [2.6, 0.8, 5.5, 330]])
    common = rng.normal(size=(n, 1))
    body = means[kind] + spread[kind] * (0.7 * common + 0.7 * rng.normal(size=(n, 4)))
    body += np.array([3.0, 1.2, 6, 600]) * (is_male[:, None] - 0.5)
    table = pd.DataFrame({"species": species, "island": island})
    table["bill_length"], table["bill_depth"] = np.round(body[:, :2], 1).T
    table["flipper"] = np.round(body[:, 2]).astype(int)
    table["mass"] = (np.round(body[:, 3] / 25) * 25).astype(int)
    table["sex"] = np.where(is_male, "Male", "Female")
    return table


TABLES: dict[str, tuple[Callable[[int, int], pd.DataFrame], int]] = {
    "passengers": (passengers, 900),
    "taxi rides": (taxi_rides, 3_000),
    "penguins": (penguins, 340),
}

# --- the rules that their rows keep ---------------------------------------------------------------

Broken = dict[str, np.ndarray]  # kind of a rule -> whether each row breaks one of it: (n,)
# Pairs of columns of breast cancer: the mean, and the mean of the three largest values.
WORST = [(k, k + 20) for k in range(10)]


def broken(name: str, real: Any, rows: Any) -> Broken:
    """The rules that rows of the table break, given all its real rows."""
    found: Broken = {}

    def add(kind: str, breaks: Any) -> None:
        found[kind] = found.get(kind, False) | np.asarray(breaks, dtype=bool)

    real, rows = (pd.DataFrame(table).reset_index(drop=True) for table in (real, rows))
    for column in real.select_dtypes("number"):
        seen, own = real[column].dropna(), rows[column].astype(float)
        add("range", (own < seen.min() - 1e-9) | (own > seen.max() + 1e-9))
        decimals = next((k for k in range(5) if np.allclose(seen, seen.round(k), 0, 1e-9)), None)
        if decimals is not None:
            add("decimals", (own - own.round(decimals)).abs() > 1e-9)
    for column in real.select_dtypes(exclude=["number", "datetime"]):
        add("levels", ~rows[column].isin(real[column].unique()))
    if name == "passengers":
        number = rows["class"].map({"First": 1, "Second": 2, "Third": 3})
        add("pairs", number != rows["pclass"])
        add(
            "pairs",
            rows["who"].map({"man": "male", "woman": "female"}).fillna(rows["sex"]) != rows["sex"],
        )
    if name == "taxi rides":
        add("order", rows["dropoff"] < rows["pickup"])
        borough = dict(zip(real["zone"], real["borough"], strict=True))
        known = rows["zone"].map(borough)
        add("pairs", known.notna() & (known != rows["borough"]))
        add("pairs", (rows["payment"] == "cash") & (rows["tip"].abs() > 1e-9))
        add(
            "sums", (rows["fare"] + rows["tip"] + rows["tolls"] + 0.8 - rows["total"]).abs() > 0.006
        )
    if name == "penguins":
        seen = set(zip(real["species"], real["island"], strict=True))
        add(
            "pairs",
            [pair not in seen for pair in zip(rows["species"], rows["island"], strict=True)],
        )
    if name == "breast cancer":
        for mean, worst in WORST:
            add("order", rows[worst] < rows[mean])
    return found
