"""Every number of the paper that is run here, and when ours counts as a reproduction of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gedilearn.experiments.images import METHODS, PAPER_SETS, TITLES, stands_for
from gedilearn.experiments.runner import Row, findings

# --- moons and circles --------------------------------------------------------------------------

# Mean and deviation of the NMI over five runs.
TOY_NMI: dict[tuple[str, str], tuple[float, float]] = {
    ("moons", "jem"): (0.00, 0.00), ("circles", "jem"): (0.00, 0.00),
    ("moons", "swav"): (0.76, 0.36), ("circles", "swav"): (0.00, 0.00),
    ("moons", "no-unif"): (0.00, 0.00), ("circles", "no-unif"): (0.00, 0.00),
    ("moons", "no-inv"): (0.11, 0.15), ("circles", "no-inv"): (0.22, 0.13),
    ("moons", "no-gen"): (0.98, 0.00), ("circles", "no-gen"): (0.83, 0.12),
    ("moons", "gedi"): (0.94, 0.07), ("circles", "gedi"): (1.00, 0.01),
}  # fmt: skip
NEAR = 0.05
FAILED = 0.3


def toy_verdict(ours: float, our_std: float, paper: float, paper_std: float) -> str:
    """'reproduced', 'better' or 'not reproduced', from means and deviations of the NMI."""
    near = abs(ours - paper) <= max(NEAR, paper_std + our_std)
    if near or (ours < FAILED and paper < FAILED):
        return "reproduced"
    return "better" if ours > paper else "not reproduced"


TOY_RULE = (
    f"Verdict: *reproduced* when the means differ by at most {NEAR:g} or by the sum of both "
    f"deviations, whichever is more, or when both are below {FAILED:g} (the method fails in both); "
    "*better* when ours is higher by more than that; else *not reproduced*."
)

# --- images -------------------------------------------------------------------------------------

# In the order of METHODS: JEM, Barlow, SwAV, no gen, GEDI.
NMI = {  # the main text has 0.43 for no gen on CIFAR-10
    "svhn": (0.00, 0.23, 0.21, 0.21, 0.25),
    "cifar10": (0.00, 0.17, 0.43, 0.44, 0.45),
    "cifar100": (0.00, 0.58, 0.65, 0.86, 0.87),
}
FID = {
    "svhn": (201, 353, 584, 454, 218),
    "cifar10": (263, 392, 415, 424, 197),
    "cifar100": (226, 352, 416, 447, 222),
}
PROBE = {
    "svhn": (0.20, 0.74, 0.45, 0.35, 0.55),
    "cifar10": (0.23, 0.65, 0.46, 0.54, 0.53),
    "cifar100": (0.03, 0.27, 0.13, 0.14, 0.12),
}
OOD = {
    ("svhn", "cifar10"): (0.73, 0.17, 0.26, 0.1, 0.80),  # printed 01 for no gen
    ("svhn", "cifar100"): (0.72, 0.24, 0.32, 0.15, 0.80),
    ("cifar10", "svhn"): (0.44, 0.32, 0.62, 0.11, 0.57),
    ("cifar10", "cifar100"): (0.53, 0.56, 0.51, 0.51, 0.61),
    ("cifar100", "svhn"): (0.44, 0.45, 0.3, 0.55, 0.53),
    ("cifar100", "cifar10"): (0.49, 0.43, 0.47, 0.46, 0.48),
}
NEAR_FID = 0.1  # as a share of the paper's
PAPER_SCORE = "gradient_norm"  # the paper's OOD score, higher for images of the data


class Number(NamedTuple):
    """One number of the paper; `other` is the set outside, for OOD."""

    data: str
    measure: str  # 'NMI', 'FID', 'OOD' or 'probe'
    other: str | None
    method: str
    paper: float

    @property
    def title(self) -> str:
        return self.measure if self.other is None else f"OOD {TITLES[self.other]}"


class Answer(NamedTuple):
    """What was found here, in words, and how it compares."""

    ours: str
    verdict: str


def numbers(data: str) -> Iterator[Number]:
    """All of the paper's numbers on a data set."""
    tables: list[tuple[str, str | None, Sequence[float]]] = [
        ("NMI", None, NMI[data]),
        ("FID", None, FID[data]),
        *(("OOD", other, OOD[data, other]) for other in PAPER_SETS[data]),
        ("probe", None, PROBE[data]),
    ]
    for measure, other, values in tables:
        for method, value in zip(METHODS, values, strict=True):
            yield Number(data, measure, other, method, value)


