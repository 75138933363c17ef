"""The paper's settings, and presets close to them, with the reason for each difference."""

from __future__ import annotations

from gedilearn.presets import Preset, Values
from gedilearn.registry import METHODS
from gedilearn.settings import FEWEST_POINTS, SINES, STARTED, WALKS, nested

# In all tables of the paper. There is a chain for each point of the batch. The paper does not
# mention a margin or clamping: chains start in the data's bounding box, and nothing is clamped.
_PAPER_SAMPLER: Values = {
    "noise": 0.01, "buffer": 10_000, "chains": None, "restart": 0.05, "margin": 0.0, "clamp": False,
}  # fmt: skip
# The tables have beta_1 = 0.9 and beta_2 = 0.999 for Adam, as torch has by default.

# --- synthetic data -----------------------------------------------------------------------------

# The synthetic experiments of the paper (its appendix on hyperparameters for synthetic data). The
# tables do not mention scaling: data keeps its units.
_PAPER_TOY_LITERAL: Values = {
    "prior": "uniform",
    "scaling": "none",
    "network": {"hidden": (100, 100), "features": 2, "head": (4,), "activation": "relu"},
    "views": {"kind": "noise", "noise": 0.03},
    "weights": {"gen": 1.0, "inv": 50.0, "prior": 10.0, "energy": 0.0},
    "sampler": {"steps": 1, "step_size": 0.01**2 / 2} | _PAPER_SAMPLER,
    "density": {"base": "none", "iterations": 0},
    "optimizer": {"learning_rate": 1e-3, "batch_size": 400},
    # The paper has no stopping rule and no guard against divergence.
    "training": {"max_iter": 20_000, "early_stopping": False, "on_divergence": "ignore"},
}

# Changes of single methods in the presets of the synthetic experiments. All other settings are
# shared, and a method ignores those that it has no use for:
# - Barlow, SwAV: batch normalisation in all layers is their default here. The paper does not
#   mention temperatures, Sinkhorn and the weight of redundancy: they are as first published.
# - no gen: the paper's table gives it a sampler and a weight of GEN, which it cannot use.
# - no inv, no unif: not in the paper. Ablations differ from GEDI in the term alone.
# - DINO, DeepCluster, EBCLR: not in the paper's experiments. They share network, views, optimiser
#   and sampler.
_PAPER_TOY_METHODS: dict[str, Values] = {
    # Its own list in the paper, which has no noise; the rest of it is GEDI's.
    "jem": {"sampler": {"steps": 10}, "views": {"both": False}},
}

# The defaults of GEDI for points in the plane, for all methods. Methods that do not train the bound
# have other defaults: another network, learning rate and length, and no initial clustering.
_IN_THE_PLANE: Values = {"network.sines": SINES, "optimizer.batch_size": FEWEST_POINTS}

# --- images -------------------------------------------------------------------------------------

# Images to train on, epochs in the paper, classes, F of the paper, weight of PRIOR in the paper.
_IMAGE_SETS: dict[str, tuple[int, int, int, int, float]] = {
    "svhn": (73_257, 20, 10, 128, 25.0),
    "cifar10": (50_000, 200, 10, 128, 25.0),
    "cifar100": (50_000, 200, 100, 256, 50.0),
}
# Mean and deviation of the pixels, from 0 to 1, by which the authors' later code standardises them.
_PIXELS = {"svhn": (0.45, 0.19), "cifar10": (0.48, 0.25), "cifar100": (0.48, 0.27)}
_IMAGE_BATCH = 64


def _standardised(data: str) -> Values:
    """The paper's table as its authors' later code runs it: other units, and two views."""
    values, (mean, deviation) = _paper_images(data), _PIXELS[data]
    ends = (-mean / deviation, (1 - mean) / deviation)
    return values | {
        "scaling": (255 * mean, 255 * deviation),
        "views": values["views"] | {"both": True, "pixels": ends},
    }


