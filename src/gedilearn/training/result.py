"""What training gives: the best network, and how it ended."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor, nn

from gedilearn.data.views import draws_globally, make_views
from gedilearn.errors import InputError
from gedilearn.models.build import build_model, has_foreign_encoder
from gedilearn.models.energy import (
    EnergyModel,
    gradient_norms,
    log_density,
    outputs,
    posterior,
)
from gedilearn.sampling.langevin import Box, Kernel, run
from gedilearn.settings import Settings
from gedilearn.training.certificate import examine
from gedilearn.training.generators import drawing
from gedilearn.training.model_file import MODEL, Summary
from gedilearn.training.monitor import Diagnosis

Score = Literal["log_density", "gradient_norm", "confidence"]


@dataclass(frozen=True, eq=False)
class Result:
    """The best member that training found, and how it ended; points are in the network's units."""

    settings: Settings
    model: EnergyModel
    prior: Tensor  # (clusters,): what the clusters were held against
    box: Box  # around the data, where chains start
    diagnosis: Diagnosis
    verdict: str
    stopped: str  # 'certified', 'budget' or 'diverged'
    recoveries: int
    iterations: int
    seconds: float

    def labels(self, x: Tensor) -> np.ndarray:
        """The most likely cluster of each point: (n, ...) -> (n,)."""
        return outputs(self.model, x.to(self.box.low.dtype)).logits.argmax(-1).numpy()

    def probabilities(self, x: Tensor) -> np.ndarray:
        """p(y|x): (n, ...) -> (n, clusters)."""
        return posterior(outputs(self.model, x).logits).numpy()

    def features(self, x: Tensor) -> np.ndarray:
        """enc(x): (n, ...) -> (n, h)."""
        return outputs(self.model, x).features.numpy()

    def scores(self, x: Tensor, kind: Score) -> np.ndarray:
        """How typical each point is, higher for more: (n, ...) -> (n,)."""
        if kind == "gradient_norm":
            return -gradient_norms(self.model, x).numpy()
        if kind == "confidence":
            return np.asarray(self.probabilities(x).max(-1))
        if kind != "log_density":
            raise InputError(f"kind={kind!r}: expected one of {', '.join(get_args(Score))}")
        return log_density(outputs(self.model, x).logits).numpy()

    def sample(self, n: int, steps: int, seed: int) -> Tensor:
        """Ends of Langevin chains of `steps` steps from uniform points of the box: (1, n, ...)."""
        # A copy: chains change the mode of a network, which other threads may be using.
        kernel, model = Kernel.of(self.settings.sampler, self.box), copy.deepcopy(self.model)
        with drawing(seed, has_foreign_encoder(model)) as generator, model.fixed():
            position = self.box.uniform(1, n, generator=generator)
            return run(position, model.log_density, kernel, steps, generator)

    def diagnose(self, x: Tensor, views: Callable[..., Tensor] | None) -> Diagnosis:
        """Certificate and findings on data, which may be new; `views` replace the settings'."""
        settings, seed = self.settings, self.settings.training.seed
        drawn = make_views(settings.views, x, settings.n_clusters, seed, views)
        target = None if settings.prior is None else self.prior
        model = copy.deepcopy(self.model)
        with drawing(seed, has_foreign_encoder(model) or draws_globally(drawn)) as generator:
            return examine(model, x[None], [drawn], target, settings.training.tol, generator)

    def tensors(self) -> dict[str, Tensor]:
        """What a file keeps of it, beside the summary."""
        network = {f"{MODEL}{name}": t for name, t in self.model.state_dict().items()}
        return network | {"box.low": self.box.low, "box.high": self.box.high, "prior": self.prior}

    def summary(self) -> dict[str, Any]:
        """How it ended, in plain numbers and words."""
        return {
            "gap": self.diagnosis.gap,
            "certified": self.diagnosis.certified,
            "verdict": self.verdict,
            "stopped": self.stopped,
            "recoveries": self.recoveries,
            "iterations": self.iterations,
            "seconds": round(self.seconds, 3),
            "diagnosis": self.diagnosis.to_json(),
        }

    @classmethod
    def read(
        cls,
        settings: Settings,
        tensors: dict[str, Tensor],
        summary: Summary,
        encoder: nn.Module | None,
    ) -> Result:
        """From what `tensors` and `summary` gave; an encoder of the user's own is given again."""
        box = Box(tensors["box.low"], tensors["box.high"])
        shape = tuple(box.low.shape)
        model = build_model(settings, shape, 1, encoder, generator=None).to(box.low.dtype)
        own = {k.removeprefix(MODEL): t for k, t in tensors.items() if k.startswith(MODEL)}
        model.load_state_dict(own)
        names = ("diagnosis", "verdict", "stopped", "recoveries", "iterations", "seconds")
        ended = {name: getattr(summary, name) for name in names}
        return cls(settings, model.eval(), tensors["prior"], box, **ended)
