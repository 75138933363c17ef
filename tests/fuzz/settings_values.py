"""Settings: every known one, with values that it may have and many that it may not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, get_args

import yaml
from hypothesis import strategies as st

from fuzz import tiny
from fuzz.contents import npy
from fuzz.damage import STRANGE, mostly
from fuzz.entries import Damaged, File, Replaced, Template
from fuzz.player import Case
from gedilearn.registry import METHODS, VIEWS
from gedilearn.settings import known_paths, settings_type

PATHS = sorted(known_paths())
HUGE = [10**12, 2**63, 10**30]
# By what the annotation of a setting contains, the first that fits: values that it may have, and
# values of its kind that it may not have, or that a careless reader would not think of.
KINDS: dict[str, tuple[list[Any], list[Any]]] = {
    "tuple[tuple[": (
        [0, 0.5, 2, [[0, 1], [1, 0.5]], [[0, 1], [0.5, 2], [1, 3]]],
        [
            *(math.nan, math.inf, -1, 1e308, -1e308, True, "1", [], [[]], [1, 2, 3], [1, 2]),
            *([[0, 1]], [[1, 1], [0, 1]], [[0, 1], [0, 2]], [[-1, 1], [2, 1]], [[0, 1, 2]]),
            *([[0, math.nan], [1, 1]], [[0, 1e308]], [[0.5, 1], [0.6, math.inf]], [["0", "1"]]),
            [[0, 1]] * 1000,
        ],
    ),
    "tuple[int": (
        [[], [4], [3, 3], [1]],
        [
            [0],
            [-1],
            [3, 0],
            [10**12],
            [2**63],
            [1] * 300,
            [1.5],
            ["3"],
            [True],
            3,
            "3",
            [[3]],
            [10**5, 10**5],
        ],
    ),
    "tuple[float": (
        [None, [0.5, 0.5], [0.9, 0.99], "auto"],
        [
            *(
                [],
                [1.5, 2.0],
                [math.nan, 0.9],
                [0.9],
                [1, 1],
                [0, 0],
                [-1, 2],
                [0.5, 0.5, 0],
                [1, 0],
            ),
            *([1e-320, 1], [math.inf, 0.9], [0.9, 1.0], 0.9, ["a", "b"], [[0.5, 0.5]], [0.1] * 10),
        ],
    ),
    "Literal": (["auto"], ["", "no", "AUTO", " cpu", "mlp", "conv", "resnet8", 0, None, True]),
    "bool": ([True, False], ["yes", 2, -1, 0.5, "", None]),
    "float": (
        [0, 0.1, 0.5, 1, 2],
        [math.nan, math.inf, -math.inf, -1, 0, 1e308, 1e-320, 1e30, "1", True, None, *HUGE],
    ),
    "int": (
        [1, 2, 3, 5, 8, None],
        [0, -1, 1.5, math.nan, math.inf, "1", "x", True, 100, 100_000, *HUGE],
    ),
    "str": (["auto", *METHODS, *VIEWS], ["", "no", "a" * 1000, 0, None, True, 1.5]),
}
# Text that is no value in the words of YAML, or a strange one.
TEXTS = [
    *("[1", "{a: 1}", "&a [*a]", "*a", "!!python/object/apply:os.system [ls]", "!!binary AA=="),
    *(
        "2020-01-01",
        "0x10",
        "1e3",
        "1e400",
        ".nan",
        "-.inf",
        "~",
        "a: b: c",
        "[" * 2000,
        "\t",
        "- 1",
    ),
    *("&a [1,1,1]", "!!float 1", "!!set {a}", "0o7", "1_0", "1:30", "'", "é", "=", "%s"),
]
BOMB = (
    "[&a [x,x,x,x,x,x,x,x,x,x]"
    + "".join(
        f", &{b} [" + ",".join([f"*{a}"] * 10) + "]"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]"
)


def values(path: str) -> tuple[list[Any], list[Any]]:
    """Values that a setting may have, as far as its kind tells, and others."""
    section, _, name = path.rpartition(".")
    owner: Any = settings_type()
    if section:
        owner = owner.model_fields[section].annotation
    annotation = owner.model_fields[name].annotation
    usual, odd = next(lists for text, lists in KINDS.items() if text in str(annotation))
    return [c for c in get_args(annotation) if isinstance(c, str)] + usual, odd


def awaits_others(path: str, value: Any) -> bool:
    """Whether a fit would wait for, or start, further processes: a kind of its own plays them."""
    if path not in ("device.devices", "device.num_nodes"):
        return False
    try:
        return 1 < float(value) < (10 if path == "device.devices" else math.inf)
    except (TypeError, ValueError, OverflowError):
        return isinstance(value, list)


@st.composite
def changes(draw: Any) -> dict[str, Any]:
    """A few settings with new values."""
    found: dict[str, Any] = {}
    for _ in range(draw(mostly(st.just(1), st.integers(2, 4)))):
        path = draw(st.sampled_from(PATHS))
        usual, odd = values(path)
        value = draw(st.one_of(*(st.sampled_from(each) for each in (usual, odd, odd, STRANGE))))
        if not awaits_others(path, value):
            found[path] = value
    return found


def in_yaml(value: Any) -> str:
    """The value as one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


