"""How clusters merge: a tree that ends in one cluster, by Ward's linkage.

Average linkage splits off single clusters last: on 30 clusters of real texts, its last three groups
had 27, 2 and 1. The tree is a linkage matrix of scipy, (clusters - 1, 4): each row holds the two
groups that merge, their distance, and the number of clusters in both. Group i is cluster i; group
clusters + i is made by row i.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import cut_tree, is_valid_linkage, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist, squareform

from gedilearn.errors import InputError, Parameter

MOST_PARTS = 6  # of a group on the next level, on average


def hierarchy(x: np.ndarray, labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The tree of the clusters.

    The distance of two clusters is that of their means, times 1 - overlap. The overlap is the mean
    probability that rows of each have in the other, as a share of that in their own: 1 if the
    network cannot tell them apart, and nearly 0 if they are separated, so that the means decide.
    A cluster without rows merges first, with the largest.

    x: (n, ...) in the network's units; labels: (n,); probabilities: (n, clusters)
    """
    c = probabilities.shape[1]
    if c < 2:
        return np.zeros((0, 4))
    size = np.bincount(labels, minlength=c)
    share = (1 / size[labels]).astype(x.dtype)
    average = csr_array((share, (labels, np.arange(len(x)))), shape=(c, len(x)))
    mean, confusion = average @ x.reshape(len(x), -1), average @ np.nan_to_num(probabilities)
    sure = confusion.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        overlap = (confusion + confusion.T) / (sure + sure[:, None])
    distance = squareform(pdist(mean)) * (1 - np.nan_to_num(overlap).clip(0, 1))
    place = np.where(size, np.arange(c), size.argmax())
    condensed = squareform(distance[place][:, place], checks=False)
    return np.asarray(linkage(condensed, "ward"))


def check(merges: np.ndarray, n_clusters: int) -> None:
    """Refuse what is not a tree of so many clusters."""
    joined = sorted(merges[:, :2].ravel().tolist()) == list(range(2 * n_clusters - 2))
    is_tree = joined and np.isfinite(merges).all() and merges.shape == (n_clusters - 1, 4)
    if not is_tree or (len(merges) and not is_valid_linkage(merges)):
        raise ValueError("hierarchy: not a tree of the clusters")


def groups_at(merges: np.ndarray, k: int, sizes: np.ndarray) -> np.ndarray:
    """The group of each cluster where k groups are left: (clusters,), the largest group first.

    sizes: (clusters,), their rows; of groups of one size, the one with the first cluster is first
    """
    c = len(sizes)
    if k not in range(1, c + 1):
        raise InputError(Parameter("k", k), f": give 1 to {c}, the clusters of the fit")
    found = cut_tree(merges, n_clusters=k)[:, 0] if c > 1 else np.zeros(1, int)
    first = np.unique(found, return_index=True)[1]
    order = np.lexsort((first, -np.bincount(found, sizes)))
    return np.asarray(order.argsort()[found])


def levels(merges: np.ndarray) -> list[int]:
    """Numbers of groups for a tree of few levels, the smallest first, all clusters last.

    A level has about 2 to `MOST_PARTS` times the groups of the one before. Of these numbers it is
    the one that is left over the longest range of distances.
    """
    found = [len(merges) + 1]
    log_distance = np.log(np.maximum(merges[:, 2], 1e-300))
    while found[0] > MOST_PARTS:
        some = np.arange(max(2, found[0] // MOST_PARTS), found[0] // 2 + 1)
        lasting = log_distance[-some + 1] - log_distance[-some]
        found.insert(0, int(some[lasting.argmax()]))
    return found


def partners(merges: np.ndarray) -> list[list[int]]:
    """For each cluster, those in the group that it merges with first."""
    members = [[k] for k in range(len(merges) + 1)]
    found: list[list[int]] = [[] for _ in members]
    for a, b in merges[:, :2].astype(int).tolist():
        for own, other in ((a, b), (b, a)):
            if own < len(found):
                found[own] = sorted(members[other])
        members.append(members[a] + members[b])
    return found
