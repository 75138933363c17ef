"""The settings of methods, under the method's name, and the facts that the settings depend on.

No torch here: `gedi settings` lists them without it.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field

from gedilearn.fields import Many, MethodSettings, NetworkShape, Width

# Iterations that a classifier needs at least to learn new labels.
LEAST_PERIOD = 20


class GEDI(MethodSettings):
    """GEN + INV + PRIOR; its weights are in the section `weights`."""

    weighted = ("gen", "inv", "prior")


class NoGen(MethodSettings):
    """GEDI without GEN."""

    weighted = ("inv", "prior")


class NoInv(MethodSettings):
    """GEDI without INV."""

    weighted = ("gen", "prior")


class NoUnif(MethodSettings):
    """GEDI without PRIOR."""

    weighted = ("gen", "inv")


class JEM(MethodSettings):
    """GEN alone: the joint energy-based model (Grathwohl et al., 2020)."""

    weighted = ("gen",)


class SwAV(MethodSettings):
    """The baseline SwAV; its head is a projector and normalised prototypes, one a cluster."""

    epsilon: float = Field(
        0.05, gt=0, description="SwAV: smoothness of the assignments (entropy of Sinkhorn)."
    )
    iterations: Many = Field(3, description="SwAV: rounds of Sinkhorn-Knopp.")
    temperature: float = Field(
        0.1, gt=0, description="SwAV: temperature of the predictions; it is the model's tau."
    )
    queue: int = Field(
        0,
        ge=0,
        le=100_000_000,
        description="SwAV: past embeddings that take part in the assignments.",
    )
    queue_from: float = Field(
        0.15, ge=0, le=1, description="SwAV: share of the training after which the queue is used."
    )
    freeze: float = Field(
        0.0, ge=0, le=1, description="SwAV: share of the training with frozen prototypes."
    )
    embedding: Width | None = Field(
        None, description="SwAV: width of the embedding; None is the number of clusters."
    )
    batch_norm: bool = Field(True, description="SwAV: batch normalisation between layers.")

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> SwAV:
        return self.model_copy(update={"embedding": self.embedding or settings.n_clusters})

    def network(self) -> NetworkShape:
        return NetworkShape(self.batch_norm, self.embedding, self.temperature)


class Barlow(MethodSettings):
    """The baseline Barlow Twins; its embedding has one coordinate a cluster."""

    off_diagonal: float = Field(
        5e-3, ge=0, description="Barlow Twins: weight lambda of the redundancy term."
    )
    scale: float = Field(0.1, gt=0, description="Barlow Twins: factor of the whole loss.")
    assign: Literal["argmax", "kmeans"] = Field(
        "argmax",
        description="Barlow Twins has no clusters of its own, and the paper does not say how it "
        "gets some: 'argmax' takes the largest coordinate of the embedding, 'kmeans' clusters it.",
    )
    batch_norm: bool = Field(True, description="Barlow Twins: batch normalisation between layers.")

    def network(self) -> NetworkShape:
        return NetworkShape(self.batch_norm)


class Dino(MethodSettings):
    """The baseline DINO: a student learns the sharpened, centred output of its own average."""

    student_temperature: float = Field(
        0.1, gt=0, description="DINO: temperature of the student; it is the model's tau."
    )
    teacher_temperature: float = Field(
        0.04, gt=0, description="DINO: temperature of the teacher (sharpening)."
    )
    momentum: float = Field(
        0.996,
        ge=0,
        le=1,
        description="DINO: how slowly the teacher follows the student; rises to 1 along a cosine.",
    )
    centre_momentum: float = Field(
        0.9, ge=0, lt=1, description="DINO: memory of the average teacher output (centring)."
    )
    embedding: Width | None = Field(
        None, description="DINO: width of the embedding; None is the number of clusters."
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Dino:
        return self.model_copy(update={"embedding": self.embedding or settings.n_clusters})

    def network(self) -> NetworkShape:
        return NetworkShape(embedding=self.embedding, temperature=self.student_temperature)


class DeepCluster(MethodSettings):
    """The baseline DeepCluster: k-means on the features gives the labels of the next period."""

    period: Many | None = Field(
        None,
        description="DeepCluster: iterations between two rounds of k-means; None is one pass over "
        "the data, but at least 20.",
    )
    components: Width = Field(
        256, description="DeepCluster: principal components kept before k-means."
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> DeepCluster:
        passes = math.ceil(shape[0] / min(settings.optimizer.batch_size, shape[0]))
        return self.model_copy(update={"period": self.period or max(passes, LEAST_PERIOD)})


class Ebclr(MethodSettings):
    """The baseline EBCLR: contrastive learning as a joint density of two views."""

    temperature: float = Field(
        0.1, gt=0, description="EBCLR: temperature tau that divides squared distances."
    )
    generative: float = Field(
        0.1,
        ge=0,
        description="EBCLR: weight lambda of the generative term log q(v); 0 draws no samples and "
        "leaves contrastive learning alone.",
    )
    length: float = Field(
        0.128,
        ge=0,
        description="EBCLR: weight, within the generative term, of the mean squared length of "
        "projections of data and samples before they are normalised (0.001 a point in batches of "
        "128 in the published code).",
    )
    embedding: Width | None = Field(
        None,
        description="EBCLR: width of the embedding; None is the number of clusters, but at least "
        "2 (the published experiments: 128).",
    )

    def resolved(self, settings: Any, shape: tuple[int, ...]) -> Ebclr:
        return self.model_copy(update={"embedding": self.embedding or max(settings.n_clusters, 2)})

    def network(self) -> NetworkShape:
        return NetworkShape(embedding=self.embedding, temperature=self.temperature / 2)
