"""What is known of p(x) beside the network: log p(x) = log b(x) + logsumexp f(x) - log Gamma.

b is a base that is known exactly (`base`, `principal`), in coordinates in which it is simple
(`coordinates`), of Gaussians (`gaussians`). f is the network that clusters: GEN trains it on the
base, with INV and PRIOR. `fit` makes bases before a training and weighs the network after it
(`density`), on rows that were held out; docs/density.md has the reasons.
"""
