"""Fixed fits and their results, to see that a change of the code changes no result.

    python benchmarks/fixed_fits.py record before.json     # on the old code
    python benchmarks/fixed_fits.py compare before.json    # on the new code

Labels, bound gap, densities and samples of each fit are stored as hashes of their bytes, with a few
values in the clear. `compare` prints a line a fit and exits with 1 if any bit differs.

`numbers_like` are a few numbers of a brief fit with the settings that a row of docs/results has.
docs/make_results.py stores them with the rows, and recognises outdated rows by them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons

import density
import shapes
from gedilearn.estimator import GEDI
from gedilearn.paper import images, sensitivity, toy
from gedilearn.paper.runner import Options, changed
from gedilearn.paper.table import Row
from gedilearn.presets import preset
from gedilearn.settings import assign, nested, resolve

SHORT = {"training.max_iter": 300, "density.iterations": 40}
SMALL_IMAGES = {
    "training.max_iter": 40,
    "density.iterations": 8,
    "training.check_every": 20,
    "sampler.steps": 3,
    "sampler.buffer": 128,
    "sampler.chains": 16,
    "optimizer.batch_size": 64,
    "device.threads": 1,
}

MOONS = make_moons(300, noise=0.05, random_state=0)[0]
CIRCLES = make_circles(300, noise=0.03, factor=0.5, random_state=0)[0]
BLOBS = make_blobs([150, 70, 40], centers=[[0, 0, 0], [6, 0, 0], [0, 6, 0]], random_state=0)[0]
DIGITS = load_digits().images[:300, None].astype(np.float32)
COLOURS = np.random.default_rng(0).integers(0, 256, (120, 3, 16, 16)).astype(np.uint8)


def settings(values: dict[str, Any], x: np.ndarray, base: dict[str, Any] | None = None) -> Any:
    nested: dict[str, Any] = dict(base or {})
    for path, value in ({"training.seed": 0} | values).items():
        assign(nested, path, value)
    return resolve(nested, x.shape)


def fitted(
    x: np.ndarray, values: dict[str, Any], preset_name: str = "default", **others: Any
) -> GEDI:
    return GEDI.from_settings(settings(values, x, preset(preset_name)), **others).fit(x)


def interrupted_views(calls: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Views by noise that stop the training at a call."""
    left = [calls]

    def views(x: torch.Tensor) -> torch.Tensor:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return x + 0.05 * torch.randn_like(x)

    return views


