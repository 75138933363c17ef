from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gedilearn.errors import InputError
from gedilearn.training import run as checkpoint


def tree() -> dict:
    return {
        "model": {"weight": torch.randn(3, 2), "count": torch.tensor(4)},
        "optimizer": {"state": {0: {"step": torch.tensor(7.0)}}, "groups": [{"lr": 1e-3}]},
        "best": None,
        "gap": 0.125,
        "rng": torch.get_rng_state(),
    }


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_a_tree_comes_back_exactly_with_integer_keys_and_dtypes(tmp_path: Path) -> None:
    written = tree()
    checkpoint.save_tree(tmp_path, "shared", written)
    assert same(checkpoint.load_tree(tmp_path, "shared"), written)


def test_an_adam_optimiser_goes_on_exactly(tmp_path: Path) -> None:
    def make() -> tuple[torch.nn.Linear, torch.optim.Adam]:
        torch.manual_seed(1)
        net = torch.nn.Linear(3, 1)
        return net, torch.optim.Adam(net.parameters(), lr=0.1)

    def step(net: torch.nn.Linear, adam: torch.optim.Adam, k: int) -> None:
        adam.zero_grad()
        net(torch.full((2, 3), float(k))).square().sum().backward()
        adam.step()

    net, adam = make()
    for k in range(3):
        step(net, adam, k)
    checkpoint.save_tree(tmp_path, "x", {"net": net.state_dict(), "adam": adam.state_dict()})
    other, other_adam = make()
    loaded = checkpoint.load_tree(tmp_path, "x")
    other.load_state_dict(loaded["net"])
    other_adam.load_state_dict(loaded["adam"])
    for k in range(3, 6):
        step(net, adam, k)
        step(other, other_adam, k)
    assert torch.equal(net.weight, other.weight)


def test_the_newest_published_checkpoint_is_found_and_older_ones_go(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path) is None
    for step in (10, 20):
        folder = checkpoint.step_folder(tmp_path, step)
        folder.mkdir()
        checkpoint.save_tree(folder, "shared", {"step": step})
        checkpoint.publish(tmp_path, step)
    assert checkpoint.load_tree(checkpoint.latest(tmp_path), "shared") == {"step": 20}
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-000000020"]


def test_an_unpublished_checkpoint_is_ignored(tmp_path: Path) -> None:
    for step in (10, 20):
        folder = checkpoint.step_folder(tmp_path, step)
        folder.mkdir()
        checkpoint.save_tree(folder, "shared", {"step": step})
        if step == 10:
            checkpoint.publish(tmp_path, step)
    assert checkpoint.load_tree(checkpoint.latest(tmp_path), "shared") == {"step": 10}


def test_a_cut_file_is_one_clear_line(tmp_path: Path) -> None:
    checkpoint.save_tree(tmp_path, "shared", tree())
    path = tmp_path / "shared.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="is damaged"):
        checkpoint.load_tree(tmp_path, "shared")


def test_another_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "latest.json").write_text(json.dumps({"format": 99, "folder": "step-1"}))
    with pytest.raises(InputError, match="format 99"):
        checkpoint.latest(tmp_path)


def test_the_chains_of_the_kept_member_come_from_the_newest_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.kept_chains(tmp_path) is None
    chains = torch.randn(3, 5, 2)
    for step, buffer in enumerate(({}, {"buffer": chains[:1]}, {"buffer": chains})):
        folder = checkpoint.step_folder(tmp_path, step)
        folder.mkdir()
        checkpoint.save_tree(folder, checkpoint.OWN.format(0), buffer)
        checkpoint.save_tree(folder, checkpoint.SHARED, {"kept": [{"member": 2}]})
        checkpoint.publish(tmp_path, step)
        found = checkpoint.kept_chains(tmp_path)
        assert same(found, (None, chains[0], chains[2])[step])
