"""The one rule behind the word for a clustering."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gedilearn.training.monitor import STABLE, Evidence, grade

GOOD = Evidence(
    method="slow modes",
    stability=1.0,
    cut=0.001,
    slower=10.0,
    t=20.0,
    threshold=3.0,
    structure=True,
    step=4.0,
    rivals={"tree": (0.01, 0.9)},
)


@pytest.mark.parametrize(
    ("bound_reached", "structure", "stability", "word"),
    [
        (True, True, 1.0, "certified"),
        (True, True, 0.85, "certified"),
        (False, True, 0.85, "supported"),
        (False, True, 1.0, "supported"),
        (True, True, 0.84, "doubtful"),
        (False, True, 0.84, "doubtful"),
        (False, True, 0.0, "doubtful"),
        (True, False, 1.0, "no structure found"),
        (False, False, 1.0, "no structure found"),
        (True, False, 0.0, "no structure found"),
    ],
)
def test_the_grade_needs_structure_then_stability_then_the_bound(
    bound_reached: bool, structure: bool, stability: float, word: str
) -> None:
    evidence = replace(GOOD, structure=structure, stability=stability)
    assert grade(bound_reached, evidence) == word


def test_without_other_evidence_the_bound_decides() -> None:
    assert (grade(True, None), grade(False, None)) == ("certified", "doubtful")


def test_the_threshold_is_the_documented_one_and_nothing_else_counts() -> None:
    assert STABLE == 0.85
    other = replace(GOOD, cut=0.9, slower=0.1, t=-5.0, rivals={}, method="k-means")
    assert grade(True, other) == "certified"


def test_words_tell_stability_and_a_lack_of_structure() -> None:
    assert GOOD.words == "parts of the data agree to 1.00"
    assert replace(GOOD, structure=False).words.startswith("no slower to walk through than")
