"""The triad monitor: the three failure modes of the paper, and divergence.

It names the failure mode from the model and the data alone. Each finding is a number, its
threshold and a sentence. The thresholds separate the exact failure of the definitions from anything
that a trained network does; they are not tuned to a data set.

Divergence rarely begins with a NaN. It begins when data and samples drift apart in log p(x),
because the chains no longer reach where the network puts its density. Further signs are values that
are not finite, energies out of scale, and chains far outside the data.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gedilearn.methods.terms import invariance, log_marginal, target_entropy
from gedilearn.models.energy import log_density, log_posterior, posterior
from gedilearn.sampling.langevin import Box
from gedilearn.verdict.evidence import Evidence, Grade, grade

REPRESENTATION = "representation collapse"
CLUSTERS = "cluster collapse"
PERMUTATION = "label permutation"
DIVERGENCE = "divergence"


@dataclass(frozen=True)
class Finding:
    """One number, and what it means."""

    name: str
    value: float
    threshold: float
    ok: bool
    words: str
    mode: str | None = None  # the failure mode that it is evidence of


@dataclass(frozen=True)
class Diagnosis:
    """All findings on one model and one data set, and the gap to the bound of Proposition 1."""

    findings: tuple[Finding, ...]
    gap: float  # the bound gap in nats, under the certifying views
    tol: float  # below this gap, the bound counts as reached
    gap_prior: float | None = None  # the part of the gap that PRIOR has; INV has the rest
    evidence: Evidence | None = None
    tries: int = 1  # how many numbers of clusters were compared; 0 if none of them stood out
    outlying: tuple[int, ...] = ()  # the clusters that are groups of outliers

    def __getitem__(self, name: str) -> Finding:
        return next(f for f in self.findings if f.name == name)

    @property
    def failure_modes(self) -> tuple[str, ...]:
        """The modes that are present, of the triad or divergence, each once."""
        return tuple(dict.fromkeys(f.mode for f in self.problems if f.mode))

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are not as they should be.

        Where networks vote, views are neighbours in overlapping clusters: many then change theirs.
        """
        voted = self.evidence is not None and self.evidence.is_vote
        return tuple(f for f in self.findings if not (f.ok or (voted and f.name == "agreement")))

    @property
    def grade(self) -> Grade:
        """'certified', 'supported', 'doubtful' or 'no structure found': see `evidence.grade`."""
        return grade(self.gap, self.tol, self.sound, self.evidence, self.tries)

    @property
    def sound(self) -> bool:
        """Whether there is no failure mode, and the predictions are decided."""
        return not any(f.mode or f.name == "confidence" for f in self.problems)

    @property
    def is_density_alone(self) -> bool:
        """Whether there is one cluster only: nothing to verify."""
        return all(finding.name != "confidence" for finding in self.findings)

    def diverged(self, words: str, recovered: bool = False) -> Diagnosis:
        """The same for a network whose training diverged, and whether it recovered by itself."""
        finding = Finding("divergence", 1.0, 0.0, recovered, words, DIVERGENCE)
        return replace(self, findings=(*self.findings, finding))

    @property
    def certified(self) -> bool:
        return self.grade == "certified"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"grade": self.grade, "certified": self.certified}


def diagnose(
    features: Tensor,
    logits: Tensor,
    logits_view: Tensor,
    target: Tensor | None,
    gap: float,
    tol: float,
    gap_prior: float | None = None,
) -> Diagnosis:
    """Findings on one member.  features: (n, h); logits, logits_view: (n, clusters)."""
    n_clusters = logits.shape[-1]
    findings = [feature_spread(features), effective_rank(features, n_clusters)]
    if n_clusters == 1:  # a density alone: nothing to cluster, nothing to certify
        return Diagnosis((*findings, energy_level(logits)), gap, tol=0.0)
    findings += [
        clusters_in_use(logits, target),
        marginal_entropy(logits, target),
        permutation_sensitivity(logits, logits_view),
        agreement(logits, logits_view),
        confidence(logits),
        energy_level(logits),
    ]
    return Diagnosis(tuple(findings), gap, tol, gap_prior)


def feature_spread(features: Tensor) -> Finding:
    """Failure mode 1: enc(x) = k for all x.

    Root mean square distance of the features from their mean, over their root mean square length:
    0 for a constant encoder, of the order of 1 for any network at its initialisation. Below 0.01 a
    head must magnify differences a hundredfold to tell points apart.
    """
    centred = features - features.mean(0)
    length = features.square().sum(-1).mean().sqrt()
    spread = float(centred.square().sum(-1).mean().sqrt() / length) if length > 0 else 0.0
    ok = spread >= 0.01
    words = (
        "the encoder tells points apart"
        if ok
        else "the encoder maps all points to about one vector"
    )
    return Finding("feature spread", spread, 0.01, ok, words, REPRESENTATION)


def effective_rank(features: Tensor, n_clusters: int) -> Finding:
    """Failure mode 1, the milder form: features on a line.

    The exponential of the entropy of the covariance's normalised eigenvalues: the number of
    directions that the features really use. Two clusters need one direction; more clusters on
    a single line (below 1.05) can only be cut in its order.
    """
    centred = (features - features.mean(0)).double()
    values = torch.zeros(1)
    if centred.isfinite().all():
        # Both products have the same eigenvalues but zeros; features may be far more than points.
        wide = centred.shape[1] > centred.shape[0]
        product = centred @ centred.mT if wide else centred.mT @ centred
        values = torch.linalg.eigvalsh(product).clamp_min(0)
    total = values.sum()
    rank = float(torch.special.entr(values / total).sum().exp()) if total > 0 else 0.0
    threshold = 1.05 if n_clusters > 2 and features.shape[-1] > 1 else 0.99
    ok = rank >= threshold
    words = f"the features use about {rank:.1f} directions"
    return Finding("effective rank", rank, threshold, ok, words, REPRESENTATION)