def _paper_images(data: str) -> Values:
    """The paper's table of hyperparameters for SVHN, CIFAR-10 and CIFAR-100, and its network.

    The paper has no units of pixels, in which steps and noise are: here they are in [-1, 1].
    Every setting with a different default for images is stated.
    """
    images, epochs, _, width, prior = _IMAGE_SETS[data]
    return {
        "n_clusters": width,  # the head has F outputs, whatever the number of classes
        "prior": "uniform",
        "scaling": "standard",  # to [-1, 1]
        "network": {
            "encoder": "resnet8",
            "width": width,
            "head": (2 * width,),
            "activation": "leaky_relu",  # of the head; not in the paper: as in its encoder's table
            "temperature": 1.0,  # not in the paper
            "standardised": False,
        },
        "views": {"kind": "paper", "flip": data != "svhn", "noise": 0.03},
        # Its equation has one direction, and it has no penalty on energies.
        "weights": {"gen": 1.0, "inv": 50.0, "symmetric": False, "prior": prior, "energy": 0.0},
        # Silent on the largest move, on schedule, warm-up and clipping: as first published, none.
        "sampler": {"steps": 20, "step_size": 1.0, "max_move": None} | _PAPER_SAMPLER,
        "optimizer": {"learning_rate": 1e-4, "batch_size": _IMAGE_BATCH}
        | {"schedule": "constant", "warmup": 0, "grad_clip": None},
        # All terms from the beginning: the rest of this section is not used.
        "density": {
            "base": "none",
            "iterations": 0,
            "learning_rate": 1e-4,
            "inv": 50.0,
            "prior": prior,
        },
        # The F outputs of the head. The number of prototypes is not in the paper.
        "swav": {"embedding": width},
        "training": {
            "max_iter": epochs * images // _IMAGE_BATCH,
            "start": "random",
            "n_init": 1,
            "early_stopping": False,  # the paper has no stopping rule
            "check_every": 250,  # a look costs as much as ten steps without GEN
        },
    }


# The paper has a separate list for JEM, equal to GEDI's except for its augmentation, which is noise
# alone. GEN has no views: as in JEM's own code, the noise is added to the training images. The
# certificate is measured under the same noise.
_PAPER_IMAGE_METHODS: dict[str, Values] = {"jem": {"views": {"kind": "noise", "both": True}}}

# The scaled-down presets. Every method has about equally many forward passes of a batch of 64
# through the network. A backward pass to the weights counts two more, one to the images (a Langevin
# step) one more. They take about 6 minutes on 2 cores, without batch normalisation (Barlow, SwAV).
SMALL_PASSES = 24_000
SMALL_WIDTH = 32
SMALL_STEPS = 10  # Langevin steps in an iteration
SMALL_DENSITY = 1 / 3  # the share of GEDI's passes that is left for GEN, after the clusters
SMALL_RATE = 1e-3
# For GEDI and its ablations, as in the defaults for images: with standardised weights they find
# better clusters in equally many passes. PRIOR is computed on the batch, and 64 images are few for
# 10 clusters.
OWN = ("gedi", "no-gen", "no-inv", "no-unif")
OWN_RATE, OWN_BATCH = 8e-3, 2 * _IMAGE_BATCH


def _small_images(data: str) -> Values:
    """The paper's settings for a data set, scaled down, with the reason for each difference."""
    paper, classes = _paper_images(data), _IMAGE_SETS[data][2]
    clusters, density = small_iterations("gedi")
    return paper | {
        # As many clusters as classes: accuracy on the whole test set then has a meaning.
        "n_clusters": classes,
        # Standardised weights for methods without batch normalisation, which densities exclude.
        "network": paper["network"]
        | {"width": SMALL_WIDTH, "head": (2 * SMALL_WIDTH,), "standardised": None},
        # On MNIST, the paper's weights (PRIOR half of INV, in one direction) merge clusters. With
        # this penalty, at half the default learning rate, GEN seldom diverges.
        "weights": {"gen": 1.0, "inv": 1.0, "symmetric": True, "prior": 2.0, "energy": 0.02},
        # Long steps, limited to a tenth of the range and to the box: chains move far in few
        # steps. The buffer is small because few samples are drawn.
        "sampler": paper["sampler"]
        | {"steps": SMALL_STEPS, "step_size": 10.0, "max_move": 0.1}
        | {"buffer": 2_000, "chains": _IMAGE_BATCH, "clamp": True},
        # 1e-4 is too small for so few iterations.
        "optimizer": paper["optimizer"]
        | {"learning_rate": OWN_RATE, "batch_size": OWN_BATCH}
        | {"schedule": "cosine", "warmup": 50, "grad_clip": 5.0},
        # With GEN in all iterations, too few would be left for the clusters.
        "density": {"iterations": density, "learning_rate": 2.5e-3, "inv": 10.0, "prior": 20.0},
        "swav": {"embedding": SMALL_WIDTH},
        "training": paper["training"] | {"max_iter": clusters, "check_every": 100},
    }


