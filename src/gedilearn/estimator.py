"""The front door for programs: a scikit-learn estimator around `training.loop.Trainer`."""

from __future__ import annotations

import inspect
import json
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

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

from gedilearn.data.arrays import Scaling, as_numbers
from gedilearn.data.dataset import fingerprint
from gedilearn.data.views import make_views
from gedilearn.errors import InputError
from gedilearn.methods.priors import Fixed
from gedilearn.models.build import build_model
from gedilearn.models.energy import log_density, posterior
from gedilearn.models.inference import gradient_norms, outputs
from gedilearn.sampling.langevin import Box, Kernel, run
from gedilearn.settings import (
    AUTO,
    BASELINES,
    IMAGES,
    TERMS,
    Schedule,
    Settings,
    assign,
    build,
    known_paths,
)
from gedilearn.training.certificate import examine
from gedilearn.training.loop import Result, Trainer
from gedilearn.training.modelfile import load_model, save_model
from gedilearn.training.monitor import Diagnosis
from gedilearn.training.run_directory import RunDirectory, is_first_process, read_config

DEFAULT = Settings()

# Constructor argument -> setting. `views` and `encoder` also take objects, see the class.
PARAMETERS = {
    "n_clusters": "n_clusters",
    "method": "method",
    "w_gen": "weights.gen",
    "w_inv": "weights.inv",
    "symmetric_inv": "weights.symmetric",
    "w_prior": "weights.prior",
    "w_energy": "weights.energy",
    "prior": "prior",
    "temperature": "network.temperature",
    "encoder": "network.encoder",
    "width": "network.width",
    "hidden": "network.hidden",
    "features": "network.features",
    "head": "network.head",
    "activation": "network.activation",
    "scaling": "scaling",
    "views": "views.kind",
    "view_noise": "views.noise",
    "flip": "views.flip",
    "walk_noise": "views.walk_noise",
    "n_neighbors": "views.n_neighbors",
    "sgld_steps": "sampler.steps",
    "sgld_step_size": "sampler.step_size",
    "sgld_noise": "sampler.noise",
    "sgld_max_move": "sampler.max_move",
    "buffer_size": "sampler.buffer",
    "sgld_chains": "sampler.chains",
    "margin": "sampler.margin",
    "restart": "sampler.restart",
    "clamp": "sampler.clamp",
    "learning_rate": "optimizer.learning_rate",
    "schedule": "optimizer.schedule",
    "warmup": "optimizer.warmup",
    "betas": "optimizer.betas",
    "batch_size": "optimizer.batch_size",
    "grad_clip": "optimizer.grad_clip",
    "density_iter": "density.iterations",
    "density_learning_rate": "density.learning_rate",
    "density_w_inv": "density.inv",
    "density_w_prior": "density.prior",
    "max_iter": "training.max_iter",
    "n_init": "training.n_init",
    "tol": "training.tol",
    "check_every": "training.check_every",
    "checkpoint_every": "training.checkpoint_every",
    "tensorboard": "training.tensorboard",
    "on_divergence": "training.on_divergence",
    "max_recoveries": "training.max_recoveries",
    "device": "device.accelerator",
    "n_devices": "device.devices",
    "n_nodes": "device.num_nodes",
    "threads": "device.threads",
    "precision": "device.precision",
}

Auto = Literal["auto"]
Score = Literal["log_density", "gradient_norm", "confidence"]
Self = TypeVar("Self", bound="GEDI")


