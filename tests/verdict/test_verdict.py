"""The verdict: which reason it gives, and its sentences in full."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from gedilearn.starts.choose import VOTE
from gedilearn.verdict import monitor
from gedilearn.verdict.evidence import Evidence
from gedilearn.verdict.monitor import Diagnosis
from gedilearn.verdict.number import Number, NumberChoice
from gedilearn.verdict.verdict import _SENTENCES, Verdict, compose

N, C = 300, 3
LABELS = torch.arange(N) % C
FEATURES = torch.nn.functional.one_hot(LABELS, 5) + torch.randn(
    N, 5, generator=torch.Generator().manual_seed(0)
)
SURE = 20.0 * torch.nn.functional.one_hot(LABELS, C)
EVIDENCE = Evidence(
    method="tree",
    stability=0.93,
    initial_stability=0.93,
    labels_kept=1.0,
    shares=(0.4, 0.3, 0.3),
    recurrence=(1.0, 0.9, 0.8),
    cut=(0.0, 0.1, 0.1),
    dips=((0, 1, 1.5), (1, 2, 2.5)),
    rivals={},
)
CONNECTED = replace(EVIDENCE, dips=((0, 1, 0.2), (1, 2, 0.1)))


def diagnosis(logits: torch.Tensor = SURE, **changes: Any) -> Diagnosis:
    found = monitor.diagnose(FEATURES, logits, logits, None, 0.5, 0.002)
    return replace(found, **{"evidence": EVIDENCE} | changes)


def numbers(*reasons: str | None) -> NumberChoice:
    """Numbers 2, 3, ... with these reasons; 3 is chosen."""
    found = []
    for k, reason in enumerate(reasons, start=2):
        splits = ((1,) * k,) * (k - 1) if k > 2 else ()
        found.append(Number(k, 0.9, reason, 1, 0.1, "tree", splits))
    return NumberChoice(3, tuple(found))


FLAT = torch.zeros(N, C)
ONE = torch.tensor([20.0, 0, 0]).expand(N, C)
CASES: list[tuple[str, str, Diagnosis, NumberChoice | None]] = [
    ("separated", "certified", diagnosis(gap=0.001), None),
    ("separated", "supported", diagnosis(), None),
    ("stable", "supported", diagnosis(evidence=replace(CONNECTED, stability=0.99)), None),
    ("connected", "doubtful", diagnosis(gap=2.0, evidence=replace(CONNECTED, stability=1.0)), None),
    (
        "fewer groups",
        "doubtful",
        diagnosis(evidence=replace(EVIDENCE, dips=((0, 1, 1.5), (1, 2, 0.1)))),
        None,
    ),
    ("unstable", "doubtful", diagnosis(evidence=replace(EVIDENCE, stability=0.7)), None),
    ("weak", "doubtful", diagnosis(evidence=CONNECTED), None),
    ("overlap", "doubtful", diagnosis(evidence=replace(CONNECTED, method=VOTE)), None),
    (
        "no structure",
        "no structure found",
        diagnosis(gap=2.0, evidence=replace(CONNECTED, stability=0.5, initial_stability=0.5)),
        None,
    ),
    ("labels changed", "doubtful", diagnosis(evidence=replace(EVIDENCE, labels_kept=0.7)), None),
    ("no number", "doubtful", diagnosis(tries=0), numbers(None, None, None)),
    ("bound reached", "certified", diagnosis(gap=0.001, evidence=None), None),
    ("bound missed", "doubtful", diagnosis(evidence=None), None),
    ("undecided", "doubtful", diagnosis(SURE / 20), None),
    ("failure mode", "doubtful", diagnosis(ONE), None),
    ("diverged", "doubtful", diagnosis().diverged("training diverged at iteration 9: steep"), None),
    ("diverged", "doubtful", monitor.diagnose(*[FLAT * math.nan] * 3, None, math.inf, 0.002), None),
    (
        "one cluster",
        "doubtful",
        monitor.diagnose(FEATURES, FLAT[:, :1], FLAT[:, :1], None, 0.0, 0.002),
        None,
    ),
]


@pytest.mark.parametrize(("code", "grade", "found", "choice"), CASES)
def test_the_reason_is_the_first_that_holds_and_the_verdict_is_short(
    code: str, grade: str, found: Diagnosis, choice: NumberChoice | None
) -> None:
    verdict = compose(found, choice=choice)
    assert (verdict.reason.code, verdict.grade, found.grade) == (code, grade, grade)
    assert verdict.headline.startswith(f"{grade}: ")
    assert len(verdict.text("gedi fit customers.csv").split()) <= 60
    written = json.loads(json.dumps(verdict.to_json()))
    assert str(TypeAdapter(Verdict).validate_python(written)) == str(verdict)


@pytest.mark.parametrize(("code", "grade", "found", "choice"), CASES)
def test_a_group_of_outliers_is_named_after_any_reason(
    code: str, grade: str, found: Diagnosis, choice: NumberChoice | None
) -> None:
    plain = compose(found, choice=choice)
    for outlying, words in (
        ((2,), "Cluster 2 is a group of outliers."),
        ((0, 2), "Clusters 0, 2 are groups of outliers."),
        ((0, 2, 3, 7, 9), "Clusters 0, 2, 3 and 2 more are groups of outliers."),
    ):
        verdict = compose(replace(found, outlying=outlying), choice=choice)
        assert verdict == replace(
            plain, reason=replace(plain.reason, text=f"{plain.reason.text} {words}")
        )
        assert len(verdict.text("gedi fit customers.csv").split()) <= 60
    assert "outliers" not in str(plain)


def test_every_reason_has_a_case() -> None:
    assert {code for code, *_ in CASES} == set(_SENTENCES)


def test_figures_are_the_numbers_behind_the_sentences() -> None:
    found = diagnosis(gap_prior=0.4)
    figures = compose(found, choice=numbers("stable", "separated"), disputed=(2, 9)).figures
    assert figures["stability"] == 0.93 and figures["separate groups"] == 3
    assert figures["smallest density dip (nats)"] == 1.5 and figures["numbers compared"] == "2 to 3"
    assert figures["bound gap (nats)"] == 0.5 and figures["labels disputed"] == "2 of 9"
    assert figures["bound gap from cluster sizes (nats)"] == 0.4
    alone = compose(diagnosis(evidence=replace(EVIDENCE, dips=()), gap_prior=0.1)).figures
    assert alone["smallest density dip (nats)"] == "disconnected"
    assert "bound gap from cluster sizes (nats)" not in alone


class TestProse:
    """The sentences as people read them, in Python and after a command."""

    def test_a_connected_group(self) -> None:
        found = diagnosis(gap=2.0, evidence=replace(CONNECTED, stability=1.0))
        verdict = compose(found, choice=numbers(None, "stable", None, "stable"))
        assert str(verdict) == (
            "doubtful: the split into 3 clusters is reproducible, but it cuts through one "
            "connected group.\n"
            "Subsamples find the same clusters (stability 1.00), yet the density does not drop "
            "between them.\n"
            "Next: use them as a segmentation, not as natural groups; 5 clusters are also "
            "stable (GEDI(5))."
        )
        assert verdict.text("gedi fit titanic.csv").endswith("(gedi fit titanic.csv -k 5).")

    def test_fewer_groups(self) -> None:
        found = diagnosis(evidence=replace(EVIDENCE, dips=((0, 1, 1.5), (1, 2, 0.1))))
        assert str(compose(found)) == (
            "doubtful: only 2 groups are separate among the 3 clusters.\n"
            "The density drops between 2 groups, and the clusters within each group touch.\n"
            "Next: use the clusters as a segmentation within 2 groups, or try 2 clusters (GEDI(2))."
        )

    def test_separate_groups(self) -> None:
        assert str(compose(diagnosis(gap=0.001))) == (
            "certified: the 3 clusters are separate groups.\n"
            "The density drops between all clusters, and subsamples reproduce them (stability "
            "0.93).\n"
            "Next: use the labels, and check the rows with the lowest trust."
        )
