"""Imports go down the list of rooms only."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gedilearn
from gedilearn.registry import Registry
from gedilearn.training import setup

ROOT = Path(gedilearn.__file__).parent
ROOMS = [
    "__main__",
    "cli",
    "paper",
    "report",
    "selection",
    "grading",
    "evaluation",
    "pretrained",
    "panels",
    "detector",
    "estimator",
    "presets",
    "explanation",
    "reasons",
    "rows",
    "training",
    "verdict",
    "starts",
    "methods",
    "density",
    "models",
    "sampling",
    "graph",
    "data",
    "ranks",
    "progress",
    "settings",
    "methods.settings",
    "fields",
    "registry",
    "io",
    "errors",
]
ALL = pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in ROOMS)


def room(module: str) -> str:
    name = module.removeprefix("gedilearn.")
    return name if name in ROOMS else name.split(".")[0]


def imported(path: Path) -> list[str]:
    modules = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules.append(node.module)
            if node.module == "gedilearn":
                modules += [f"gedilearn.{a.name}" for a in node.names if a.name != "__version__"]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return modules


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_own_room_or_those_below(path: Path) -> None:
    here = room(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for module in imported(path):
        if module.startswith("gedilearn."):
            there = room(module)
            assert ROOMS.index(there) >= ROOMS.index(here), f"{here} imports {module}"


@pytest.mark.parametrize("method", ["gedi", "swav"])
def test_registries_load_only_from_the_rooms_below_their_caller(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def noted(find: Callable[..., Any]) -> Callable[..., Any]:
        def note(*arguments: object) -> Any:
            caller, entry = sys._getframe(1).f_globals["__name__"], find(*arguments)
            loaded.append((caller, entry.__module__))
            return entry

        return note

    monkeypatch.setattr(Registry, "__getitem__", noted(Registry.__getitem__))
    monkeypatch.setattr(setup, "imported", noted(setup.imported))
    x = np.random.default_rng(0).normal(size=(40, 2))
    gedilearn.GEDI(method=method, max_iter=2, w_gen=1, random_state=0).fit(x)
    assert {"gedilearn.settings", "gedilearn.training.setup"} <= {caller for caller, _ in loaded}
    for caller, module in loaded:
        assert ROOMS.index(room(module)) >= ROOMS.index(room(caller)), f"{caller} loads {module}"


def test_every_module_has_a_room() -> None:
    unknown = {p.relative_to(ROOT).parts[0].removesuffix(".py") for p in ROOT.rglob("*.py")}
    assert unknown - set(ROOMS) == {"__init__"}


@ALL
def test_nothing_unpickles_and_nothing_imports_torchvision(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not {"pickle", "torchvision", "cloudpickle", "dill"} & {
        module.split(".")[0] for module in imported(path)
    }
    # The published weights of feature extractors come as such files, and tensors alone are read.
    text = text.replace(
        'torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)', ""
    )
    assert "torch.load(" not in text and "torch.save(" not in text
    assert "allow_pickle=True" not in text


@ALL
def test_only_the_energy_model_knows_softmax_and_logsumexp_over_clusters(path: Path) -> None:
    # These rooms sum over components, candidates and points; they have no clusters.
    if path.name == "energy.py" or path.parent.name in ("density", "sampling"):
        return
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    # These sum over the batch, over the nodes of a grid, and over both sides of an assignment.
    allowed = {"logsumexp"} if path.name in ("terms.py", "landscape.py", "swav.py") else set()
    assert not (called & {"softmax", "log_softmax", "logsumexp"}) - allowed


@ALL
def test_private_names_stay_in_their_file(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gedilearn"):
            private = [alias.name for alias in node.names if alias.name.startswith("_")]
            assert set(private) <= {"__version__"}
        elif isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            known = {"_replace", "_asdict"} | own
            assert owner in ("self", "cls") or node.attr in known, f"line {node.lineno}"


# What draws from torch's global generators unless it is given a generator.
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
IN_PLACE = {"uniform_", "normal_", "bernoulli_", "random_", "exponential_", "trunc_normal_"}
INITIAL = {f"{who}_{kind}_" for who in ("kaiming", "xavier") for kind in ("normal", "uniform")}
# What draws from them, or seeds them, in any case.
NEVER = {"rand_like", "randn_like", "randint_like", "manual_seed", "seed", "fork_rng", "Dropout"}


@ALL
def test_all_that_is_drawn_comes_from_a_generator_that_was_handed_down(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name, owner = node.func.attr, ast.unparse(node.func.value)
        of_torch = owner in ("torch", "torch.random", "nn", "F")
        assert not (of_torch and name in NEVER), f"line {node.lineno}"
        if (of_torch and name in DRAWS) or name in IN_PLACE | INITIAL:
            given = [ast.unparse(a) for a in node.args] + [str(k.arg) for k in node.keywords]
            assert "generator" in given, f"line {node.lineno}"


# What has one place, and the files that are that place.
PLACES = {
    "difflib": {"errors.py"},
    "os.replace(": {"io.py"},
    # Files of the package itself; all else goes through io.py.
    ".read_text(": {"paper/table.py", "paper/published.py", "report/page.py"},
    ".read_bytes(": {"io.py"},
    "safe_load": set(),
    "yaml.load(": {"io.py"},
    "safetensors.torch import load": {"io.py"},
    "np.load(": {"data/dataset.py"},
    '"config.yaml"': {"training/run.py"},
    '"metrics.jsonl"': {"training/run.py"},
    '"model.safetensors"': {"training/run.py"},
    '"summary.json"': {"training/run.py"},
    '"labels.csv"': {"training/run.py"},
    "normalized_mutual_info_score": {"evaluation/clustering.py"},
    "adjusted_rand_score": {"evaluation/clustering.py"},
    "linear_sum_assignment": {"starts/choose.py"},
    "torch.default_generator": {"training/environment.py"},
}


@pytest.mark.parametrize("text", PLACES)
def test_what_has_one_place_stands_there_alone(text: str) -> None:
    found = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*.py") if text in p.read_text()}
    assert found == PLACES[text]
