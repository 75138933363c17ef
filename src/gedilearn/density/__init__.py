"""The density p(x): mixtures that are known exactly, and a network that corrects one.

    p(x) = (1 - w) b(x) + w a(x) exp(g(x)) / Gamma

b is a mixture of Gaussians and kernels, a the base that the network g corrects: b itself, or a wide
Gaussian. w is the weight under which rows that neither has seen are likeliest.

Read with the clusters' network, log p(x) - logsumexp f(x) is added to all of its logits: p(x) is
then logsumexp of the logits, and p(y|x) stays as it is. So the density is learnt after the clusters
without touching them.
"""