def small_iterations(method: str) -> tuple[int, int]:
    """Iterations of a method in the scaled-down presets: of the first stage, and of GEN after it.

    An iteration trains on two batches (an image and a view, or data and samples), EBCLR's on three,
    that of GEDI with GEN on four, and draws samples in SMALL_STEPS steps where there is GEN.
    """
    training, sampling = 3, 2 * SMALL_STEPS
    if method == "jem":
        return SMALL_PASSES // (2 * training + sampling), 0
    if method == "ebclr":
        return SMALL_PASSES // (3 * training + sampling), 0
    if method not in OWN:
        return SMALL_PASSES // (2 * training), 0
    clusters = 2 * training * OWN_BATCH // _IMAGE_BATCH
    if method != "gedi":
        return SMALL_PASSES // clusters, 0
    density = round(SMALL_DENSITY * SMALL_PASSES)
    # Runs with a density evaluate the initial points too.
    joint = clusters + 2 * training + sampling + 2
    return (SMALL_PASSES - density) // clusters, density // joint


def _small_image_methods() -> dict[str, Values]:
    others = [method for method in METHODS if method != "gedi"]
    changes: dict[str, Values] = {
        one: {"training": {"max_iter": small_iterations(one)[0]}} for one in others
    }
    for one in set(others).difference(OWN):
        changes[one]["optimizer"] = {"learning_rate": SMALL_RATE, "batch_size": _IMAGE_BATCH}
    # JEM, which has no base, keeps the weights that its row was trained with.
    changes["jem"] |= _PAPER_IMAGE_METHODS["jem"] | {"weights": {"gen": 0.1, "energy": 0.01}}
    changes["ebclr"]["ebclr"] = {"embedding": SMALL_WIDTH}  # as SwAV's
    return changes


# --- all of them --------------------------------------------------------------------------------

_VALUES: dict[str, Values] = {
    "alike/random": nested(WALKS | _IN_THE_PLANE | {"training.start": "random"}),
    "alike/start": nested(STARTED | _IN_THE_PLANE | {"training.start": "chosen"}),
    "paper/toy-literal": _PAPER_TOY_LITERAL,
    # The reading of that table under which the paper's numbers come out (docs/results/toy.md). Its
    # experiments deal fresh points in each batch: `toy.POINTS`.
    "paper/toy": _PAPER_TOY_LITERAL
    | {
        # No dead units. The paper: "ReLU activation functions", for images LeakyReLU(0.2).
        "network": _PAPER_TOY_LITERAL["network"] | {"activation": "leaky_relu"},
        # Both x and x' are noisy. The paper does not say whether x is.
        "views": _PAPER_TOY_LITERAL["views"] | {"both": True},
        # If chains hardly move, log-densities diverge. The paper does not say what bounds them.
        "weights": _PAPER_TOY_LITERAL["weights"] | {"energy": 0.1},
        "training": _PAPER_TOY_LITERAL["training"] | {"check_every": 500},
    },
    **{f"paper/{data}": _standardised(data) for data in _IMAGE_SETS},
    **{f"paper/{data}-signed": _paper_images(data) for data in _IMAGE_SETS},
    **{f"small/{data}": _small_images(data) for data in _IMAGE_SETS},
}
_ABOUT: dict[str, str] = {
    "alike/random": "GEDI's defaults for points in the plane, for every method: equal network, "
    "views, batches, learning rate, length and weights, without an initial clustering.",
    "alike/start": "The same with an initial clustering, which GEDI, its ablations and JEM use.",
    "paper/toy-literal": "The paper's table for synthetic data, value by value. Training runs to "
    "the end, also if it diverges.",
    "paper/toy": "The paper's table for synthetic data, as it trains: leaky ReLU, noise on x as on "
    "its views, and a penalty on log-densities. `gedi reproduce toy` deals fresh points in each "
    "batch.",
    **{
        f"paper/{data}": "The paper's table for images, value by value. Pixels are standardised, "
        "and INV compares two views, as in the authors' later code."
        for data in _IMAGE_SETS
    },
    **{
        f"paper/{data}-signed": "The same with pixels in [-1, 1], and views of plain images."
        for data in _IMAGE_SETS
    },
    **{
        f"small/{data}": "Scaled down for 2 cores: a narrower network, few iterations, as many "
        "clusters as classes, equal compute for all methods."
        for data in _IMAGE_SETS
    },
}
_UNITS = ("", "-signed")
_CHANGES: dict[str, dict[str, Values]] = {
    "paper/toy": _PAPER_TOY_METHODS,
    "paper/toy-literal": _PAPER_TOY_METHODS,
    **{f"paper/{data}{units}": _PAPER_IMAGE_METHODS for data in _IMAGE_SETS for units in _UNITS},
    **{f"small/{data}": _small_image_methods() for data in _IMAGE_SETS},
}

PRESETS = {
    name: Preset(about, _VALUES[name], _CHANGES.get(name, {})) for name, about in _ABOUT.items()
}
