"""DINO: self-distillation without labels (Caron et al., 2021).

Symbols of that paper and where they are here:

    g_s, g_t     student and teacher                    the model, and `DINO.teacher`
    tau_s        the student's temperature              the model's temperature
    tau_t, C     the teacher's temperature and centre   `Options.teacher_temperature`, `DINO.centre`
    P_t, P_s     softmax((g_t - C) / tau_t), softmax(g_s / tau_s)
    H(P_t, P_s)  over the two ways to give each a view  the term "distillation", here their mean

The teacher is the average of past students; it is the network that is measured and kept.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor

from gedilearn.methods.method import Batch, Forward, Method, share
from gedilearn.methods.settings import Dino as Options
from gedilearn.models.energy import EnergyModel, log_posterior, posterior
from gedilearn.models.heads import PrototypeHead
from gedilearn.ranks import gather


class DINO(Method):
    """The student of one view learns what the teacher says of the other."""

    two_views = True
    remembered = ("centre",)

    def __init__(self, options: Options) -> None:
        self.options = options
        self.teacher: EnergyModel | None = None
        self.centre: Tensor | None = None  # (members, 1, clusters)

    def measured(self, model: EnergyModel) -> EnergyModel:
        if self.teacher is None:
            self.teacher = copy.deepcopy(model).requires_grad_(False)
        return self.teacher

    def terms(self, forward: Forward, model: EnergyModel, batch: Batch) -> dict[str, Tensor]:
        teacher, n = self.measured(model), len(batch.index)
        both = torch.cat([share(batch.x, model), share(batch.view, model)], dim=1)
        student = self._by_view(forward(both).logits, n)
        with torch.no_grad():
            output = self._by_view(teacher(both).logits, n) * model.temperature
            target = posterior((output - self._centred(output)) / self.options.teacher_temperature)
        crossed = -(target.flip(0) * log_posterior(student)).sum(-1)
        return {"distillation": crossed.mean((0, -1))}

    def after_step(self, model: EnergyModel, progress: float) -> None:
        assert isinstance(model.head, PrototypeHead)
        model.head.normalise()
        rise = (1 - math.cos(math.pi * progress)) / 2
        momentum = self.options.momentum + (1 - self.options.momentum) * rise
        with torch.no_grad():
            followed = self.measured(model).state_dict()
            for name, value in model.state_dict().items():
                if value.is_floating_point():
                    followed[name].lerp_(value, 1 - momentum)
                else:  # a counter of an encoder's own
                    followed[name].copy_(value)

    def _by_view(self, logits: Tensor, n: int) -> Tensor:
        """(members, 2 * batch, clusters) -> (2, members, batch of all ranks, clusters)."""
        return torch.stack([gather(half) for half in torch.split(logits, n, dim=1)])

    def _centred(self, output: Tensor) -> Tensor:
        """The centre for this batch, (members, 1, clusters); it then takes the batch in."""
        now = output.mean((0, 2))[:, None]
        # A checkpoint comes without its device.
        used = torch.zeros_like(now) if self.centre is None else self.centre.to(now)
        memory = self.options.centre_momentum
        self.centre = memory * used + (1 - memory) * now
        return used

    def state(self) -> dict[str, Any]:
        return {"teacher": self.teacher and self.teacher.state_dict()} | super().state()

    def load_state(self, state: dict[str, Any], model: EnergyModel) -> None:
        super().load_state(state, model)
        if state["teacher"] is not None:
            self.measured(model).load_state_dict(state["teacher"])
