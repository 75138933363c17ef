"""Two ranks compute what one computes, also of large data, and a fit that lost one is resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.ranks

HERE = Path(__file__).parent
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(*arguments: str | Path) -> str:
    path = os.pathsep.join([str(HERE.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four groups of points; some columns have values that repeat, which are spread by chance."""
    rng = np.random.default_rng(0)
    x = 3 * rng.normal(size=(4, 12))[rng.integers(4, size=2000)] + rng.normal(size=(2000, 12))
    x[:, 3], x[:, 7], x[:, 8] = np.round(x[:, 3]), x[:, 7] > 0, np.round(x[:, 8], 1)
    folder = tmp_path_factory.mktemp("ranks")
    np.save(folder / "x.npy", x)
    return folder


@pytest.fixture(scope="module")
def ends(folder: Path) -> dict[str, list[tuple[int, str]]]:
    """The exit codes and words of forked ranks."""
    found = json.loads(run(HERE / "ranks.py", folder))
    for name in ("alone", "straight", "resumed"):
        assert all(code == 0 for code, _ in found[name]), found[name]
    return found


@pytest.fixture(scope="module")
def trained(folder: Path, ends: object) -> Path:
    """With what one rank and two have found: all at one start, which takes longer than the rest."""
    run(*TORCHRUN, HERE / "ranks.py", folder, "two", "2")
    return folder


def test_gradients_and_terms_of_two_ranks_equal_those_of_one(trained: Path) -> None:
    expected, got = (load_file(trained / f"{name}.safetensors") for name in ("one", "two"))
    assert expected.keys() == got.keys()
    for name in expected:
        near = (1e-3, 1e-4) if "/after/" in name else (1e-4, 1e-6)  # errors of steps add up
        torch.testing.assert_close(
            *(got[name], expected[name]),
            **dict(zip(("rtol", "atol"), near, strict=True)),
            msg=lambda m, name=name: f"{name}: {m}",
        )
    assert any(name.startswith("no-gen/after/encoder.layers.weights") for name in got)
    # Something is compared: gradients that are not 0, but of biases that a norm takes away again.
    for method in ("no-gen", "swav", "barlow", "dino", "deepcluster", "ebclr"):
        first = "encoder.layers.weights.0" if method == "no-gen" else "encoder.weights.0"
        assert float(expected[f"{method}/{first}"].abs().max()) > 1e-4
    assert "swav/encoder.norms.0.mean" in got and "barlow/head.norms.0.mean" in got
    assert "dino/centre" in got and "deepcluster/labels" in got
    assert abs(float(got["ebclr/term.marginal"][0])) > 1e-4


def test_no_thread_of_the_process_group_outlives_it(trained: Path) -> None:
    """One that does aborts the process now and then."""
    left = [file.read_text() for file in trained.glob("two-*.threads")]
    assert len(left) == 2 and not any("gloo" in names for names in left)


def test_two_ranks_find_what_one_finds(trained: Path) -> None:
    one, first, second = (np.load(trained / f"{name}.npz") for name in ("one-0", "two-0", "two-1"))
    assert {"walks/node", "walks/trust", "walks/labels"} <= set(first)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    np.testing.assert_array_equal(first["walks/node"], one["walks/node"])
    # The same views on all ranks: two do what one does, but for rounding.
    near = one["fixed/probabilities"]
    np.testing.assert_allclose(first["fixed/probabilities"], near, rtol=0, atol=5e-3)
    assert np.ptp(near, axis=0).min() > 0.1


@pytest.mark.killed
def test_a_fit_that_lost_a_rank_is_resumed(folder: Path, ends: dict) -> None:
    (code, told), (killed, _) = ends["lost"]
    assert (code, killed) == (2, -9)
    assert "another process of this fit has ended" in told
    kept = {p.name for p in (folder / "straight/checkpoint").glob("step-*/*")}
    assert {"shared.safetensors", "rank-0.safetensors", "rank-1.safetensors"} <= kept
    ours, theirs = (load_file(folder / run / "model.safetensors") for run in ("run", "straight"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    ours, theirs = ((folder / run / "labels.csv").read_bytes() for run in ("run", "straight"))
    assert ours == theirs
