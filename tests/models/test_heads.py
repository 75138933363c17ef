"""The head with prototypes, and models taken apart and put together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gedilearn.models.build import build_model
from gedilearn.models.energy import EnergyModel
from gedilearn.models.heads import PrototypeHead
from gedilearn.models.mlp import MLP
from gedilearn.settings import resolve
from helpers import SEEDED


def make(members: int = 3) -> PrototypeHead:
    return PrototypeHead(
        MLP((5, 6, 4), members, n_normalised=1, generator=SEEDED), n_clusters=3, generator=SEEDED
    )


def model_of(method: str, members: int) -> EnergyModel:
    network = {"hidden": (8,), "head": (6,), "temperature": 0.5}
    settings = resolve({"method": method, "n_clusters": 3, "network": network}, (60, 2))
    model = build_model(settings, (2,), members, generator=SEEDED)
    model(torch.randn(members, 20, 2))  # moments of batches, where there are norms
    return model.eval()


def cosines(head: PrototypeHead, features: torch.Tensor) -> torch.Tensor:
    return head(features)[2]


def test_it_gives_cosines_between_projections_and_prototypes() -> None:
    head, x = make().eval(), torch.randn(3, 7, 5)
    got = cosines(head, x).detach().numpy()
    projected = head.projector(x).detach().numpy()
    prototypes = head.prototypes.detach().numpy()
    for k in range(3):
        for i in range(7):
            for c in range(3):
                z, p = projected[k, i], prototypes[k, :, c]
                cosine = z @ p / np.linalg.norm(z) / np.linalg.norm(p)
                assert got[k, i, c] == pytest.approx(cosine, abs=1e-5)


def test_prototypes_start_with_length_one_and_come_back_to_it() -> None:
    head = make()
    ones = torch.ones(3, 3)
    torch.testing.assert_close(head.prototypes.norm(dim=1), ones)
    direction = head.prototypes.detach().clone()
    with torch.no_grad():
        head.prototypes.mul_(torch.tensor([0.1, 2.0, 30.0]))
    head.normalise()
    torch.testing.assert_close(head.prototypes.norm(dim=1), ones)
    torch.testing.assert_close(head.prototypes.detach(), direction)


@pytest.mark.parametrize("method", ["gedi", "swav", "barlow", "dino", "deepcluster", "ebclr"])
def test_members_that_take_states_of_single_networks_give_what_each_gives(method: str) -> None:
    models = [model_of(method, 1) for _ in range(4)]
    joined = model_of(method, 4)
    joined.load_members([model.state_of(0) for model in models])
    x = torch.randn(4, 9, 2)
    expected = [model(part) for model, part in zip(models, x.split(1), strict=True)]
    got = joined(x)
    torch.testing.assert_close(got.logits, torch.cat([out.logits for out in expected]))
    torch.testing.assert_close(got.features, torch.cat([out.features for out in expected]))
    alone = joined.select([2])
    torch.testing.assert_close(alone.eval()(x[2:3]).logits, got.logits[2:3])


def test_members_with_networks_of_their_own_take_states_too() -> None:
    network = {"encoder": "resnet8", "width": 4}
    settings = resolve({"method": "swav", "n_clusters": 3, "network": network}, (60, 3, 8, 8))
    models = [build_model(settings, (3, 8, 8), 1, generator=SEEDED).eval() for _ in range(2)]
    joined = build_model(settings, (3, 8, 8), 2, generator=SEEDED).eval()
    joined.load_members([model.state_of(0) for model in models])
    x = torch.randn(2, 5, 3, 8, 8)
    expected = torch.cat([model(x[k : k + 1]).logits for k, model in enumerate(models)])
    torch.testing.assert_close(joined(x).logits, expected)
