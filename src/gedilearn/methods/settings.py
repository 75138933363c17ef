"""The settings of methods, and the facts about them that need no torch.

A method with settings has a section of its own in `Settings`, under its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gedilearn.fields import Fraction, Many, NonNegative, Positive, Section, Share, Width


@dataclass(frozen=True)
class NetworkShape:
    """What a method requires of the network."""

    batch_norm: bool = False  # between layers
    embedding: int | None = None  # width of the vectors that prototypes are compared with, if any
    temperature: float | None = None  # None is that of the settings


class MethodSettings(Section):
    """The settings of a method."""

    method: ClassVar[Any]  # its `methods.method.Method`, or the "module:attribute" of that
    weighted: ClassVar[tuple[str, ...]] = ()  # the terms that it has, of GEN, INV and PRIOR

    @property
    def has_bound(self) -> bool:
        """Whether it has both terms of the bound of Proposition 1, INV and PRIOR."""
        return {"inv", "prior"} <= set(self.weighted)

    def network(self) -> NetworkShape:
        """What the method requires of the network."""
        return NetworkShape()

    def settled(self, n_clusters: int, n_batches: int) -> MethodSettings:
        """The same without None, for so many clusters and batches in a pass over the data."""
        return self


class GEDI(MethodSettings):
    """GEN + INV + PRIOR; its weights are in the section `weights`."""

    method = "gedilearn.methods.gedi:GEDI"
    weighted: ClassVar[tuple[str, ...]] = ("gen", "inv", "prior")


class NoGen(GEDI):
    """GEDI without GEN."""

    weighted = ("inv", "prior")


class NoInv(GEDI):
    """GEDI without INV."""

    weighted = ("gen", "prior")


class NoUnif(GEDI):
    """GEDI without PRIOR."""

    weighted = ("gen", "inv")


class JEM(GEDI):
    """GEN alone: the joint energy-based model (Grathwohl et al., 2020)."""

    weighted = ("gen",)


class SwAV(MethodSettings):
    """The baseline SwAV; its head is a projector and normalised prototypes, one a cluster."""

    method = "gedilearn.methods.swav:SwAV"
    epsilon: Positive = 0.05
    """Smoothness of the assignments (entropy of Sinkhorn)."""
    iterations: Many = 3
    """Rounds of Sinkhorn-Knopp."""
    temperature: Positive = 0.1
    """Temperature of the predictions; it is the model's tau."""
    embedding: Width | None = None
    """Width of the embedding; None is the number of clusters."""
    batch_norm: bool = True
    """Batch normalisation between layers."""

    def network(self) -> NetworkShape:
        return NetworkShape(self.batch_norm, self.embedding, self.temperature)

    def settled(self, n_clusters: int, n_batches: int) -> SwAV:
        return self.model_copy(update={"embedding": self.embedding or n_clusters})


class Barlow(MethodSettings):
    """The baseline Barlow Twins; its embedding has one coordinate a cluster."""

    method = "gedilearn.methods.barlow:BarlowTwins"
    off_diagonal: NonNegative = 5e-3
    """Weight lambda of the redundancy term."""
    scale: Positive = 0.1
    """Factor of the whole loss."""
    assign: Literal["argmax", "kmeans"] = "argmax"
    """Clusters from the embedding, on which the paper is silent: 'argmax' takes the largest
    coordinate, 'kmeans' clusters the embedding."""
    batch_norm: bool = True
    """Batch normalisation between layers."""

    def network(self) -> NetworkShape:
        return NetworkShape(self.batch_norm)


class Dino(MethodSettings):
    """The baseline DINO: a student learns the sharpened, centred output of its own average."""

    method = "gedilearn.methods.dino:DINO"
    student_temperature: Positive = 0.1
    """Temperature of the student; it is the model's tau."""
    teacher_temperature: Positive = 0.04
    """Temperature of the teacher (sharpening)."""
    momentum: Fraction = 0.996
    """Momentum of the teacher, which follows the student; it rises to 1 along a cosine."""
    centre_momentum: Share = 0.9
    """Momentum of the average teacher output (centring)."""
    embedding: Width | None = None
    """Width of the embedding; None is the number of clusters."""

    def network(self) -> NetworkShape:
        return NetworkShape(embedding=self.embedding, temperature=self.student_temperature)

    def settled(self, n_clusters: int, n_batches: int) -> Dino:
        return self.model_copy(update={"embedding": self.embedding or n_clusters})


class DeepCluster(MethodSettings):
    """The baseline DeepCluster: k-means on the features gives the labels of the next period."""

    method = "gedilearn.methods.deepcluster:DeepCluster"
    period: Many | None = None
    """Iterations between two rounds of k-means; None is one pass over the data, but at
    least 20."""
    components: Width = 256
    """Principal components kept before k-means."""

    def settled(self, n_clusters: int, n_batches: int) -> DeepCluster:
        return self.model_copy(update={"period": self.period or max(n_batches, LEAST_PERIOD)})


# Iterations that a classifier needs at least to learn new labels.
LEAST_PERIOD = 20


class Ebclr(MethodSettings):
    """The baseline EBCLR: contrastive learning as a joint density of two views."""

    method = "gedilearn.methods.ebclr:EBCLR"
    temperature: Positive = 0.1
    """Temperature tau that divides squared distances."""
    generative: NonNegative = 0.1
    """Weight lambda of the generative term log q(v); 0 draws no samples and leaves
    contrastive learning alone."""
    length: NonNegative = 0.128
    """Weight, within the generative term, of the mean squared length of projections of data
    and samples before normalisation (0.001 a point in batches of 128 in the published code)."""
    embedding: Width | None = None
    """Width of the embedding; None is the number of clusters, but at least 2 (the published
    experiments: 128)."""

    def network(self) -> NetworkShape:
        return NetworkShape(embedding=self.embedding, temperature=self.temperature / 2)

    def settled(self, n_clusters: int, n_batches: int) -> Ebclr:
        return self.model_copy(update={"embedding": self.embedding or max(n_clusters, 2)})