def answer(number: Number, rows: Sequence[Row]) -> Answer:
    """What the rows of all runs say to a number: those at full scale if there are some."""
    own = [r for r in rows if (r["data"], r["method"]) == (number.data, number.method)]
    full = [r for r in own if r["scale"] == "paper" and r["shortened_to"] is None]
    whole = f"needs a GPU: `{command(number.data, number.method)}`"
    if not own:
        return Answer("", whole)
    group = full or [r for r in own if r["shortened_to"] is None] or own
    ours = [value for row in group if (value := value_of(number, row)) is not None]
    if not full:
        short = group[0]["shortened_to"] is not None
        why = "shortened: not comparable" if short else "scaled down: not comparable"
        return Answer(words(number, group, ours), f"{why}; {whole}")
    if not ours:
        return Answer("", f"not measured: {_missing(number)}")
    return Answer(words(number, group, ours), judge(number, ours, group))


def command(data: str, method: str) -> str:
    return f"gedi reproduce images --data {data} --scale paper --methods {method}"


def value_of(number: Number, row: Row) -> float | None:
    """Our counterpart of a number: measured as the paper did, as far as that is known."""
    if number.measure == "NMI":
        return _float(row["batchwise_nmi"])
    if number.measure == "probe":
        own = row["scale"] == "paper" and row["probe_protocol"] != "paper"
        return None if own else _float(row["probe"])
    if number.measure == "FID":
        return _float(row["frechet"]) if row["frechet_title"] == "FID" else None
    outside = _outside(number, row)
    return None if outside is None else _float(row["ood"][outside][PAPER_SCORE])


def words(number: Number, group: Sequence[Row], ours: Sequence[float]) -> str:
    """The counterparts over the seeds, and what must be known of them."""
    if not ours:
        return ""
    value = statistics.fmean(ours)
    if number.measure == "FID":
        return f"{value:.0f}"
    if number.measure == "OOD":
        outside = _outside(number, group[0])
        return f"{value:.2f}" + (f" ({outside})" if outside != number.other else "")
    if number.measure == "probe":
        return f"{value:.2f}"
    chance, nmi, ami = (
        statistics.fmean(float(row[name]) for row in group)
        for name in ("batchwise_chance", "nmi", "ami")
    )
    return f"batch-wise {value:.2f} (chance {chance:.2f}); whole test NMI {nmi:.2f}, AMI {ami:.2f}"


def judge(number: Number, ours: Sequence[float], group: Sequence[Row]) -> str:
    """'reproduced', 'better' or 'not reproduced: why'."""
    value, spread = statistics.fmean(ours), statistics.pstdev(ours)
    near = NEAR_FID * number.paper if number.measure == "FID" else NEAR
    difference = value - number.paper
    if abs(difference) <= max(near, spread) + 1e-9:
        return "reproduced"
    if (difference < 0) == (number.measure == "FID"):
        return "better"
    return f"not reproduced: {findings(group) or 'nothing wrong was found, the number is lower'}"


IMAGE_RULE = (
    f"At the paper's scale: *reproduced* when our mean over the seeds is within {NEAR:g} of the "
    f"paper's number (FID: {NEAR_FID:.0%}), or within our own deviation if that is more; *better* "
    "when it is beyond that on the good side; else *not reproduced*, and what was found without "
    "labels. The paper does not say of how many samples its FID is."
)


def _outside(number: Number, row: Row) -> str | None:
    """The set outside, of those that a row was measured with, that the number is about."""
    assert number.other is not None
    names = [name for name in row["ood"] or {} if stands_for(name, number.other)]
    return names[0] if names else None


def _missing(number: Number) -> str:
    if number.measure == "FID":
        return "FID needs the Inception weights, --weights FILE"
    if number.measure == "OOD":
        return f"`gedi data get {number.other}`, or --ood {number.other}=DATA"
    return "--probe paper" if number.measure == "probe" else "the test images have no labels"


def _float(value: float | str | None) -> float | None:
    return None if value is None else float(value)  # what is not finite is written as its name