@st.composite
def cases(draw: Any) -> Case:
    """A fit with changed settings: by --set, by the config of a run, or by the estimator."""
    route = draw(st.sampled_from(["set", "set", "text", "config", "estimator"]))
    images = draw(st.integers(0, 4)) == 4
    data = File("x.npy", npy(tiny.IMAGES if images else tiny.POINTS))
    changed = draw(changes())
    if route == "text":
        path = draw(st.sampled_from(PATHS))
        changed = {path: draw(st.sampled_from([*TEXTS, BOMB]))}
    if route in ("set", "text"):
        clusters = changed.pop("n_clusters", 2)
        texts = changed if route == "text" else {k: in_yaml(v) for k, v in changed.items()}
        arguments = ["fit", "x.npy", "-k", str(clusters), "--out", "r", *tiny.options(texts)]
        arguments += draw(mostly(st.just([]), st.sampled_from(MORE)))
        return Case((data,), tuple(_clean(a) for a in arguments), writes=("r",))
    if route == "config":  # of a run that has no checkpoint yet: it begins anew with these
        begun = (Template("t", "interrupted"), Replaced("t/run/checkpoint"))
        edited = Damaged("t/run/config.yaml", WithSettings(changed))
        arguments = ("resume", "t/run")
        return Case((*begun, edited), arguments, writes=("t/run",))
    script = SCRIPT.format(settings=tiny.SETTINGS | changed)
    return Case((data,), script=script, writes=("r",))


MORE = [["--method", name] for name in METHODS]
MORE += [["--preset", name] for name in ("paper/toy", "paper/toy-literal", "images", "é", "")]
MORE += [["--inits", n] for n in ("0", "2", "-1", "99999999999999999999")]
MORE += [["--seed", n] for n in ("-1", "0", "4294967296", "1e3")]
MORE += [["--device", n] for n in ("cpu", "cuda", "", "abacus")]
SCRIPT = """
import numpy as np
from gedilearn import GEDI

nan, inf = float("nan"), float("inf")
model = GEDI(2, random_state=0, run_dir="r", settings={settings!r})
model.fit(np.load("x.npy"))
assert np.isfinite(model.predict_proba(np.load("x.npy"))).all(), "probabilities are not finite"
"""


def _clean(argument: str) -> str:
    """What the system can pass to a process."""
    return argument.replace("\0", "").encode(errors="replace").decode()


@dataclass(frozen=True)
class WithSettings:
    """A config with some settings changed."""

    changed: dict[str, Any]

    def apply(self, content: bytes) -> bytes:
        config = yaml.safe_load(content)
        for path, value in self.changed.items():
            section, _, name = path.rpartition(".")
            owner = config["settings"]
            (owner[section] if section else owner)[name] = value
        return yaml.safe_dump(config, sort_keys=False).encode()
