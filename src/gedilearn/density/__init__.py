"""What is known of p(x) beside the network: log p(x) = log b(x) + logsumexp f(x) - log Gamma.

b is a base that is known exactly (`base`, `principal`), in coordinates in which it is simple
(`coordinates`): a weighted sum of parts (`parts`), which are Gaussians (`gaussians`, `candidates`)
or a spline flow (`flow`). f is the network that clusters: GEN trains it on the base, with INV and
PRIOR. `fit` makes bases before a training and weighs the network after it (`density`), on rows that
were held out; docs/density.md has the reasons.
"""