def clusters_in_use(logits: Tensor, target: Tensor | None = None) -> Finding:
    """Failure mode 2: p(y=j|x) = 1 for all x, and its partial forms.

    A cluster is in use when it is the most likely one for at least a tenth of the share of points
    that the prior gives it.
    """
    n, c = logits.shape
    share = torch.bincount(logits.argmax(-1), minlength=c) / n
    fair = torch.full_like(share, 1 / c) if target is None else target.to(share)
    used = int((share >= fair / 10).sum())
    ok = used == c
    words = f"{used} of {c} clusters are in use"
    return Finding("clusters in use", used, c, ok, words, CLUSTERS)


def marginal_entropy(logits: Tensor, target: Tensor | None = None) -> Finding:
    """Failure mode 2, seen in the average prediction q(y).

    The entropy of q as a share of the prior's: 0 when one cluster takes all, 1 in balance. Two
    clusters that hold everything where there should be four give 0.5.
    """
    q = log_marginal(logits).exp()
    share = float(torch.special.entr(q).sum() / target_entropy(target, logits.shape[-1]))
    ok = share >= 0.5
    words = f"the average prediction has {share:.0%} of the prior's entropy"
    return Finding("marginal entropy", share, 0.5, ok, words, CLUSTERS)


def permutation_sensitivity(logits: Tensor, logits_view: Tensor) -> Finding:
    """Failure mode 3: the loss does not change when assignments are permuted among points.

    How much INV rises, on average over all permutations, when the predictions are handed to other
    points, in units of log c. 0 for a constant or collapsed prediction; above 1 for a confident and
    balanced one. Below 0.1, INV hardly sees which point has which label.
    """
    # Averaged over all permutations, each p(y|x') meets each log p(y|x) equally often.
    permuted = -(posterior(logits_view).mean(0) * log_posterior(logits).mean(0)).sum()
    rise = float(permuted - invariance(logits, logits_view)) / math.log(logits.shape[-1])
    ok = rise >= 0.1
    words = (
        "the loss rises when assignments are permuted"
        if ok
        else "the loss hardly changes when assignments are permuted"
    )
    return Finding("permutation sensitivity", rise, 0.1, ok, words, PERMUTATION)


def agreement(logits: Tensor, logits_view: Tensor) -> Finding:
    """Failure mode 3, seen in the labels: the share of points that keep theirs under a view.

    Below 0.9, one point in ten changes its cluster when it is replaced by a view of itself.
    """
    share = float((logits.argmax(-1) == logits_view.argmax(-1)).double().mean())
    ok = share >= 0.9
    words = f"{share:.1%} of points keep their cluster under a view"
    return Finding("agreement", share, 0.9, ok, words, PERMUTATION)


def confidence(logits: Tensor) -> Finding:
    """Mean of the largest p(y|x). Not a failure mode: below 0.9 the clusters are undecided."""
    mean = float(posterior(logits).amax(-1).mean())
    ok = mean >= 0.9
    words = "predictions are confident" if ok else "many predictions are undecided"
    return Finding("confidence", mean, 0.9, ok, words)


def energy_level(logits: Tensor) -> Finding:
    """Largest |log p(x)| (unnormalised) on the data.

    Energies are free up to a constant, but float32 has seven digits: from 1000 on, differences
    between points drown, and training that gets there is usually on its way to infinity.
    """
    level = float(log_density(logits).abs().amax())
    ok = level <= 1000
    words = "energies are in range" if ok else "energies have run away"
    return Finding("energy level", level, 1000, ok, words)


# --- divergence ----------------------------------------------------------------------------------

# A model in balance keeps |log p(data) - log p(samples)| within a few nats; broken ones pass 50.
WIDEST_GAP = 25.0
# Root mean square of log p(x). Energies are free up to a constant, but float32 has seven digits.
HIGHEST_ENERGY = 300.0
# Gradients of a healthy step stay well below; a single one of this size undoes a network.
STEEPEST_GRADIENT = 1e5
# Chains this many box widths outside the data's box, and the share of them that counts.
FAR = 1.0
MANY = 0.1


def divergence(
    terms: dict[str, Tensor], gaps: Tensor, gradients: Tensor, chains: Tensor | None, box: Box
) -> str | None:
    """What is wrong, in words, or None.

    terms, gaps, gradients (their norms): (members,); chains: (members, size, *point).
    """
    for name, term in terms.items():
        if not term.isfinite().all():
            return f"the term {name} is not finite"
    if not gaps.isfinite().all():
        return "predictions are not finite"
    steepest = float(gradients.max())
    if not steepest < STEEPEST_GRADIENT:
        return f"the gradient has norm {steepest:.2g}"
    if "gen" in terms and float(terms["gen"].abs().max()) > WIDEST_GAP:
        gap = float(terms["gen"].abs().max())
        return f"the energies of data and samples are {gap:.3g} nats apart"
    if "energy" in terms and float(terms["energy"].max()) > 2 * HIGHEST_ENERGY**2:
        return f"energies have reached {float(terms['energy'].max() / 2) ** 0.5:.3g} nats"
    if chains is not None and (share := outside(chains, box)):
        return f"{share:.0%} of the chains are far outside the data"
    return None


def outside(positions: Tensor, box: Box) -> float:
    """The share of chains farther outside than `FAR` box widths; 0 when that is below `MANY`."""
    width = box.high - box.low
    beyond = (positions < box.low - FAR * width) | (positions > box.high + FAR * width)
    share = float(beyond.flatten(2).any(-1).double().mean())
    return share if share >= MANY else 0.0
