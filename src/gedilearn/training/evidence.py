"""What speaks for a clustering beside the bound, none of it using labels, and the word for it all.

The bound says that predictions are confident, invariant and in the prior's proportions under long
walks. It does not say that there is anything to find, nor that the same would be found again. So
two more things are measured: whether the data has structure at all, and whether the clusters stay
when a fifth of the points is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["certified", "supported", "doubtful", "no structure found"]

# Agreement with clusterings of parts of the data (adjusted mutual information) from which on a
# clustering counts as stable.
STABLE = 0.85


@dataclass(frozen=True)
class Evidence:
    """Of the clusters that training began with.

    method: what found them.
    stability: agreement with what the same method finds in parts of the data; 1 is complete.
    cut: the share of a cluster's links, by weight, that leave it, on average.
    slower: how many times slower the walk's mode is, that tells so many clusters apart, than in
        structureless references of the same margins; t the same in standard errors.
    threshold: the t that at most one in a hundred structureless sets exceeds.
    structure: whether that counts as structure.
    step: how many times faster the next mode decays, that would tell one more cluster apart.
    rivals: for each other method, its cut and stability.
    """

    method: str
    stability: float
    cut: float
    slower: float
    t: float
    threshold: float
    structure: bool
    step: float
    rivals: dict[str, tuple[float, float]]

    @property
    def words(self) -> str:
        agree = f"parts of the data agree to {self.stability:.2f}"
        if self.structure:
            return agree
        return f"no slower to walk through than data without structure; {agree}"


def grade(bound_reached: bool, evidence: Evidence | None) -> Grade:
    """The one rule behind the word for a clustering.

    Where there is no evidence beside the bound (images, views of one's own), the bound decides.
    """
    if evidence is None:
        return "certified" if bound_reached else "doubtful"
    if not evidence.structure:
        return "no structure found"
    if evidence.stability < STABLE:
        return "doubtful"
    return "certified" if bound_reached else "supported"
