"""The head with prototypes, and the states of members."""

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


def test_logits_are_cosines_between_projections_and_prototypes() -> None:
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


def test_prototypes_have_length_one_at_the_start_and_after_normalise() -> None:
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
def test_a_single_network_with_the_state_of_a_member_has_its_outputs(method: str) -> None:
    joined, alone, x = model_of(method, 4), model_of(method, 1), torch.randn(4, 9, 2)
    got = joined(x)
    for k in range(4):
        alone.load_state_dict(joined.state_of(k))
        out = alone(x[k : k + 1])
        torch.testing.assert_close(got.logits[k], out.logits[0])
        torch.testing.assert_close(got.features[k], out.features[0])


def test_separate_networks_of_members_have_a_state_too() -> None:
    network = {"encoder": "resnet8", "width": 4}
    settings = resolve({"method": "swav", "n_clusters": 3, "network": network}, (60, 3, 8, 8))
    joined, alone = (
        build_model(settings, (3, 8, 8), members, generator=SEEDED).eval() for members in (2, 1)
    )
    x = torch.randn(2, 5, 3, 8, 8)
    for k in range(2):
        alone.load_state_dict(joined.state_of(k))
        torch.testing.assert_close(joined(x).logits[k], alone(x[k : k + 1]).logits[0])
