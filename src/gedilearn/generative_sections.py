"""The settings of GEN: how samples are drawn for it, and the density that is learnt by it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from gedilearn.errors import InputError
from gedilearn.registry import SAMPLERS
from gedilearn.sections import Many, Schedule, Section, is_images

MOST_COLUMNS = 64  # with a base in all of them; mixtures of more have too many numbers to fit


def has_base_in_columns(shape: tuple[int, ...]) -> bool:
    """Whether the base of data of this shape is one in all columns; others have principal ones."""
    return not is_images(shape) and shape[1] <= MOST_COLUMNS


class Sampler(Section):
    """How samples x~ of the model are drawn for GEN."""

    kind: str = Field(
        "langevin",
        description="What draws them. 'langevin': stochastic gradient Langevin dynamics on a "
        "replay buffer, as in the paper.",
    )
    steps: Many = Field(10, description="Langevin steps T in each iteration.")
    step_size: float = Field(
        0.01125, gt=0, description="SGLD step size: multiplies the gradient (noise squared over 2)."
    )
    noise: float = Field(0.15, ge=0, description="SGLD noise: standard deviation added in a step.")
    first_noise: float | None = Field(
        None,
        ge=0,
        description="SGLD in stages, as EBCLR's: the noise of a chain that has just restarted. It "
        "falls to sampler.noise over the next sampler.stages draws of it. None: one noise.",
    )
    stages: Many = Field(3, description="Draws of a chain until its noise is sampler.noise.")
    buffer: Many = Field(1_000, description="Chains |B| in the replay buffer.")
    chains: Many | None = Field(
        128,
        description="Most chains moved, and samples compared with the data, in each iteration: one "
        "for each point of the batch up to this number; None sets no limit.",
    )
    restart: float = Field(
        0.05, ge=0, le=1, description="Reinitialisation frequency: chance that a chain restarts."
    )
    margin: float = Field(
        0.1,
        ge=0,
        description="Chains start in the data's bounding box, widened on every side by this share "
        "of its width.",
    )
    clamp: bool = Field(True, description="Keep chains inside that box.")
    max_move: float | None = Field(
        None, gt=0, description="Largest move of a coordinate along the gradient in one step."
    )

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        return SAMPLERS.check(kind)


class Density(Section):
    """The second stage: GEN, once the clusters stand."""

    base: Literal["auto", "gaussian", "mixture", "none"] = Field(
        "auto",
        description="The density that a network of its own corrects: 'gaussian', a wide Gaussian; "
        "'mixture', mixtures of Gaussians and kernels at the points; 'auto', the first in up to 4 "
        "columns. Images and vectors of more than 64 columns have a mixture in principal "
        "directions. 'none': the clusters' network itself learns the density, by chains, as in "
        "the paper.",
    )
    estimator: Literal["auto", "importance", "chains", "amortised"] = Field(
        "auto",
        description="How GEN compares the model with the data on a base. 'importance': points near "
        "the data, weighted; 'chains': short Langevin runs from the base; 'amortised': a generator "
        "with an entropy bound (VERA). 'auto': weights while at least 50 of 4,000 weighted points "
        "count, else chains; chains for images.",
    )
    iterations: int = Field(
        800,
        ge=0,
        le=100_000_000,
        description="Most iterations of GEN after the clusters, for the kept initialisation; 0 "
        "trains all three terms together from the start, as in the paper.",
    )
    learning_rate: float = Field(
        5e-3, gt=0, description="Adam's learning rate there; it falls to 0."
    )
    inv: Schedule = Field(
        ((0.0, 50.0), (0.5, 50.0), (1.0, 150.0)),
        description="Weight of INV there without a base, which holds the clusters: the harder "
        "towards the end, so that a certificate survives.",
    )
    prior: Schedule = Field(50.0, description="Weight of PRIOR there without a base.")
    restart: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of the chains that start anew from the base in each iteration, where "
        "the density is learnt by chains on a base; the others go on.",
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Density:
        if self.base == "gaussian" and not has_base_in_columns(shape):
            raise InputError(
                f"density.base='gaussian' needs at most {MOST_COLUMNS} columns, got data of shape "
                f"{shape}"
            )
        return self
