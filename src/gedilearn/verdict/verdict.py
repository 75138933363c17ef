"""The verdict: a headline, a reason and a next step in plain sentences, with their figures.

It is composed from the facts that a fit measured, and decides nothing itself: the grade comes from
`evidence.grade`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gedilearn.data.arrays import listing
from gedilearn.verdict.evidence import LEAST_KEPT, Evidence, Grade
from gedilearn.verdict.monitor import DIVERGENCE, Diagnosis

if TYPE_CHECKING:
    from gedilearn.density.fit import Findings
    from gedilearn.verdict.number import NumberChoice

Figure = float | int | str | None


@dataclass(frozen=True)
class Reason:
    """Why the grade is what it is.

    code: a name for programs, one of the keys of `_SENTENCES`
    text: a sentence for people
    """

    code: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """How far to trust a clustering, in three sentences, and the figures behind them.

    try_clusters: another number of clusters that is worth a fit.
    """

    grade: Grade
    headline: str
    reason: Reason
    next_step: str
    try_clusters: int | None
    figures: dict[str, Figure]

    def text(self, command: str | None = None) -> str:
        """Headline, reason and next step, a line each.

        command: the shell command of the fit, for readers who fit by commands
        """
        step = self.next_step
        if self.try_clusters is not None:
            fit = f"GEDI({self.try_clusters})"
            step += f" ({fit if command is None else f'{command} -k {self.try_clusters}'})"
        return f"{self.headline}\n{self.reason.text}\nNext: {step}."

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Sentences(NamedTuple):
    """Templates; their fields are those of `_words`."""

    headline: str
    reason: str
    next_step: str


_SEGMENTS = "use them as a segmentation, not as natural groups"
_AGAIN = "fit again with another seed or several initializations"
# By the reason's code, in the order in which they are looked for.
_SENTENCES = {
    "one cluster": Sentences(
        "with one cluster there is nothing to verify",
        "The fit learned a density and no clusters.",
        "read the figures of the density",
    ),
    "diverged": Sentences(
        "training diverged, and the clusters are those of the last good state",
        "{problem}.",
        "fit again with a lower learning rate",
    ),
    "failure mode": Sentences(
        "training failed: {modes}",
        "{problem}.",
        _AGAIN,
    ),
    "undecided": Sentences(
        "the network is undecided between the {clusters}",
        "The mean probability of a row's cluster is only {confidence:.2f}.",
        "fit fewer clusters, or train for longer",
    ),
    "bound reached": Sentences(
        "the predictions are confident, consistent and balanced",
        "The bound of the objective is reached. Density dips and stability were not measured.",
        "compare some clusters with what you know of the data",
    ),
    "bound missed": Sentences(
        "the clusters may be right, but there is little evidence for them",
        "The bound gap is {gap:.3g} nats. Density dips and stability were not measured.",
        "compare some clusters with what you know of the data, or fit another seed",
    ),
    "labels changed": Sentences(
        "the network did not reproduce the clusters that it was given",
        "It keeps only {labels_kept:.0%} of the given labels.",
        "look at the rows with changed labels, or train for longer",
    ),
    "no number": Sentences(
        "no number of clusters stands out, and {k} is only the most stable",
        "None of {tried} clusters is separated by density dips or reproduced in full.",
        _SEGMENTS,
    ),
    "no structure": Sentences(
        "nothing suggests that these {clusters} exist",
        "The density does not drop between them, and {others} give other clusters "
        "(stability {stability:.2f}).",
        "do not interpret the clusters, or choose other columns",
    ),
    "overlap": Sentences(
        "the {clusters} overlap",
        "Several networks agree on them in part (stability {stability:.2f}), and the density does "
        "not drop between them.",
        "use the labels of rows with high trust, or fewer clusters",
    ),
    "separated": Sentences(
        "the {clusters} are separate groups",
        "{separation}, and {others} reproduce them (stability {stability:.2f}).",
        "use the labels, and check the rows with the lowest trust",
    ),
    "stable": Sentences(
        "the {clusters} are reproducible, although some of them touch",
        "{Others} find the same clusters (stability {stability:.2f}), and random walks stay in "
        "them.",
        "use the labels, and check the rows with the lowest trust",
    ),
    "connected": Sentences(
        "the split into {clusters} is reproducible, but it cuts through one connected group",
        "{Others} find the same clusters (stability {stability:.2f}), yet the density does not "
        "drop between them.",
        _SEGMENTS,
    ),
    "fewer groups": Sentences(
        "only {groups} groups are separate among the {clusters}",
        "The density drops between {groups} groups, and the clusters within each group touch.",
        "use the clusters as a segmentation within {groups} groups",
    ),
    "unstable": Sentences(
        "there is structure, but these {clusters} are not reproducible",
        "{separation}, but {others} give other clusters (stability {stability:.2f}).",
        "choose another number of clusters",
    ),
    "weak": Sentences(
        "there may be structure, but not as these {clusters}",
        "The density does not drop between them, and {others} agree only in part "
        "(stability {stability:.2f}).",
        "choose another number of clusters",
    ),
}


def compose(
    diagnosis: Diagnosis,
    density: Findings | None = None,
    choice: NumberChoice | None = None,
    disputed: tuple[int, int] | None = None,
) -> Verdict:
    """The verdict on a fit.

    density: what was found of its density, if it learned one
    choice: the choice of the number of clusters, where there was one
    disputed: how many of the given labels the network disputes, and how many were given
    """
    code, other = _code(diagnosis), _other_number(diagnosis.evidence, choice)
    words = _words(diagnosis, choice)
    template = _SENTENCES[code]
    headline, reason, step = (sentence.format(**words) for sentence in template)
    if outlying := diagnosis.outlying:
        named, are = ("Clusters", "are groups") if len(outlying) > 1 else ("Cluster", "is a group")
        reason += f" {named} {listing(outlying)} {are} of outliers."
    if code == "no structure" or disputed is not None:  # given classes have their number
        other = None
    if other is not None:
        try_it = code in ("fewer groups", "unstable", "weak")
        step += f", or try {other} clusters" if try_it else f"; {other} clusters are also stable"
    figures = dict(_figures(diagnosis, density, choice, disputed))
    text = f"{diagnosis.grade}: {headline}."
    return Verdict(diagnosis.grade, text, Reason(code, reason), step, other, figures)


def _code(diagnosis: Diagnosis) -> str:
    """The first of the reasons that holds."""
    evidence, gap = diagnosis.evidence, diagnosis.gap
    if diagnosis.is_density_alone:
        return "one cluster"
    if DIVERGENCE in diagnosis.failure_modes or not math.isfinite(gap):
        return "diverged"
    if diagnosis.grade != "no structure found" and diagnosis.failure_modes:
        return "failure mode"
    if evidence is None:
        if not diagnosis.sound:
            return "undecided"
        return "bound reached" if diagnosis.grade == "certified" else "bound missed"
    if evidence.labels_kept < LEAST_KEPT and not evidence.is_vote:
        return "labels changed"
    if diagnosis.grade == "no structure found":
        return "no structure"
    if not diagnosis.sound and not evidence.is_vote:
        return "undecided"
    if diagnosis.tries == 0:
        return "no number"
    if diagnosis.grade != "doubtful":
        return "separated" if evidence.are_separated() else "stable"
    groups, c = evidence.groups(), len(evidence.shares)
    if groups == c:
        return "unstable"
    if groups > 1:
        return "fewer groups"
    if evidence.is_vote:
        return "overlap"
    return "connected" if evidence.are_stable() else "weak"


def _words(diagnosis: Diagnosis, choice: NumberChoice | None) -> dict[str, Any]:
    """What the templates may name."""
    evidence, modes = diagnosis.evidence, diagnosis.failure_modes
    mode = DIVERGENCE if DIVERGENCE in modes else next(iter(modes), None)
    problems = [finding.words for finding in diagnosis.problems if finding.mode == mode]
    problem = next(iter(problems), "the predictions are not finite")
    words: dict[str, Any] = {
        "gap": diagnosis.gap,
        "modes": " and ".join(modes),
        "problem": problem[:1].upper() + problem[1:],
    }
    if not diagnosis.is_density_alone:
        words["confidence"] = diagnosis["confidence"].value
        words["k"] = int(diagnosis["clusters in use"].threshold)
        words["clusters"] = f"{words['k']} clusters"
    if choice is not None:
        words["tried"] = f"2 to {choice.numbers[-1].n_clusters}"
    if evidence is not None:
        connected = evidence.smallest_dip < math.inf
        others = "other networks" if evidence.is_vote else "subsamples"
        words |= {
            "others": others,
            "Others": others.capitalize(),
            "stability": evidence.stability,
            "labels_kept": evidence.labels_kept,
            "groups": evidence.groups(),
            "separation": "The density drops between all clusters"
            if connected
            else "No links join the clusters",
        }
    return words


def _other_number(evidence: Evidence | None, choice: NumberChoice | None) -> int | None:
    """Another number of clusters that has support."""
    if choice is not None:
        return choice.alternative
    groups = 0 if evidence is None else evidence.groups()
    return groups if evidence is not None and 1 < groups < len(evidence.shares) else None


def _figures(
    diagnosis: Diagnosis,
    density: Findings | None,
    choice: NumberChoice | None,
    disputed: tuple[int, int] | None,
) -> Iterator[tuple[str, Figure]]:
    """The numbers behind the sentences, in the order in which people read them."""
    evidence = diagnosis.evidence
    if evidence is not None:
        yield "stability", evidence.stability
        yield "separate groups", evidence.groups()
        dip = evidence.smallest_dip
        yield "smallest density dip (nats)", dip if dip < math.inf else "disconnected"
        yield "initial labels kept", evidence.labels_kept
    if choice is not None:
        yield "numbers compared", f"2 to {choice.numbers[-1].n_clusters}"
    if disputed is not None:
        yield "labels disputed", f"{disputed[0]} of {disputed[1]}"
    if not diagnosis.is_density_alone:
        yield "mean confidence", diagnosis["confidence"].value
        yield "bound gap (nats)", diagnosis.gap
        yield "tolerance (nats)", diagnosis.tol
        if diagnosis.gap_prior is not None and diagnosis.gap_prior > diagnosis.gap / 2:
            yield "bound gap from cluster sizes (nats)", diagnosis.gap_prior
    for finding in diagnosis.findings:
        if finding.name == "divergence":
            yield "divergence", finding.words
    if density is not None:
        yield "gain of the network in log p(x) (nats)", density.gain
        yield "standard error of the gain (nats)", density.gain_error
        yield "goodness-of-fit test (p-value)", density.stein