class GEDI(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters unlabelled data with a neural network, and says whether to trust the result.

    One ordinary network is trained with the sum of three terms: GEN (the classifier read as an
    energy-based model of the data), INV (predictions equal under views x' of x) and PRIOR (clusters
    in the proportions of a prior), after *The Triad of Failure Modes and a Possible Way Out*. The
    fitted network clusters new points, scores how likely they are, and generates more.

    Data of any scale and offset will do: it is standardised inside, and samples mapped back.

    Parameters
    ----------
    {parameters}
    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training point.
    certificate_gap_ : float
        Distance in nats to the optimum of Proposition 1, measured on the training data without
        labels. 0 is reached only by confident, invariant clusterings in the prior's proportions.
    converged_ : bool
        Whether the gap fell below `tol`: the clustering is certified.
    verdict_ : str
        The result in one sentence, failure modes named.
    diagnosis_ : Diagnosis
        The findings of the triad monitor behind the verdict.
    n_iter_ : int
        Iterations done.
    seconds_ : float
        Time taken by training.
    stopped_ : {'certified', 'budget', 'diverged'}
        Why training ended.
    n_recoveries_ : int
        How often training went back to a good state because energies diverged.
    prior_ : ndarray of shape (n_clusters,)
        The proportions that the clusters were held against, cluster by cluster.
    model_ : EnergyModel
        The trained network, a torch module.
    scaling_ : Scaling
        The map between the data's units and the network's.
    settings_ : Settings
        All settings as used.
    n_features_in_ : int
        Columns (channels of images) seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when `X` had some.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from gedilearn import GEDI
    >>> X, _ = make_moons(400, noise=0.05, random_state=0)
    >>> model = GEDI(n_clusters=2, random_state=0).fit(X)
    >>> model.predict(X[:3]).shape
    (3,)
    """

    def __init__(
        self,
        n_clusters: int = DEFAULT.n_clusters,
        *,
        method: str = DEFAULT.method,
        method_options: dict[str, Any] | None = None,
        w_gen: Schedule | Auto = AUTO,
        w_inv: Schedule | Auto = AUTO,
        symmetric_inv: bool | Auto = AUTO,
        w_prior: Schedule | Auto = AUTO,
        w_energy: Schedule = DEFAULT.weights.energy,
        prior: tuple[float, ...] | str | None = DEFAULT.prior,
        temperature: float = DEFAULT.network.temperature,
        encoder: str | nn.Module = DEFAULT.network.encoder,
        width: int | None = DEFAULT.network.width,
        hidden: tuple[int, ...] = DEFAULT.network.hidden,
        features: int | None = DEFAULT.network.features,
        head: tuple[int, ...] = DEFAULT.network.head,
        activation: str = AUTO,
        scaling: str = DEFAULT.scaling,
        views: str | Callable[[Tensor], Tensor] = DEFAULT.views.kind,
        view_noise: Schedule | Auto = AUTO,
        flip: bool = DEFAULT.views.flip,
        walk_noise: float = DEFAULT.views.walk_noise,
        n_neighbors: int = DEFAULT.views.n_neighbors,
        sgld_steps: int | Auto = AUTO,
        sgld_step_size: float | Auto = AUTO,
        sgld_noise: float | Auto = AUTO,
        sgld_max_move: float | Auto | None = AUTO,
        sgld_chains: int | Auto | None = AUTO,
        buffer_size: int | Auto = AUTO,
        margin: float | Auto = AUTO,
        restart: float = DEFAULT.sampler.restart,
        clamp: bool = DEFAULT.sampler.clamp,
        learning_rate: float | Auto = AUTO,
        schedule: str = AUTO,
        warmup: int | Auto = AUTO,
        betas: tuple[float, float] = DEFAULT.optimizer.betas,
        batch_size: int | Auto = AUTO,
        grad_clip: float | Auto | None = AUTO,
        density_iter: int | Auto = AUTO,
        density_learning_rate: float | Auto = AUTO,
        density_w_inv: Schedule | Auto = AUTO,
        density_w_prior: Schedule | Auto = AUTO,
        max_iter: int = DEFAULT.training.max_iter,
        n_init: int = DEFAULT.training.n_init,
        tol: float = DEFAULT.training.tol,
        check_every: int | Auto = AUTO,
        checkpoint_every: float = DEFAULT.training.checkpoint_every,
        tensorboard: bool = DEFAULT.training.tensorboard,
        on_divergence: str = DEFAULT.training.on_divergence,
        max_recoveries: int = DEFAULT.training.max_recoveries,
        device: str = DEFAULT.device.accelerator,
        n_devices: int | str = DEFAULT.device.devices,
        n_nodes: int = DEFAULT.device.num_nodes,
        threads: int | None = DEFAULT.device.threads,
        precision: str = DEFAULT.device.precision,
        random_state: int | np.random.RandomState | None = None,
        run_dir: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.method_options = method_options
        self.w_gen = w_gen
        self.w_inv = w_inv
        self.symmetric_inv = symmetric_inv
        self.w_prior = w_prior
        self.w_energy = w_energy
        self.prior = prior
        self.temperature = temperature
        self.encoder = encoder
        self.width = width
        self.hidden = hidden
        self.features = features
        self.head = head
        self.activation = activation
        self.scaling = scaling
        self.views = views
        self.view_noise = view_noise
        self.flip = flip
        self.walk_noise = walk_noise
        self.n_neighbors = n_neighbors
        self.sgld_steps = sgld_steps
        self.sgld_step_size = sgld_step_size
        self.sgld_noise = sgld_noise
        self.sgld_max_move = sgld_max_move
        self.sgld_chains = sgld_chains
        self.buffer_size = buffer_size
        self.margin = margin
        self.restart = restart
        self.clamp = clamp
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup = warmup
        self.betas = betas
        self.batch_size = batch_size
        self.grad_clip = grad_clip
        self.density_iter = density_iter
        self.density_learning_rate = density_learning_rate
        self.density_w_inv = density_w_inv
        self.density_w_prior = density_w_prior
        self.max_iter = max_iter
        self.n_init = n_init
        self.tol = tol
        self.check_every = check_every
        self.checkpoint_every = checkpoint_every
        self.tensorboard = tensorboard
        self.on_divergence = on_divergence
        self.max_recoveries = max_recoveries
        self.device = device
        self.n_devices = n_devices
        self.n_nodes = n_nodes
        self.threads = threads
        self.precision = precision
        self.random_state = random_state
        self.run_dir = run_dir
        self.verbose = verbose

    @classmethod
    def from_settings(cls: type[Self], settings: Settings, **others: Any) -> Self:
        """An estimator with these settings; `others` are further constructor arguments."""
        values = settings.model_dump()
        arguments = {name: _look_up(values, path) for name, path in PARAMETERS.items()}
        if settings.method in BASELINES:
            arguments["method_options"] = values[settings.method]
        return cls(**(arguments | {"random_state": settings.training.seed} | others))

    # --- fitting -----------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Cluster `X`: (n_samples, n_features), or images (n_samples, channels, height, width).

        Arrays, tensors and data frames will do; `y` is ignored. With `run_dir`, the folder must be
        new or empty and receives the run; continue an interrupted one with `GEDI.resume`.
        """
        return self._fit(X, self.run_dir, None)

    @classmethod
    def resume(cls: type[Self], run_dir: str | Path, X: Any, **others: Any) -> Self:
        """Continue an interrupted fit of the same `X`; a finished one is read back.

        An encoder, or views given as a function, must be given again in `others`.
        """
        config = read_config(run_dir)
        settings = build(config.get("settings", {}))
        for name in config.get("objects", []):
            if name not in others:
                raise InputError(f"{run_dir} was fitted with an object as {name}: give it again")
        _check_device(settings.device.accelerator)
        model = cls.from_settings(settings, run_dir=run_dir, **others)
        expected = config.get("data", {}).get("fingerprint")
        data = model._validate(X, reset=True)
        if expected != fingerprint(data):
            raise InputError(f"{run_dir} was fitted to other data than this (fingerprints differ)")
        return model._train(data, settings, RunDirectory(Path(run_dir)))

    def _fit(self: Self, X: Any, run_dir: str | Path | None, source: dict[str, Any] | None) -> Self:
        data = self._validate(X, reset=True)
        settings = self._settings(is_images(data))
        _check_enough(data, settings.n_clusters)
        _check_device(settings.device.accelerator)
        if settings.n_clusters == 1:
            warnings.warn(
                "n_clusters=1: nothing to cluster, the network only learns the density",
                stacklevel=3,
            )
        directory = None
        if run_dir is not None:
            config = {
                "settings": json.loads(settings.model_dump_json()),
                "objects": self._objects(),
                "data": (source or {"source": None})
                | {"shape": list(data.shape), "fingerprint": fingerprint(data)},
            }
            directory = RunDirectory.create(run_dir, config)
        return self._train(data, settings, directory)

    def _train(
        self: Self, data: np.ndarray, settings: Settings, directory: RunDirectory | None
    ) -> Self:
        scaling = _scaling(data, settings)
        scaled = torch.from_numpy(scaling.apply(data))
        trainer = Trainer(
            scaled,
            settings,
            encoder=self._encoder(),
            view_function=self.views if callable(self.views) else None,
            run=directory,
            verbose=self.verbose,
        )
        self._adopt(trainer.fit(), scaled, scaling, settings)
        if self.stopped_ == "diverged":
            warnings.warn(self.verdict_, RuntimeWarning, stacklevel=4)
        if directory is not None and is_first_process():
            self.save(directory.model, overwrite=True)
            directory.write_preview(data, self.labels_)
            directory.write_summary(self.summary())
        return self

    def _adopt(self, result: Result, scaled: Tensor, scaling: Scaling, settings: Settings) -> None:
        """Become the model that training gave for the data `scaled`."""
        self.settings_ = settings
        self.scaling_ = scaling
        self.model_ = result.model
        self.box_ = result.box
        verdict = result.diagnosis.verdict
        if result.trouble is not None:
            times = f"after {result.recoveries} recoveries"
            verdict += f"; training diverged {times}: {result.trouble}"
        self._judge(result.diagnosis, verdict)
        self.n_iter_ = result.iterations
        self.seconds_ = result.seconds
        self.stopped_ = result.stopped
        self.n_recoveries_ = result.recoveries
        uniform = torch.full((settings.n_clusters,), 1 / settings.n_clusters)
        self.prior_ = (uniform if result.prior is None else result.prior).double().numpy()
        self._n_features_out = result.model.n_features
        self.labels_ = self._labels(scaled.to(self.box_.low.dtype))

    # --- using a fitted model ----------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """The most likely cluster of each point: (n_samples,)."""
        return self._labels(self._prepare(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(y|x): (n_samples, n_clusters)."""
        x = self._prepare(X)
        return posterior(outputs(self.model_, x).logits).numpy()

    def transform(self, X: Any) -> np.ndarray:
        """The representation enc(x): (n_samples, h)."""
        x = self._prepare(X)
        return outputs(self.model_, x).features.numpy()

    def score_samples(self, X: Any, kind: Score = "log_density") -> np.ndarray:
        """How typical each point is, higher for more: (n_samples,).

        'log_density': log p(x) up to a constant. 'gradient_norm': -||d log p(x) / dx||, in the
        network's units, the out-of-distribution score of the paper. 'confidence': the largest
        p(y|x).
        """
        x = self._prepare(X)
        if kind not in get_args(Score):
            raise InputError(f"kind={kind!r}: expected one of {', '.join(get_args(Score))}")
        if kind == "log_density":
            return log_density(outputs(self.model_, x).logits).numpy()
        if kind == "confidence":
            return posterior(outputs(self.model_, x).logits).amax(-1).numpy()
        return -gradient_norms(self.model_, x).numpy()

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the certificate's gap on `X`: 0 at best, no labels needed; for model selection."""
        return -self.diagnose(X).gap

    def sample(
        self, n_samples: int = 1, *, steps: int = 500, random_state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """New points, in the data's units, and their clusters.

        Langevin chains of `steps` steps from uniform points of the data's bounding box.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise InputError(f"n_samples={n_samples}: at least 1 is needed")
        if steps < 0:
            raise InputError(f"steps={steps}: at least 0 are needed")
        sampler = self.settings_.sampler
        kernel = Kernel(
            sampler.step_size, sampler.noise, sampler.max_move, self.box_ if sampler.clamp else None
        )
        with torch.random.fork_rng():
            torch.manual_seed(_seed(random_state))
            position = self.box_.uniform(1, n_samples)
            with self.model_.fixed():
                position = run(position, self.model_.log_density, kernel, steps)[0]
        return self.scaling_.undo(position.numpy()), self._labels(position)

    def diagnose(self, X: Any) -> Diagnosis:
        """The triad monitor and the certificate on `X`, which may be new data."""
        x = self._prepare(X)
        settings = self.settings_
        with torch.random.fork_rng():
            torch.manual_seed(settings.training.seed)
            function = self.views if callable(self.views) else None
            views = make_views(
                settings.views, x, settings.n_clusters, settings.training.seed, function
            )
            prior = Fixed(None if settings.prior is None else torch.from_numpy(self.prior_))
            return examine(self.model_, x[None], [views], prior, settings.training.tol)

    def summary(self) -> dict[str, Any]:
        """The result in plain numbers and words."""
        check_is_fitted(self)
        return {
            "n_samples": len(self.labels_),
            "n_clusters": self.settings_.n_clusters,
            "cluster_sizes": np.bincount(
                self.labels_, minlength=self.settings_.n_clusters
            ).tolist(),
            "gap": self.certificate_gap_,
            "certified": self.converged_,
            "verdict": self.verdict_,
            "stopped": self.stopped_,
            "recoveries": self.n_recoveries_,
            "iterations": self.n_iter_,
            "seconds": round(self.seconds_, 3),
            "diagnosis": self.diagnosis_.to_json(),
        }

    # --- saving ------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to one safetensors file; no pickle."""
        check_is_fitted(self)
        path = Path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists already: choose another path, or overwrite=True")
        tensors = {f"model.{name}": t for name, t in self.model_.state_dict().items()}
        tensors |= {"box.low": self.box_.low, "box.high": self.box_.high}
        tensors["labels"] = torch.from_numpy(self.labels_)
        tensors["prior"] = torch.from_numpy(self.prior_)
        header = {
            "settings": json.loads(self.settings_.model_dump_json()),
            "objects": self._objects(),
            "scaling": self.scaling_.to_json(),
            "n_features_in": self.n_features_in_,
            "feature_names_in": getattr(self, "feature_names_in_", np.array([])).tolist(),
            "summary": self.summary(),
        }
        save_model(path, tensors, header)

    @classmethod
    def load(cls: type[Self], path: str | Path, **others: Any) -> Self:
        """Read a model that `save` wrote.

        An encoder, or views given as a function, must be given again in `others`.
        """
        tensors, header = load_model(Path(path))
        try:
            return cls._from_file(tensors, header, others)
        except (KeyError, TypeError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is not a complete model of gedi-learn ({reason})") from None

    @classmethod
    def _from_file(
        cls: type[Self], tensors: dict[str, Tensor], header: dict[str, Any], others: dict[str, Any]
    ) -> Self:
        settings = build(header["settings"])
        if "encoder" in header["objects"] and "encoder" not in others:
            raise InputError("the model has an encoder of its own: GEDI.load(path, encoder=...)")
        model = cls.from_settings(settings, **others)
        summary = header["summary"]
        model.settings_ = settings
        model.scaling_ = Scaling.from_json(header["scaling"])
        model.box_ = Box(tensors["box.low"], tensors["box.high"])
        network = build_model(settings, tuple(model.box_.low.shape), 1, model._encoder())
        network.to(model.box_.low.dtype)
        prefix = "model."
        network.load_state_dict(
            {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
        )
        model.model_ = network.eval()
        model.labels_ = tensors["labels"].numpy()
        model.prior_ = tensors["prior"].numpy()
        model._judge(Diagnosis.from_json(summary["diagnosis"]), summary["verdict"])
        model.n_iter_ = summary["iterations"]
        model.seconds_ = summary["seconds"]
        model.stopped_ = summary["stopped"]
        model.n_recoveries_ = summary["recoveries"]
        model.n_features_in_ = header["n_features_in"]
        if header["feature_names_in"]:
            model.feature_names_in_ = np.array(header["feature_names_in"], dtype=object)
        model._n_features_out = network.n_features
        return model

    # --- helpers -----------------------------------------------------------------------------

    def _settings(self, images: bool = False) -> Settings:
        """All settings; those left to 'auto' are the defaults for vectors or for images."""
        values: dict[str, Any] = {}
        for name, path in PARAMETERS.items():
            value = getattr(self, name)
            if name == "views" and callable(value):
                continue
            if name == "encoder" and not isinstance(value, str):
                continue
            if path in IMAGES and isinstance(value, str) and value == AUTO:
                continue
            assign(values, path, value)
        assign(values, "training.seed", _seed(self.random_state))
        options = self.method_options or {}
        if options and self.method not in BASELINES:
            raise InputError(
                f"method_options={options!r}: only {', '.join(BASELINES)} have options of their own"
            )
        for name, value in options.items():
            assign(values, f"{self.method}.{name}", value)
        try:
            return build(values, images)
        except InputError as error:
            raise InputError(_in_arguments(str(error))) from None

    def _objects(self) -> list[str]:
        """The arguments that no file can hold."""
        given = {"encoder": self._encoder() is not None, "views": callable(self.views)}
        return [name for name, present in given.items() if present]

    def _encoder(self) -> nn.Module | None:
        """The user's own, if there is one."""
        return None if isinstance(self.encoder, str) else self.encoder

    def _validate(self, X: Any, reset: bool) -> np.ndarray:
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
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

    def _prepare(self, X: Any) -> Tensor:
        """New data in the network's units."""
        check_is_fitted(self)
        array = self._validate(X, reset=False)
        if array.shape[1:] != tuple(self.box_.low.shape):
            raise InputError(
                f"X has points of shape {array.shape[1:]}, "
                f"but the model was fitted to {tuple(self.box_.low.shape)}"
            )
        return torch.from_numpy(self.scaling_.apply(array)).to(self.box_.low.dtype)

    def _judge(self, diagnosis: Diagnosis, verdict: str) -> None:
        self.diagnosis_ = diagnosis
        self.certificate_gap_ = diagnosis.gap
        self.converged_ = diagnosis.certified
        self.verdict_ = verdict

    def _labels(self, x: Tensor) -> np.ndarray:
        return outputs(self.model_, x).logits.argmax(-1).numpy()


def fit_together(
    data: Sequence[np.ndarray],
    settings: Settings,
    factors: dict[str, np.ndarray] | None = None,
) -> list[GEDI]:
    """One fitted estimator for each data set, all trained side by side in batched products.

    The sets have one shape. For a single set, `factors` may give several multiples of the weights
    of terms ('inv', 'prior', 'gen'), one estimator each: a sweep. A divergence of one puts all back
    and calms all.
    """
    models = [GEDI.from_settings(settings) for _ in data]
    arrays = [model._validate(x, reset=True) for model, x in zip(models, data, strict=True)]
    n_results = _count_results(arrays, factors or {}, settings.method)
    for array in arrays:
        _check_enough(array, settings.n_clusters)
    _check_device(settings.device.accelerator)
    scalings = [_scaling(array, settings) for array in arrays]
    scaled = torch.stack(
        [torch.from_numpy(s.apply(a)) for s, a in zip(scalings, arrays, strict=True)]
    )
    multiples = {name: torch.from_numpy(value).float() for name, value in (factors or {}).items()}
    trainer = Trainer(scaled, settings, n_results=n_results, factors=multiples)
    fitted = []
    for k, result in enumerate(trainer.fit_all()):
        own = k if len(data) > 1 else 0
        model = models[own] if own == k else GEDI.from_settings(settings)
        if own != k:
            model._validate(data[0], reset=True)
        model._adopt(result, scaled[own], scalings[own], settings)
        fitted.append(model)
    return fitted


def _count_results(arrays: list[np.ndarray], factors: dict[str, np.ndarray], method: str) -> int:
    """How many estimators `fit_together` gives; sets and factors that do not match are refused."""
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        given = ", ".join(map(str, sorted(shapes))) or "none"
        raise InputError(f"data sets of shapes {given}: those fitted together must have one shape")
    if factors and method in BASELINES:
        raise InputError(f"factors for method={method!r}: they multiply the terms of GEDI alone")
    unknown = sorted(set(factors) - set(TERMS))
    if unknown:
        raise InputError(f"factors of {unknown}: the terms are {', '.join(TERMS)}")
    counts = {len(arrays)} if len(arrays) > 1 or not factors else set()
    counts |= {len(value) for value in factors.values()}
    if len(counts) != 1:
        raise InputError(
            f"{len(arrays)} data sets and factors of {sorted(map(len, factors.values()))} values: "
            "give one set and factors of one length, or as many factors as sets"
        )
    return counts.pop()


def is_images(data: np.ndarray) -> bool:
    """Whether points are images (channels, height, width), not vectors."""
    return data.ndim == 4


def _scaling(data: np.ndarray, settings: Settings) -> Scaling:
    return Scaling.fit(data) if settings.scaling == "standard" else Scaling.identity(data)


def _seed(random_state: Any) -> int:
    """An integer seed; an integer stands for itself."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _check_enough(data: np.ndarray, n_clusters: int) -> None:
    """Refuse fewer points, or fewer distinct points, than clusters."""
    shape = f"X of shape {data.shape}"
    if len(data) < n_clusters:
        raise InputError(f"n_clusters={n_clusters} for {len(data)} points ({shape})")
    # Nearly always the first rows settle it.
    for rows in (data[: 10 * n_clusters], data):
        distinct = len(np.unique(rows.reshape(len(rows), -1), axis=0))
        if distinct >= n_clusters:
            return
    raise InputError(
        f"n_clusters={n_clusters}, but {shape} has only {distinct} distinct points: "
        "give more varied data or ask for fewer clusters"
    )


def _check_device(name: str) -> None:
    """Refuse a device that this machine does not have, before anything is written."""
    present: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if name in present and not present[name]():
        raise InputError(f"device {name!r} is not available on this machine: use 'cpu' or 'auto'")


def _in_arguments(message: str) -> str:
    """A message about settings in the words of the constructor: w_gen, not weights.gen."""
    for name, path in PARAMETERS.items():
        if "." in path:
            message = message.replace(f"{path}=", f"{name}=")
    return message


def _look_up(values: dict[str, Any], path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values


def _document_parameters() -> str:
    """The Parameters section of the class, from the settings' own descriptions."""
    meaning = known_paths()
    own = {
        "method_options": "Settings of a baseline's own, by name: those of `gedi settings` that "
        "begin with its name, for instance {'epsilon': 0.03} with method='swav'.",
        "random_state": "Seed of all randomness; None takes a new one.",
        "run_dir": "Folder for the run: settings, metrics, events, checkpoints, model.",
        "verbose": "Show a progress bar.",
    }
    lines = []
    for name, parameter in inspect.signature(GEDI.__init__).parameters.items():
        if name == "self":
            continue
        text = own[name] if name in own else meaning[PARAMETERS[name]]
        if name == "views":
            text += " Also any function that maps a batch of scaled points to views of it."
        if name == "encoder":
            text += (
                " Also a torch module that maps a batch to vectors, in the place of any encoder: "
                "the first initialisation starts from its weights, further ones from fresh ones. "
                "It is copied, never changed, and not saved: give it again to `load`."
            )
        path = PARAMETERS.get(name, "")
        if path in IMAGES:
            own_default = _look_up(DEFAULT.model_dump(), path)
            text += f" 'auto': {own_default!r}, for images {IMAGES[path]!r}."
        lines.append(f"    {name} : default {parameter.default!r}")
        lines += textwrap.wrap(text, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines) + "\n"


if GEDI.__doc__:  # absent under python -OO
    GEDI.__doc__ = GEDI.__doc__.replace("    {parameters}\n", _document_parameters())
