"""How far to trust a density, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gedilearn.density.chains import is_known
from gedilearn.density.importance import CHECKED, HEALTHY

REFUTED = 0.01  # a p-value below it
UNSURE = 0.1  # of what the network adds: an error of log Gamma beyond it is worth a word


@dataclass(frozen=True)
class Findings:
    """How far to trust a density."""

    base: str  # in words
    estimator: str  # of GEN, at the end: 'importance', 'chains' or 'amortised'
    weight: float  # w, of the network
    held_out: float  # mean log p(x), in the network's units, of rows that it was learnt without
    gain: float  # what of it the network adds to the base
    gain_error: float  # the standard error of that
    log_normaliser: float
    log_normaliser_error: float
    effective: float  # share of the proposals that counts
    stein: float  # p-value of a goodness-of-fit test that needs no normaliser
    iterations: int
    diverged: bool = False
    bits: float | None = None  # per dimension, of images; of rows that it was learnt without
    weighted: int = 0  # iterations that were by importance weights
    counted: float | None = None  # effective proposals of `CHECKED` at their last check, if any

    @property
    def choice(self) -> str | None:
        """Why an estimator was taken that was left to the data, in words."""
        if self.counted is None:
            return None
        count = f"{self.counted:.1f} of {CHECKED:,} weighted proposals counted"
        few, healthy = f"fewer than {HEALTHY}", self.counted > HEALTHY
        if self.estimator == "importance":
            lost = f", {few}, but chains from the base were no better"
            return f"importance weights: {count}{'' if healthy else lost}"
        return (
            f"chains from the base instead of importance weights after {self.weighted} iterations: "
            f"{count}, {'but added nothing' if healthy else few}"
        )

    @property
    def verdict(self) -> str:
        """In a few words."""
        words = "the base alone, to which the network adds nothing"
        known = is_known(self.log_normaliser_error, self.effective)
        if self.estimator != "importance" and not known:
            own = ", which draws samples," if self.estimator == "chains" else ""
            words = (
                f"log p(x) is the base's; the normaliser of the network{own} is not known well "
                f"enough for it to count ({self.log_normaliser:.1f} ± "
                f"{self.log_normaliser_error:.1f} nats)"
            )
        if self.weight > 0:
            words = f"the network adds {self.gain:.3f} ± {self.gain_error:.3f} nats to its base"
            if not self.log_normaliser_error < UNSURE * max(self.gain, 1):
                words += f"; its normaliser is unsure by {self.log_normaliser_error:.2g} nats"
        if self.choice and self.estimator != "importance":
            words += f"; {self.choice}"
        if self.diverged:
            words += f"; its training diverged, and ended after {self.iterations} iterations"
        if self.stein < REFUTED:
            words += f"; a test of its fit refutes it (p = {self.stein:.3f})"
        return f"density: {words}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}