def resumed() -> GEDI:
    """A run stopped while clusters are sought, then continued from its last checkpoint."""
    values = SHORT | {"n_clusters": 2, "training.max_iter": 120, "training.n_init": 2}
    values |= {"training.checkpoint_every": 0, "training.check_every": 10, "training.tol": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        try:
            fitted(MOONS, values, views=interrupted_views(60), run_dir=run)
        except KeyboardInterrupt:
            return GEDI.resume(run, MOONS, views=interrupted_views(-1))
    raise AssertionError("the fit was not interrupted")


def two_ranks() -> GEDI:
    """A fit by two processes, from the command line."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/points.npy", MOONS)
        changes = SHORT | {
            "training.max_iter": 60,
            "device.devices": 2,
            "device.accelerator": "cpu",
        }
        options = [text for name, value in changes.items() for text in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "gedilearn", "fit", f"{folder}/points.npy", "-k", "2"]
        command += ["--seed", "0", "--out", f"{folder}/run", "--quiet", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        return GEDI.load(f"{folder}/run/model.safetensors")


def baseline(method: str, **more: Any) -> Callable[[], GEDI]:
    return lambda: fitted(MOONS, SHORT | {"method": method, "network.head": (8,)} | more)


FITS: dict[str, Callable[[], GEDI]] = {
    "moons": lambda: fitted(MOONS, {}),
    "circles, 3 initialisations": lambda: fitted(CIRCLES, SHORT | {"training.n_init": 3}),
    "blobs, prior estimated": lambda: fitted(BLOBS, SHORT | {"n_clusters": 3, "prior": "auto"}),
    "blobs, prior given": lambda: fitted(
        BLOBS, SHORT | {"n_clusters": 3, "prior": (0.2, 0.2, 0.6)}
    ),
    "density alone": lambda: fitted(BLOBS, SHORT | {"n_clusters": 1}),
    "paper/toy-literal": lambda: fitted(MOONS, {"training.max_iter": 300}, "paper/toy-literal"),
    "recovery": lambda: fitted(
        MOONS,
        SHORT | {"density.iterations": 0, "sampler.step_size": 40.0, "sampler.clamp": False},
    ),
    **{name: baseline(name) for name in ("no-gen", "no-inv", "no-unif", "jem")},
    "swav": baseline("swav"),
    "barlow": baseline("barlow", **{"barlow.assign": "kmeans"}),
    "dino": baseline("dino"),
    "deepcluster": baseline("deepcluster"),
    "ebclr": baseline("ebclr"),
    "digits": lambda: fitted(DIGITS, SMALL_IMAGES | {"n_clusters": 10}),
    "resnet8, colours": lambda: fitted(
        COLOURS,
        SMALL_IMAGES | {"n_clusters": 3, "network.encoder": "resnet8", "network.width": 8},
    ),
    "resumed": resumed,
    "two ranks": two_ranks,
}
USED_ON = {"blobs, prior estimated": BLOBS, "blobs, prior given": BLOBS, "density alone": BLOBS}
USED_ON |= {"digits": DIGITS, "resnet8, colours": COLOURS, "circles, 3 initialisations": CIRCLES}


def digest(array: np.ndarray) -> str:
    content = f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def described(model: GEDI, x: np.ndarray) -> dict[str, Any]:
    density = model.score_samples(x)
    samples = model.sample(5, steps=5, random_state=0)[0]
    return {
        "labels": digest(model.labels_),
        "gap": model.bound_gap_.hex(),
        "density": digest(density),
        "samples": digest(samples),
        "diagnosis": digest(np.array([f.value for f in model.diagnose(x).findings])),
        "iterations": model.n_iter_,
        "recoveries": model.n_recoveries_,
        "stopped": model.stopped_,
        "first density": float(density[0]),
    }


def run_all() -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, fit in FITS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit()
        results[name] = [described(model, USED_ON.get(name, MOONS))]
        print(f"{name}: bound gap {model.bound_gap_:.4f}, {model.stopped_}", flush=True)
    return results


# --- fits that stand for rows -------------------------------------------------------------------

BRIEF = {"training.max_iter": 15, "density.iterations": 15, "training.check_every": 10}
BRIEF_IMAGES = SMALL_IMAGES | {"training.max_iter": 4, "density.iterations": 3}
GRID = (0.0, 50.0)  # of a sensitivity's weights


def settings_like(place: str, row: Row) -> list[Options]:
    """The nested settings of a row in rows/`place`; none for methods that are not ours."""
    method = row["method"]
    if place.startswith("images/"):
        return [images.values_of(row["data"], method, row)]
    if place.endswith("sensitivity"):
        return [sensitivity.values_at(weight, weight, row) for weight in GRID]
    if place.startswith("toy/"):
        return [toy.values_of(method, row)]
    if place == "density" and method in (density.GEDI_, density.BASE):
        return [nested({"sampler.kind": "none"} if method == density.BASE else {})]
    if place == "shapes" and method in (shapes.OURS, shapes.GIVEN, *shapes.CONTROLS):
        prior = {"prior": (0.4, 0.6)} if method == shapes.GIVEN else {}
        return [nested(prior | shapes.NO_DENSITY | shapes.CONTROLS.get(method, {}))]
    return []


def numbers_like(place: str, rows: list[Row]) -> dict[str, list[list[float]]]:
    """Numbers of a brief fit for each kind of fit among the rows."""
    found: dict[str, list[list[float]]] = {}
    for row in rows:
        grid = place.endswith("sensitivity")
        name = ", ".join(["grid" if grid else row["method"], *changed(row)])
        made: dict[str, list[list[float]]] = {}
        for values in [] if name in found else settings_like(place, row):
            x = COLOURS if row["data"] == "cifar10" else DIGITS if "scale" in row else MOONS
            resolved = settings(BRIEF if x.ndim == 2 else BRIEF_IMAGES, x, values)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = GEDI.from_settings(resolved).fit(x)
            made.setdefault(name, []).append(numbers(model, x))
        found |= made
    return found


def numbers(model: GEDI, x: np.ndarray) -> list[float]:
    """Numbers that do not depend on the order of the clusters."""
    means = [
        model.bound_gap_,
        model.predict_proba(x).max(1).mean(),
        model.score_samples(x).mean(),
        np.abs(model.sample(20, steps=5, random_state=0)[0]).mean(),
        model.summary()["trust"] or 0.0,
    ]
    return [float(f"{mean:.4g}") for mean in means]


def main() -> None:
    task, file = sys.argv[1], Path(sys.argv[2])
    results = run_all()
    if task == "record":
        file.write_text(json.dumps(results, indent=1) + "\n")
        return
    before, different = json.loads(file.read_text()), 0
    for name, now in results.items():
        changed = [
            key
            for old, new in zip(before[name], now, strict=True)
            for key in new
            if old[key] != new[key]
        ]
        different += bool(changed)
        print(
            f"{name}: {'differs in ' + ', '.join(changed) if changed else 'the same, bit for bit'}"
        )
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
