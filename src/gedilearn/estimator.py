"""The front door for programs: a scikit-learn estimator around `training.loop.train`."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from gedilearn.data.arrays import (
    Scaling,
    are_embeddings,
    as_numbers,
    check_enough,
    check_same_shape,
    of_tensor,
)
from gedilearn.data.columns import Columns, numeric_frame
from gedilearn.data.dataset import fingerprint
from gedilearn.data.files import as_frame, frame_of_rows
from gedilearn.data.rules import Rules
from gedilearn.density.fit import Findings
from gedilearn.errors import InputError, Parameter
from gedilearn.explanation import MOST_OUTLIERS, Explanation, explain, keep
from gedilearn.fields import Schedule
from gedilearn.io import RESTORE, is_first_process, reading
from gedilearn.models.energy import EnergyModel
from gedilearn.presets import preset as preset_values
from gedilearn.progress import SILENT, Progress, shown
from gedilearn.reasons import Reason, reasons
from gedilearn.rows import Rows
from gedilearn.sampling.langevin import Box
from gedilearn.settings import (
    AUTO,
    MAX_CLUSTERS,
    Kind,
    Settings,
    assign,
    checked,
    flat,
    has_base_in_columns,
    is_images,
    resolve,
)
from gedilearn.starts.classes import Classes, name_of
from gedilearn.training.environment import check_machine, check_memory, one_thread_if_small
from gedilearn.training.loop import train
from gedilearn.training.result import Result, Score
from gedilearn.training.run import (
    DIRECTIONS,
    RunDirectory,
    open_model,
    read_config,
    read_network,
    save_model,
    settings_in_file,
    settings_of,
)
from gedilearn.verdict.hierarchy import check, groups_at, hierarchy
from gedilearn.verdict.monitor import Diagnosis
from gedilearn.verdict.number import Chosen, NumberChoice, choose_number, compare_halves
from gedilearn.verdict.outputs import Outputs
from gedilearn.verdict.verdict import Verdict

# Constructor argument -> setting. `views` and `encoder` also take objects, see the class.
NAMED = {
    "n_clusters": "n_clusters",
    "prior": "prior",
    "method": "method",
    "w_gen": "weights.gen",
    "w_inv": "weights.inv",
    "w_prior": "weights.prior",
    "views": "views.kind",
    "encoder": "network.encoder",
    "max_iter": "training.max_iter",
    "n_init": "training.n_init",
    "device": "device.accelerator",
}
NO_RULES = "the model has no density in all columns; this needs vectors of up to 64 columns"
LEAST_EACH = 5  # points of a cluster, on average, in the largest number that is compared
Self = TypeVar("Self", bound="GEDI")


class LeftOut(UserWarning):
    """Says which columns of a data frame were left out, and why."""


def _of_result(path: str) -> Any:
    """A fitted attribute: a value of the result, absent before a fit."""
    return property(attrgetter(f"result_.{path}"))


class GEDI(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters unlabelled data with a neural network, and says whether to trust the result.

    One ordinary network is trained with the sum of three terms, after *The Triad of Failure Modes
    and a Possible Way Out*. GEN reads the classifier as a density of the data. INV asks for equal
    predictions under views x' of x. PRIOR asks for clusters in given proportions. The fitted
    network clusters new points, scores how likely they are, and generates more.

    Data is standardised first, and samples are mapped back. An argument takes precedence over the
    same name in `settings`, and `settings` over the preset. What is left at None has the default
    for data of its kind.

    Parameters
    ----------
    n_clusters : int or 'auto', default None
        Number of clusters c; None is 2, and 1 learns the density alone. 'auto' compares 2 to 10
        clusters without labels and trains one network. It needs vectors.
    prior : tuple of float, 'auto' or 'uniform', default None
        Proportions of the clusters, in any order; their number is the number of clusters. 'auto',
        the default for vectors, takes them from the clusters that are found. 'uniform' is the
        paper's, and the default for images.
    method : str, default None
        The objective, 'gedi' by default. 'no-gen', 'no-inv' and 'no-unif' leave out one of its
        terms, and 'jem' keeps GEN alone. 'swav', 'barlow', 'dino', 'deepcluster' and 'ebclr' are
        baselines.
    preset : str, default None
        A named set of settings, for instance 'paper/toy'.
    w_gen, w_inv, w_prior : float or list of (progress, weight) points, default None
        Weights of GEN, INV and PRIOR; linear between the points. ``w_gen=0`` learns no density.
    views : str or callable, default None
        The distribution of views x': 'walk' or 'noise', for images 'grey' or 'paper'. A function
        maps a batch of scaled points to views of it. If it has an argument `generator`, it should
        draw from the torch.Generator that it receives.
    encoder : str or torch.nn.Module, default None
        For images 'conv' or 'resnet8'; or a module that maps a batch to vectors. The first
        initialisation starts with its weights, further ones with fresh weights. The module is
        copied. It is not saved: give it again to `load`.
    max_iter : int, default None
        Most iterations.
    n_init : int, default None
        Initialisations trained at once; the one with the smallest bound gap is kept.
    random_state : int or RandomState, default None
        Seed of all randomness; None takes a new one. A fit with a seed gives the same result, also
        in several threads, and leaves torch's global generator alone. Code of your own may draw
        from that generator: an encoder with dropout, views without an argument `generator`. It is
        then seeded during the fit and restored. Such a fit is reproducible in one thread only.
    device : {'auto', 'cpu', 'cuda', 'mps'}, default None
        Where to train.
    run_dir : path, default None
        Folder for the run: settings, metrics, events, checkpoints, model.
    verbose : bool, default False
        Whether to print each phase and the time left on stderr.
    settings : mapping, default None
        All other settings by their dotted names, for instance
        ``{'sampler.steps': 20, 'optimizer.learning_rate': 0.002}``. The page *Settings* of the
        documentation lists them with their defaults.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training point.
    n_clusters_ : int
        Number of clusters.
    verdict_ : Verdict
        How far to trust the clusters: `print` shows a headline, a reason and a next step. Its
        `figures` are the numbers behind them.
    grade_ : {'certified', 'supported', 'doubtful', 'no structure found'}
        The grade of the verdict; docs/trust.md has the rule.
    certified_ : bool
        Whether the grade is 'certified'.
    stability_ : float or None
        Agreement of the labels with the clusters of subsamples, at most 1. None without an initial
        clustering.
    trust_ : ndarray of shape (n_samples,) or None
        Trust in the cluster of each training point, 0 to 1. None without an initial clustering.
    bound_gap_ : float
        Distance in nats to the bound of Proposition 1, measured without labels. Only confident,
        invariant clusterings in the proportions of the prior reach 0.
    diagnosis_ : Diagnosis
        The findings of the triad monitor behind the verdict.
    choice_ : NumberChoice or None
        With 'auto', the evidence for each number of clusters.
    hierarchy_ : ndarray of shape (n_clusters - 1, 4)
        How the clusters merge: a linkage matrix, as `scipy.cluster.hierarchy` takes it. `labels_at`
        gives the labels at fewer clusters.
    names_, class_names_ : list of str
        Names of all clusters, known classes first; names of the known classes.
    disputed_ : ndarray of int
        The rows to which the network gives another class than the known one.
    density_ : Findings or None
        How far to trust the density, measured on held-out rows. None without a base.
    log_normaliser_ : float or None
        log Gamma; its standard error is ``density_.log_normaliser_error``.
    prior_ : ndarray of shape (n_clusters,)
        The proportions of the clusters that PRIOR asked for.
    n_iter_ : int
        Iterations of training.
    seconds_ : float
        Duration of training.
    stopped_ : {'certified', 'budget', 'diverged'}
        Why training ended.
    n_recoveries_ : int
        How often training diverged and went back to a good state.
    model_ : EnergyModel
        The trained network, a torch module.
    point_shape_ : tuple of int
        Shape of a point: (columns,), or (channels, height, width).
    columns_ : Columns or None
        How the columns of a table are encoded; None if all are numbers.
    rules_ : Rules or None
        What all training rows keep, and drawn rows too. None for images and many columns.
    scaling_ : Scaling
        The map between the data's units and the network's.
    settings_ : Settings
        All settings as used.
    n_features_in_ : int
        Number of columns, or of channels of images.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` had some.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from gedilearn import GEDI
    >>> X, _ = make_moons(400, noise=0.05, random_state=0)
    >>> model = GEDI(n_clusters=2, random_state=0).fit(X)
    >>> model.predict(X[:3]).shape
    (3,)
    """

    columns_: Columns | None
    feature_names_in_: np.ndarray
    result_: Result
    rules_: Rules | None
    scaling_: Scaling
    labels_: np.ndarray
    hierarchy_: np.ndarray
    _texts: Sequence[str] | None  # those of a table that is being fitted
    _cells: np.ndarray | None  # the values of its columns, see `Columns.values`

    def __init__(
        self,
        n_clusters: int | str | None = None,
        *,
        prior: tuple[float, ...] | str | None = None,
        method: str | None = None,
        preset: str | None = None,
        w_gen: Schedule | None = None,
        w_inv: Schedule | None = None,
        w_prior: Schedule | None = None,
        views: str | Callable[..., Tensor] | None = None,
        encoder: str | nn.Module | None = None,
        max_iter: int | None = None,
        n_init: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str | None = None,
        run_dir: str | Path | None = None,
        verbose: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.prior = prior
        self.method = method
        self.preset = preset
        self.w_gen = w_gen
        self.w_inv = w_inv
        self.w_prior = w_prior
        self.views = views
        self.encoder = encoder
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.device = device
        self.run_dir = run_dir
        self.verbose = verbose
        self.settings = settings

    # --- fitting -----------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any = None, *, classes: Any = None) -> Self:
        """Cluster `X`: (n_samples, n_features), or images (n_samples, channels, height, width).

        `X` is an array, a tensor or a data frame. Data frames may have dates, categories and
        missing cells. `y` is ignored. The folder `run_dir`, if given, must be new or empty.
        `GEDI.resume` continues an interrupted fit.

        `classes`, (n_samples,), are the known classes of some rows, as numbers or text. All other
        rows have -1, None or NaN. The first clusters are then the classes, in sorted order. With a
        larger `n_clusters`, further clusters follow.
        """
        return self.fit_run(X, self.run_dir, classes=classes)

    @classmethod
    def resume(
        cls: type[Self], run_dir: str | Path, X: Any, *, classes: Any = None, **others: Any
    ) -> Self:
        """Continue an interrupted fit of the same `X`; a finished one is read back.

        Known classes, an encoder, or views given as a function, must be given again.
        """
        config, progress = read_config(run_dir), others.pop("progress", None)
        given = others | ({} if classes is None else {"classes": classes, "labels": classes})
        for name in config.objects:
            if name not in given:
                raise InputError(f"{run_dir} was fitted with {name}: give the same {name} again")
        settings = settings_of(run_dir, config, config.data.shape)
        model = cls.from_settings(settings, run_dir=run_dir, **others)
        data = model.validate(X, reset=True)
        if (config.data.shape, config.data.fingerprint) != (data.shape, fingerprint(data)):
            raise InputError(
                f"{run_dir} was fitted to other data than X (fingerprints differ): give that data"
            )
        known = None if classes is None else Classes.of(classes, len(data), config.graded)
        if known is not None and fingerprint(known.labels) != config.data.labels:
            raise InputError(f"{run_dir} was fitted with other labels than these: give those")
        run = RunDirectory(run_dir)
        check_machine(settings, data.shape[1:])
        with run.held():
            scaled = model.scaled(data, settings)
            chosen = Chosen(config.choice) if config.choice else None
            return model._train(data, scaled, settings, run, progress, known, chosen)

    def fit_run(
        self: Self,
        X: Any,
        run_dir: str | Path | None,
        source: dict[str, Any] | None = None,
        progress: Progress | None = None,
        columns: Columns | None = None,
        classes: Any = None,
    ) -> Self:
        """Fit into a run directory.

        source: where the data came from, which the config of the run keeps
        columns: how those of a table are encoded, if that was found before
        classes: as in `fit`, or `Classes`
        """
        data, values, given = self.read(X, columns)
        known, scaled, chosen = None, None, None
        if classes is not None:
            if given.training.start == AUTO and not is_images(data.shape):
                values.setdefault("training", {})["start"] = "chosen"
            known = Classes.of(classes, len(data))
            values["n_clusters"] = self._n_clusters(known, given, values.get("n_clusters"))
        elif self.n_clusters == AUTO and isinstance(given.prior, str):
            scaled, chosen = self._choose(data, given, progress or SILENT)
            values["n_clusters"] = chosen.choice.n_clusters
        settings = resolve(values, data.shape)
        check_enough(data, settings.n_clusters)
        check_machine(settings, data.shape[1:])
        scaled = scaled or self.scaled(data, settings)
        if run_dir is None:
            return self._train(data, scaled, settings, None, progress, known, chosen)
        objects = list(self.objects())
        described = (source or {"source": None}) | {"shape": list(data.shape)}
        described["fingerprint"] = fingerprint(data)
        if known is not None:
            objects.append("labels" if known.graded else "classes")
            described["labels"] = fingerprint(known.labels)
        config: dict[str, Any] = {
            "settings": json.loads(settings.model_dump_json()),
            "objects": objects,
            "choice": chosen and chosen.choice.to_json(),
            "data": described,
        }
        with RunDirectory.create(run_dir, config) as directory:
            return self._train(data, scaled, settings, directory, progress, known, chosen)

    def read(
        self, X: Any, columns: Columns | None = None
    ) -> tuple[np.ndarray, dict[str, Any], Settings]:
        """The numbers of data to fit, and the given settings, nested and checked."""
        data = self.validate(X, reset=True, columns=columns)
        values = self._values(seeded=True)
        given = checked(values)
        if given.metric == AUTO:
            numbers = self.columns_ is None or set(self.columns_.kinds) == {"number"}
            values["metric"] = "cosine" if numbers and are_embeddings(data) else "euclidean"
            given = checked(values)
        return data, values, given

    def _n_clusters(self, known: Classes, given: Settings, n_clusters: int | None) -> int:
        """With known classes: a cluster for each, and 2 at least, or the given number."""
        classes = len(known.values)
        if self.n_clusters == AUTO:
            raise InputError("n_clusters='auto' with known classes: leave it out, or give a number")
        if n_clusters is not None and n_clusters < classes:
            raise InputError(
                Parameter("n_clusters", n_clusters),
                f" is less than the {classes} known classes: leave it out, or give more",
            )
        if not given.own.weighted:
            raise InputError(
                Parameter("method", given.method),
                " does not learn known classes: use gedi, no-gen, no-inv, no-unif or jem",
            )
        return n_clusters or max(classes, 2)

    def _choose(
        self, data: np.ndarray, given: Settings, progress: Progress
    ) -> tuple[tuple[Scaling, np.ndarray], Chosen]:
        """The scaled data, and the choice of the number of clusters."""
        if is_images(data.shape):
            raise InputError(
                f"images {data.shape} need a number of clusters, for example ",
                Parameter("n_clusters", 10),
            )
        check_enough(data, 2)
        training, scaled = given.training, self.scaled(data, given)
        most = training.max_clusters or MAX_CLUSTERS[given.metric]
        most = min(most, max(len(data) // LEAST_EACH, 2))
        # Not resolved yet: vectors have one thread unless more are wanted.
        device = given.device.model_copy(update={"threads": given.device.threads or 1})
        with one_thread_if_small(device, data.shape):
            if given.metric == "cosine":
                found = compare_halves(scaled[1], most, training.seed, progress)
                return scaled, Chosen(found)
            options = (most, given.views.n_neighbors, training.seed, progress)
            return scaled, choose_number(scaled[1], *options)

    def scaled(self, data: np.ndarray, settings: Settings) -> tuple[Scaling, np.ndarray]:
        """The scaling, and validated data in the network's units."""
        check_memory(f"X of shape {data.shape}, scaled,", 4 * data.size, "data")
        scaling = Scaling.of(data, settings.scaling, settings.metric)
        if self.columns_ and scaling.directions is None:
            scaling = self.columns_.scaling(data, settings.scaling)
        return scaling, scaling.apply(data)

    def _train(
        self: Self,
        data: np.ndarray,
        scaled: tuple[Scaling, np.ndarray],
        settings: Settings,
        directory: RunDirectory | None,
        given: Progress | None,
        known: Classes | None,
        chosen: Chosen | None,
    ) -> Self:
        scaling, x = scaled
        own = {"view_function" if k == "views" else k: v for k, v in self.objects().items()}
        own |= {"classes": known, "chosen": chosen}
        one_thread = one_thread_if_small(settings.device, data.shape)
        with shown(bool(self.verbose) and is_first_process(), given) as progress, one_thread:
            result = train(torch.from_numpy(x), settings, run=directory, progress=progress, **own)
            assert result.training is not None
            labels, names, disputed = result.training.labels, [], np.zeros(0, np.int64)
            probabilities = result.training.probabilities
            if known is not None:
                names, rows = known.names, known.rows
                disputed = rows[labels[rows] != known.labels[rows]]
                labels = known.labels if known.graded else labels
                result = replace(result, disputed=(len(disputed), len(rows)))
            tree = hierarchy(x, labels, probabilities)
            rules = self._rules(data, settings) if result.density is not None else None
            self.adopt(result, scaling, labels, names, disputed, tree, rules)
            if directory is not None and is_first_process():
                progress.phase("writing the result")
                self.save(directory.model, overwrite=True)
                named = self.encoded_names(), self.encoded_kinds(), self._texts, tree
                unusual = self._unusual(torch.from_numpy(x))
                keep(directory, data, self.outputs(), self._features, *named, **unusual)
                directory.write_summary(self.summary())
        if self.stopped_ == "diverged":
            warnings.warn(str(self.verdict_), RuntimeWarning, stacklevel=4)
        return self

    def _rules(self, data: np.ndarray, settings: Settings) -> Rules | None:
        """What all training rows keep; None for images and for many columns."""
        if not has_base_in_columns(data.shape) or settings.metric == "cosine":
            return None
        if self.columns_ is not None and self._cells is not None:
            return self.columns_.rules(self._cells)
        return Rules.of(data.astype(np.float64), ["number"] * data.shape[1], {})

    def adopt(
        self,
        result: Result,
        scaling: Scaling,
        labels: np.ndarray,
        class_names: Sequence[str] = (),
        disputed: np.ndarray | None = None,
        tree: np.ndarray | None = None,
        rules: Rules | None = None,
    ) -> None:
        """Become the model that training gave."""
        self.result_, self.rules_, self._cells = result, rules, None
        self.scaling_ = scaling
        self.labels_ = labels
        self.class_names_ = list(class_names)
        self.disputed_ = np.zeros(0, np.int64) if disputed is None else disputed
        self.hierarchy_ = np.zeros((0, 4)) if tree is None else tree

    # --- fitted attributes --------------------------------------------------------------------

    settings_: Settings = _of_result("settings")
    n_clusters_: int = _of_result("settings.n_clusters")
    model_: EnergyModel = _of_result("model")
    box_: Box = _of_result("box")
    diagnosis_: Diagnosis = _of_result("diagnosis")
    bound_gap_: float = _of_result("diagnosis.gap")
    certified_: bool = _of_result("diagnosis.certified")
    grade_: str = _of_result("diagnosis.grade")
    verdict_: Verdict = _of_result("verdict")
    choice_: NumberChoice | None = _of_result("choice")
    n_iter_: int = _of_result("iterations")
    seconds_: float = _of_result("seconds")
    stopped_: str = _of_result("stopped")
    n_recoveries_: int = _of_result("recoveries")
    density_: Findings | None = _of_result("density_findings")
    _n_features_out: int = _of_result("model.n_features")

    @property
    def point_shape_(self) -> tuple[int, ...]:
        scaling, shape = self.scaling_, tuple(self.result_.box.low.shape)
        return shape if scaling.directions is None else scaling.offset.shape

    @property
    def prior_(self) -> np.ndarray:
        return self.result_.prior.numpy()

    @property
    def stability_(self) -> float | None:
        evidence = self.result_.diagnosis.evidence
        return None if evidence is None else evidence.stability

    @property
    def trust_(self) -> np.ndarray | None:
        trust = self.result_.trust
        return None if trust is None else trust.prod(1).numpy()

    @property
    def log_normaliser_(self) -> float | None:
        found = self.result_.density_findings
        return None if found is None else found.log_normaliser

    @property
    def names_(self) -> list[str]:
        return [name_of(k, self.class_names_) for k in range(self.n_clusters_)]

    # --- using a fitted model ----------------------------------------------------------------

    def predict(self, X: Any, outliers: float | None = None) -> np.ndarray:
        """The most likely cluster of each point: (n_samples,).

        With `outliers`, a level such as 0.05, the points that `outliers` names have -1.
        """
        x = self.prepare(X)
        labels = self.result_.labels(x)
        return labels if outliers is None else np.where(self.outliers(X, outliers), -1, labels)

    def outlier_score(self, X: Any) -> np.ndarray:
        """How unusual each row is among the bulk of the training rows, higher for more.

        Groups of outliers are unusual too, unlike in `score_samples`. A training row is scored
        without itself. (n_samples,).
        """
        x = self.prepare(X)
        return np.asarray(self.result_.unusual(x)[0].double())

    def outlier_pvalue(self, X: Any) -> np.ndarray:
        """The share of rows at least as unusual, among the training rows and the row itself.

        Of new rows like the training rows, at most a share of about p has a p-value below p
        (conformal prediction). (n_samples,).
        """
        x = self.prepare(X)
        scores = self.result_.unusual(x)[0]
        return np.asarray(self.result_.subsamples.pvalues(scores).double())

    def outliers(self, X: Any, level: float = 0.05) -> np.ndarray:
        """Whether each row is an outlier: (n_samples,), truth values.

        By the procedure of Benjamini and Hochberg: the expected share of false alarms among the
        named rows is `level`. No share of outliers is needed. The tail of the bulk is extrapolated,
        and training rows may be given as well as new ones.
        """
        x = self.prepare(X)
        return self.result_.subsamples.outliers(self.result_.unusual(x)[1], level).numpy()

    def outlier_reasons(self, X: Any, most: int = 3) -> list[tuple[Reason, ...]]:
        """Why each row is an outlier: at most so many cells, the most unusual one first.

        Each cell is compared with those of the training rows most like the row in all other
        columns. `fall` is how far the outlier score falls with a usual value. `str` of a reason
        gives it in words.
        """
        x = self.prepare(X)
        if self.rules_ is None:
            raise InputError("outlier_reasons: ", NO_RULES)
        if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
            raise InputError(Parameter("most", most), ": give a whole number, at least 1")
        return reasons(self.result_, self.scaling_, self._named_columns(), x, most)

    def _unusual(self, x: Tensor) -> dict[str, Any]:
        """The outlier scores of rows (n, ...), and why the most unusual ones are."""
        if self.result_.density is None:
            return {}
        scores = self.result_.unusual(x)[0].double().numpy()
        worst, words = np.argsort(-scores, kind="stable")[:MOST_OUTLIERS], {}
        if self.rules_ is not None:
            given = self.result_, self.scaling_, self._named_columns(), x[worst], 1
            each = zip(worst.tolist(), reasons(*given), strict=True)
            words = {row: str(why[0]) for row, why in each if why}
        return {"scores": scores, "reasons": words}

    def labels_at(self, k: int, X: Any = None) -> np.ndarray:
        """The labels with the clusters merged into k groups: (n_samples,).

        Of the training rows, or of `X`. Group 0 has the most training rows. Groups at a larger k
        are parts of those at a smaller one.
        """
        check_is_fitted(self)
        sizes = np.bincount(self.labels_, minlength=self.n_clusters_)
        groups = groups_at(self.hierarchy_, k, sizes)
        return np.asarray(groups[self.labels_ if X is None else self.predict(X)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(y|x): (n_samples, n_clusters)."""
        x = self.prepare(X)
        return self.result_.outputs(x).probabilities

    def outputs(self, X: Any = None) -> Outputs:
        """Labels, p(y|x), log p(x) and trust of rows, in one pass; of the training rows by default.

        Trust is known of training rows alone. Those are kept in memory after a fit, not in files.
        """
        check_is_fitted(self)
        found = self.result_.training if X is None else self.result_.outputs(self.prepare(X))
        if found is None:
            raise InputError("outputs: the training rows are not in the model's file; give X")
        found = found if X is not None else found.of(self.labels_)
        density = self.result_.density
        if density is None or found.log_density is None:
            return found
        volume = density.volume(self.scaling_.scale)
        return replace(found, log_density=found.log_density - volume)

    def transform(self, X: Any) -> np.ndarray:
        """The representation enc(x): (n_samples, h)."""
        x = self.prepare(X)
        return self.result_.features(x)

    def score_samples(self, X: Any, kind: Score = "log_density") -> np.ndarray:
        """How typical each point is, higher for more: (n_samples,).

        'log_density': log p(x), in nats and the data's units; without a base, up to a constant.
        'gradient_norm': -||d log p(x) / dx|| in the network's units, the score of the paper for
        points from another distribution. 'confidence': the largest p(y|x). 'energy': logsumexp of
        the logits, the paper's log p(x) up to a constant.
        """
        x = self.prepare(X)
        scores, density = self.result_.scores(x, kind), self.result_.density
        if density is None or kind != "log_density":
            return scores
        return scores - density.volume(self.scaling_.scale)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of log p(x) on `X`; without a normalised density, minus the bound gap there."""
        check_is_fitted(self)
        if self.log_normaliser_ is None:
            return -self.diagnose(X).gap
        return float(self.score_samples(X).mean())

    def sample(
        self,
        n_samples: int = 1,
        *,
        cluster: int | None = None,
        given: Mapping[Any, Any] | None = None,
        steps: int | None = None,
        random_state: Any = None,
    ) -> tuple[Any, np.ndarray]:
        """New points, in the data's units, and their clusters; all of `cluster`, if it is given.

        For a table with other columns than numbers, the points are a data frame of its rows. They
        keep what all training rows keep (docs/tables.md). `given` has values or (low, high) of some
        columns, by name or number: ``{'species': 'Adelie', 'mass': (4000, 5000)}``.
        Vectors are drawn by importance weights and moved by `steps` (20) Langevin steps with
        Metropolis correction. Images are short runs from the base, as in training. Without a base
        there are chains of `steps` (500) steps from uniform points in the box of the data.
        """
        check_is_fitted(self)
        seed = seed_of(random_state)
        if self.rules_ is not None:
            rows = self._rows(self.rules_)
            values = rows.sample(n_samples, steps, seed, cluster, given or {})
            made = values if self.columns_ is None else rows.columns.frame(values)
            return made, self.predict(made)
        if given:
            raise InputError("given: ", NO_RULES)
        positions = self.result_.sample(n_samples, steps, seed, cluster)
        points = self.scaling_.undo(positions.numpy())
        if self.columns_ is not None:
            points = self.columns_.frame(self.columns_.nearest(points))
        return points, self.result_.labels(positions)

    def impute(self, X: Any, random_state: Any = 0) -> Any:
        """`X` with its missing cells filled: a data frame, or an array.

        For each row, draws given its other cells: a number is their median, a category the most
        frequent of them. Without a call of this method, `predict` and others fill cells as the fit.
        """
        check_is_fitted(self)
        if self.rules_ is None:
            raise InputError("impute: ", NO_RULES)
        X = of_tensor(X, "X") if isinstance(X, Tensor) else X
        rows, frame = self._rows(self.rules_), as_frame(X)
        names = self.columns_.inputs if self.columns_ else rows.columns.inputs
        table = frame_of_rows(X, names) if frame is None else frame
        if table is None:
            raise InputError(f"X has not the {len(names)} columns of the fit")
        values = rows.columns.values(table)
        filled = rows.impute(values, seed_of(random_state))
        cells = rows.columns.frame(filled)
        for name, missing in zip(cells, np.isnan(values).T, strict=True):
            own = table[name].astype(object).mask(missing, cells[name].astype(object))
            table[name] = own.infer_objects() if missing.any() else table[name]
        table.index = getattr(X, "index", table.index)
        return table if frame is not None else table.to_numpy()

    def _rows(self, rules: Rules) -> Rows:
        """What draws rows."""
        return Rows(self.result_, self.scaling_, self._named_columns(), rules)

    def _named_columns(self) -> Columns:
        """The columns of vectors; those without names are x1, x2 and so on."""
        names = self.feature_names() or [f"x{k + 1}" for k in range(self.n_features_in_)]
        return self.columns_ or Columns.plain(names)

    def diagnose(self, X: Any) -> Diagnosis:
        """The triad monitor and the certificate on `X`, which may be new data."""
        x = self.prepare(X)
        return self.result_.diagnose(x, self.objects().get("views"))

    def explain(
        self, X: Any, names: Sequence[str] | None = None, texts: Sequence[str] | None = None
    ) -> Explanation:
        """What defines each cluster, and its typical, uncertain and unusual rows.

        Columns go by `names`, or by those seen in `fit`, or by their number. Clusters are also
        described by the words of `texts`, one of each row, or of the text in a table. `str` gives
        it in words, `to_json` in plain values.
        """
        check_is_fitted(self)
        names = self.encoded_names() if names is None else names
        frame = as_frame(X) if texts is None and self.columns_ else None
        if frame is not None and self.columns_:
            texts = self.columns_.texts(frame)
        named = names, self.encoded_kinds(), texts, self.hierarchy_
        x = self.validate(X)
        return explain(x, self.outputs(X), *named, **self._unusual(self._tensor(x)))

    def summary(self) -> dict[str, Any]:
        """The result in plain numbers and words."""
        check_is_fitted(self)
        n_clusters = self.settings_.n_clusters
        sizes = np.bincount(self.labels_, minlength=n_clusters).tolist()
        counts = {"n_samples": len(self.labels_), "n_clusters": n_clusters, "cluster_sizes": sizes}
        rows = self.result_.clusters(self.labels_)
        if self.class_names_:
            rows = [row | {"name": name} for row, name in zip(rows, self.names_, strict=True)]
        more = {"choice": self.choice_ and self.choice_.to_json(), "clusters": rows}
        return counts | self.result_.summary() | more | {"classes": self.class_names_}

    # --- saving ------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to one safetensors file; no pickle."""
        check_is_fitted(self)
        path = Path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists already: choose another path, or overwrite=True")
        own = {"labels": self.labels_, "disputed": self.disputed_, "hierarchy": self.hierarchy_}
        if self.scaling_.directions is not None:
            own[DIRECTIONS] = self.scaling_.directions
        tensors = self.result_.tensors() | {k: torch.from_numpy(v) for k, v in own.items()}
        header = {
            "settings": json.loads(self.settings_.model_dump_json()),
            "objects": list(self.objects()),
            "scaling": self.scaling_.to_json(),
            "columns": self.columns_ and self.columns_.to_json(),
            "rules": self.rules_ and self.rules_.model_dump(mode="json", exclude_defaults=True),
            "feature_names_in": self.feature_names() or [],
            "summary": self.summary(),
        }
        save_model(path, tensors, header)

    @classmethod
    def load(cls: type[Self], path: str | Path, **others: Any) -> Self:
        """Read a model that `save` wrote.

        An encoder, or views given as a function, must be given again in `others`.
        """
        path = Path(path)
        tensors, header = open_model(path)
        with reading(path, RESTORE):
            shape = (*tensors["labels"].shape, *tensors["box.low"].shape)
        settings = settings_in_file(path, header.settings, shape)
        if "encoder" in header.objects and "encoder" not in others:
            raise InputError(f"{path} has an encoder of its own: load it in Python, with it")
        model = cls.from_settings(settings, **others)
        network = read_network(path, tensors, settings, model.objects().get("encoder"))
        with reading(path, RESTORE, ours=True):
            result = Result.read(settings, tensors, header.summary, network)
            directions = tensors[DIRECTIONS].numpy() if DIRECTIONS in tensors else None
            scaling = Scaling.from_json(header.scaling, directions)
            columns = header.columns and Columns.from_json(header.columns)
            point = shape[1:] if directions is None else scaling.offset.shape
            names, width = header.feature_names_in, len(columns.all) if columns else point[0]
            same = scaling.scale.shape == Scaling.shape(shape[1:]) and len(names) in (0, width)
            if not same or (columns and (columns.width,) != point):
                raise ValueError("its scaling or columns are of other data")
            rules = header.rules
            if rules and len(rules.columns) != (len(columns.used) if columns else point[0]):
                raise ValueError("its rules are of other columns")
            tree = tensors["hierarchy"].numpy()
            check(tree, settings.n_clusters)
        disputed = tensors["disputed"].numpy() if "disputed" in tensors else None
        labels, summary = tensors["labels"].numpy(), header.summary
        model.adopt(result, scaling, labels, summary.classes, disputed, tree, rules)
        model.columns_ = columns or None
        model.n_features_in_ = width
        if names:
            model.feature_names_in_ = np.array(names, dtype=object)
        return model

    # --- settings --------------------------------------------------------------------------------

    @classmethod
    def from_settings(cls: type[Self], settings: Settings, **others: Any) -> Self:
        """An estimator with these settings; `others` are further constructor arguments."""
        values = flat(settings.model_dump())
        named = {name: values.pop(path) for name, path in NAMED.items()}
        return cls(**(named | {"settings": values} | others))

    def resolve(self, shape: tuple[int, ...]) -> Settings:
        """All settings for data of this shape: the preset, changed by `settings` and arguments."""
        return resolve(self._values(seeded=True), shape)

    def _values(self, seeded: bool = False) -> dict[str, Any]:
        """The given settings, nested; with a seed drawn from `random_state`, if it is wanted."""
        settings = self.settings or {}
        if not isinstance(settings, Mapping):
            raise InputError(f"settings={settings!r}: give a mapping of dotted names to values")
        own = self.objects()
        named = {path: getattr(self, name) for name, path in NAMED.items() if name not in own}
        if self.n_clusters == AUTO:
            named["n_clusters"] = None
        given = dict(settings) | {path: value for path, value in named.items() if value is not None}
        values = preset_values(self.preset, given.get("method")) if self.preset else {}
        for path, value in given.items():
            assign(values, path, value)
        unseeded = self.random_state is not None or "seed" not in values.get("training", {})
        if seeded and unseeded:
            assign(values, "training.seed", seed_of(self.random_state))
        return values

    def objects(self) -> dict[str, Any]:
        """An encoder and views of the user's own, which no file can hold."""
        given = {"encoder": self.encoder, "views": self.views}
        return {name: value for name, value in given.items() if callable(value)}

    # --- data ------------------------------------------------------------------------------------

    def validate(self, X: Any, reset: bool = False, columns: Columns | None = None) -> np.ndarray:
        """X as an array of numbers, or one line that says what is wrong with it.

        Its columns must be those seen in `fit`, unless `reset`. The columns of a data frame that
        are not all numbers are encoded, see `data.columns`.
        """
        if isinstance(X, Tensor):
            X = of_tensor(X, "X")
        if type(X) is dict:  # some sparse matrices are dicts too
            raise InputError("X is a dict: make a data frame of it, as pandas.DataFrame(X)")
        frame = as_frame(X)
        if reset:
            self.columns_, self._texts, self._cells = columns, None, None
            if columns is None and frame is not None and len(frame):
                self.columns_ = Columns.of(frame, checked(self._values()).table)
        if self.columns_ is not None:
            return self._encoded(X, frame, self.columns_, reset)
        if frame is None or _is_numeric(X):
            return self._checked(X, reset)
        return self._checked(numeric_frame(frame) if len(frame) else frame, reset)

    def on_points(self: Self) -> Self:
        """The same model for rows of a table that are encoded already."""
        if self.columns_ is None:
            return self
        model = copy.copy(self)
        model.columns_ = model.rules_ = None
        model.n_features_in_ = self.columns_.width
        model.feature_names_in_ = np.array(self.columns_.names, dtype=object)
        return model

    def feature_names(self) -> list[str] | None:
        """Those of the columns seen in `fit`, if they had any."""
        return self.feature_names_in_.tolist() if hasattr(self, "feature_names_in_") else None

    def encoded_names(self) -> list[str] | None:
        """Those of the columns that the network sees: of a category, one for each level."""
        return self.columns_.names if self.columns_ else self.feature_names()

    def encoded_kinds(self) -> list[Kind] | None:
        """Those of the columns that the network sees; None where all are numbers."""
        return self.columns_.kinds if self.columns_ else None

    def prepare(self, X: Any) -> Tensor:
        """New data in the network's units, checked."""
        check_is_fitted(self)
        array = self.validate(X)
        check_same_shape(array, self.point_shape_, "X")
        return self._tensor(array)

    def _tensor(self, array: np.ndarray) -> Tensor:
        """Checked rows in the network's units."""
        return torch.from_numpy(self.scaling_.apply(array)).to(self.box_.low.dtype)

    def _features(self, array: np.ndarray) -> np.ndarray:
        """enc(x) of rows that are checked."""
        return self.result_.features(self._tensor(array))

    def _encoded(self, X: Any, frame: Any, columns: Columns, reset: bool) -> np.ndarray:
        if reset:
            self.n_features_in_ = len(columns.all)
            self.feature_names_in_ = np.array(columns.inputs, dtype=object)
            if columns.left_out and "source" not in frame.attrs:
                warnings.warn(f"X: {columns.left_out}", LeftOut, stacklevel=4)
        elif frame is None:  # rows without names have the columns of the fit
            frame = frame_of_rows(X, columns.inputs)
        if frame is None:
            raise InputError(
                f"X has no names of columns, and not the {len(columns.all)} columns of the fit: "
                "give a data frame"
            )
        if not len(frame):
            raise InputError(f"Found array with 0 sample(s) (shape={frame.shape})")
        values = columns.values(frame)
        if reset:
            self._texts, self._cells = columns.texts(frame), values
        return as_numbers(columns.encode(values), "X")

    def _checked(self, X: Any, reset: bool) -> np.ndarray:
        """By scikit-learn's rules."""
        try:
            array = validate_data(
                self,
                X,
                reset=reset,
                dtype="numeric",
                allow_nd=True,
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 1,
            )
        except ValueError as error:
            raise InputError(" ".join(str(error).split())) from None
        return as_numbers(array, "X")

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has come to its end: one that was refused has left its traces too."""
        return hasattr(self, "result_")


def seed_of(random_state: Any) -> int:
    """An integer seed; an integer stands for itself."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _is_numeric(X: Any) -> bool:
    """Whether all columns of a frame are of NumPy's numbers."""
    kinds = [getattr(dtype, "kind", "O") for dtype in getattr(X, "dtypes", ())]
    return bool(kinds) and all(isinstance(kind, str) and kind in "biuf" for kind in kinds)
