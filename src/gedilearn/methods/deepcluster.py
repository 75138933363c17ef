"""DeepCluster: k-means on the features gives the labels of the next period (Caron et al., 2018).

Symbols of that paper and where they are here:

    f_theta(x)   the features                   `Output.features`
    y_n          their k-means labels           `DeepCluster.labels`
    g_W          the classifier                 the head; its last layer starts anew each period
    Eq. 1        cross-entropy of g_W, y_n      the term "pseudo"

As published, features are whitened by principal components and brought to length 1 before k-means,
and points count so that all pseudo-labels weigh the same, which is what sampling evenly over them
does in expectation. An empty cluster is scikit-learn's to fill: with the point farthest from its
centre, not with half of the largest cluster.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from gedilearn.methods.method import Batch, Context, Forward, Method, k_means, share
from gedilearn.methods.settings import DeepCluster as Options
from gedilearn.models.energy import EnergyModel, log_posterior
from gedilearn.models.mlp import MLP
from gedilearn.ranks import gather

CHUNK = 2_000


class DeepCluster(Method):
    """Learns labels that k-means read off its own features, period after period.

    The classifier needs a period to learn new labels, so none are given in the last one.
    """

    remembered = ("labels",)

    def __init__(self, options: Options, seed: int, length: int) -> None:
        self.options = options
        self.seed = seed
        self.length = length  # iterations of the stage
        self.labels: Tensor | None = None  # (members, n)

    @classmethod
    def make(cls, context: Context) -> DeepCluster:
        settings = context.settings
        options: Options = settings.own
        return cls(options, settings.training.seed, context.length)

    def begin(
        self, model: EnergyModel, optimizer: torch.optim.Optimizer, data: Tensor, batch: Batch
    ) -> None:
        period = self.options.period
        assert period is not None
        due = (batch.iteration - 1) % period == 0 and batch.iteration + period <= self.length + 1
        if self.labels is None or due:
            seed = self.seed + batch.iteration
            self.labels = self._cluster(model, data, seed)
            _reset_classifier(model, optimizer, seed)

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        assert self.labels is not None
        log_p = log_posterior(gather(forward(share(batch.view, model)).logits))
        pseudo = self.labels.to(log_p.device)  # a checkpoint comes without its device
        labels = gather(pseudo[:, batch.index, None])
        sizes = F.one_hot(pseudo, log_p.shape[-1]).sum(1).to(log_p)  # (members, clusters)
        weight = 1 / sizes.gather(1, labels[..., 0])
        losses = -log_p.gather(-1, labels)[..., 0]
        return {"pseudo": (weight * losses).sum(-1) / weight.sum(-1)}

    def _cluster(self, model: EnergyModel, data: Tensor, seed: int) -> Tensor:
        """New labels for every member: (members, n)."""
        with model.fixed(), torch.no_grad():
            parts = [model(share(x, model)).features for x in torch.split(data, CHUNK)]
        features = torch.cat(parts, dim=1).double().cpu().numpy()
        if self.labels is not None and not np.isfinite(features).all():
            return self.labels  # training has diverged: the guard will say so
        assert isinstance(model.head, MLP)
        n_clusters = model.head.widths[-1]
        labels = [pseudo_labels(own, n_clusters, self.options.components, seed) for own in features]
        return torch.from_numpy(np.stack(labels)).to(data.device)


def pseudo_labels(
    features: np.ndarray, n_clusters: int, components: int = 256, seed: int = 0
) -> np.ndarray:
    """k-means labels of whitened, normalised features: (n, h) -> (n,)."""
    found = k_means(whitened(features, components), n_clusters, 1, seed)
    return np.asarray(found.labels_, dtype=np.int64)


def whitened(features: np.ndarray, components: int) -> np.ndarray:
    """Principal components of equal variance, then rows of length 1: (n, h) -> (n, at most h)."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    rank = int(np.linalg.matrix_rank(features - features.mean(0), rtol=1e-5))
    if rank == 0:
        return features[:, :1]
    rows = PCA(min(components, rank), whiten=True, svd_solver="full").fit_transform(features)
    # Of one column, length 1 would leave nothing but the sign.
    return np.asarray(normalize(rows) if rows.shape[1] > 1 else rows)


@torch.no_grad()
def _reset_classifier(model: EnergyModel, optimizer: torch.optim.Optimizer, seed: int) -> None:
    """The last layer as initialised, alike on all ranks, its moments in the optimiser at 0."""
    assert isinstance(model.head, MLP)
    weight, bias = model.head.weights[-1], model.head.biases[-1]
    bound, generator = weight.shape[1] ** -0.5, torch.Generator().manual_seed(seed)
    for parameter in (weight, bias):
        parameter.copy_(torch.rand(parameter.shape, generator=generator) * 2 * bound - bound)
        for value in optimizer.state.get(parameter, {}).values():
            value.zero_()  # the count of steps too: it corrects the moments for their start at 0
