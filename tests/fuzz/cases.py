"""Cases: files of data, command lines, settings, damaged runs, programs that use the estimator."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import typer
import yaml
from hypothesis import strategies as st

from fuzz.contents import (
    CONTENTS,
    DTYPES,
    PLAIN,
    STRANGE,
    contents,
    damaged,
    idx,
    mostly,
    npy,
    npy_head,
    odd_pictures,
    pictures,
)
from fuzz.play import Case, Entry, Player
from gedilearn.cli import app
from gedilearn.estimator import NAMED
from gedilearn.registry import METHODS, VIEWS
from gedilearn.settings import known_paths, settings_type

# --- fits of a fraction of a second, and the runs that cases begin with --------------------------

TINY: dict[str, Any] = {
    "training.max_iter": 4,
    "training.check_every": 2,
    "training.checkpoint_every": 0,
    "density.iterations": 2,
    "optimizer.batch_size": 8,
    "sampler.buffer": 16,
    "sampler.steps": 2,
    "network.hidden": [4],
    "network.width": 2,
}
RNG = np.random.default_rng(0)
POINTS = np.concatenate([RNG.normal(-3, 1, (12, 2)), RNG.normal(3, 1, (12, 2))]).round(3)
IMAGES = RNG.integers(0, 256, (12, 1, 8, 8), dtype=np.uint8)
# Ends a fit as Ctrl-C in its third iteration does, at the same iteration every time.
INTERRUPTED = """
import sys
from gedilearn.cli import main
from gedilearn.training import loop
loop.all_agree = lambda setup, state, asked: state.iteration == 3
sys.argv = ["gedi", *{arguments!r}]
main()
"""
TEMPLATES: dict[str, Path] = {}  # by name, their folders


def options(changed: dict[str, Any] | None = None) -> list[str]:
    """`--set` for each of the tiny settings, with some of them changed."""
    pairs = (TINY | (changed or {})).items()
    return [part for name, value in pairs for part in ("--set", f"{name}={value}")]


def make_templates(player: Player) -> None:
    """A run that is finished, one of images, and one that was interrupted, each beside its data."""
    for name, x in (("finished", POINTS), ("images", IMAGES), ("interrupted", POINTS)):
        folder = player.empty_folder(f"template-{name}")
        np.save(folder / "x.npy", x)
        arguments = ["fit", "x.npy", "-k", "2", "--out", "run", "--quiet", *options()]
        stopped = INTERRUPTED.format(arguments=arguments) if name == "interrupted" else ""
        (end,) = player.play(folder, arguments, stopped, seconds=60)
        assert end.code == (130 if stopped else 0), end
        # The config names the place of the data: the folder of a case.
        config = folder / "run/config.yaml"
        config.write_text(config.read_text().replace(str(folder), "t"))
        TEMPLATES[name] = folder


def template(name: str) -> Entry:
    return Entry("t", kind="template", target=str(TEMPLATES[name]))


# --- files of data ------------------------------------------------------------------------------

IMAGE_FILES = ("images", "x-images-idx3-ubyte", "x-images-idx3-ubyte.gz", "x.bin", "x.mat")
ODD_BEGINNINGS = ["\udcff", "./-", "a b", "é", "x\n", "%s", "[red]", "~", "a=b", "{", "$HOME"]


def not_files(name: str) -> st.SearchStrategy[Entry]:
    """Things that only look like a file, and files of which the disk holds little."""
    targets = ["/dev/zero", "/dev/full", "nowhere", name, "..", "/proc/self/mem", "/dev/stdin"]
    sparse = [npy_head("(1000000000, 2)"), b""]
    others = [Entry(name, kind="pipe"), Entry(name, kind="folder"), Entry(name)]
    links = [Entry(name, kind="link", target=target) for target in targets]
    return st.sampled_from([*links, *others, *(Entry(name, head, size=2**34) for head in sparse)])


@st.composite
def image_folders(draw: Any) -> list[Entry]:
    """Images, flat or in folders of classes, some of them damaged or no images at all."""
    entries = [Entry("x", kind="folder")]
    flat, common = draw(st.booleans()), draw(mostly(st.just(PLAIN), pictures))
    for k in range(draw(mostly(st.just(12), st.integers(0, 12)))):
        name = f"x/{k}.png" if flat else f"x/{'ab'[k % 2]}/{k}.png"
        odd = k < 2 and draw(st.integers(0, 4)) == 4
        entries.append(Entry(name, draw(odd_pictures) if odd else common))
    if draw(st.integers(0, 3)) == 3:
        name = draw(st.sampled_from(["x/z.png", "x/a/z.png", "x/\udcff.png", "x/\udcff/z.png"]))
        entries.append(draw(not_files(name) | st.just(Entry(name, common))))
    return entries


@st.composite
def files(draw: Any) -> Case:
    """Data and a command that reads it."""
    kind = draw(st.sampled_from([*CONTENTS, "images", "images"]))
    data, entries = ("x", draw(image_folders())) if kind == "images" else (kind, [])
    if kind != "images" and draw(st.integers(0, 7)) == 7:
        entries = [draw(not_files(kind))]
    elif kind != "images":
        data = draw(mostly(st.just(""), st.sampled_from(ODD_BEGINNINGS))) + kind
        entries = [Entry(data, draw(contents(kind)))]
        if kind.endswith("idx3-ubyte") and draw(st.booleans()):
            entries.append(Entry(kind.replace("images-idx3", "labels-idx1"), idx((12,), False)))
    same = "images" if kind in IMAGE_FILES else "finished"
    run = template(draw(mostly(st.just(same), st.sampled_from(["images", "finished"]))))
    more: list[tuple[str, ...]] = [(), (), ("--inits", "2"), ("--method", "swav")]
    if kind == "images":
        more += [("--size", size) for size in ("8x8", "8", "0", "99999999", "4x")]
        more += [("--skip-broken",), ("--skip-broken", "--size", "8")]
    elif kind in ("x.csv", "x.tsv", "x.parquet"):
        more += [("--label-column", name) for name in ("a", "b", "z")]
    clusters = draw(st.sampled_from(["2", "2", "3", "30"]))
    fit = ("fit", data, "-k", clusters, "--out", "r", *options(), *draw(st.sampled_from(more)))
    small = ("--samples", "4", "--steps", "1")
    others = [
        (("predict", "t/run", data), ()),
        (("predict", "t/run", data, "--proba", "--out", "o.csv"), ("o.csv",)),
        (("explain", "t/run", data), ()),
        (("evaluate", "t/run", "--test", data, "--samples", "0"), ("t/run/evaluation",)),
        (("evaluate", "t/run", "--ood", data, *small), ("t/run/evaluation",)),
        (("resume", "t/run", "--data", data), ()),
    ]
    arguments, writes = (fit, ("r",)) if draw(st.booleans()) else draw(st.sampled_from(others))
    return Case((run, *entries), arguments, writes=writes)


# --- command lines ------------------------------------------------------------------------------

NUMBERS = [
    *("0", "1", "3", "-1", "1.5", "1e3", "nan", "", "x", "0x1", "٣", " 2", "1_0"),
    *("1000000000000", "99999999999999999999"),
]
DATA = [
    *("t/x.npy", "moons", "mnist", "mnist:", "no.npy", "", ".", "..", "-", "t", "t/run", "\udcff"),
    *("http://localhost/x.npy", "moons\n", "a" * 5000, "/dev/stdin", "~", "~nobody/x.npy"),
    *("/proc/self/maps", "t/x.npy/", "file.csv", "a=t/x.npy"),
]
RUNS = [
    *("t/run", "t/run/model.safetensors", "t", "no", "", "t/x.npy", "t/run/../run", "\udcff"),
    *("file.csv", "a" * 300, "/dev/null"),
]
OUTS = [
    *("o.csv", "o.npy", "o.json", "o.txt", "o", "o/p", "", "t", "t/x.npy", "no/o.csv", "t/run"),
    *("\udcff.csv", "o.parquet", "o.CSV", "a" * 300 + ".csv", "/proc/o.csv", "t/x.npy/o.csv"),
]
NAMES = ["", ",", "moons", "moons,moons", "no", "gedi", "no-gen,no", "\udcff", "digits", "a", "toy"]
SETS = ["training.max_iter=1", "a", "=", "a=1", "training.max_iter=", "n_clusters=3"]
VALUES = {
    **dict.fromkeys(("data", "--data", "--test", "--train", "--ood", "--from"), DATA),
    **dict.fromkeys(("run", "model"), RUNS),
    **dict.fromkeys(("--out", "--inception", "--weights"), OUTS),
    **dict.fromkeys(("-n", "-k", "--seed", "--seeds", "--inits", "--steps", "--max"), NUMBERS),
    **dict.fromkeys(("--samples", "--iterations", "--cluster", "--workers"), NUMBERS),
    "--size": ["8", "8x8", "0", "x", "8x", "-1", "99999999", "٣x3"],
    "--set": SETS,
}
# Options that keep a command short, where it has them.
SHORT = {"-k": "2", "-n": "3", "--steps": "2", "--samples": "3", "--max": "2", "--iterations": "2"}
SHORT |= {"--seeds": "1", "--methods": "no-gen", "--workers": "1"}
WRITES = ("o", "o.csv", "o.npy", "o.json", "o.txt", "o.parquet", "o.CSV", "\udcff.csv", "gedi-runs")
WRITES += ("t/run/evaluation", "t/run/figures", "t/run/report.html", "cache")


def _commands(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], list[Any]]:
    """The parameters of every command of the application, by its name."""
    if not hasattr(command, "commands"):
        return {path: [each for each in command.params if "--open" not in each.opts]}
    found = [_commands(inner, (*path, name)) for name, inner in command.commands.items()]
    return {name: parameters for each in found for name, parameters in each.items()}


COMMANDS = _commands(typer.main.get_command(app))


@st.composite
def commands(draw: Any) -> Case:
    """A command with some of its options, on a sound run and sound data."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    given, known = [], {}
    for parameter in COMMANDS[name]:
        label = parameter.opts[-1]
        values = VALUES.get(label, NAMES)
        if parameter.param_type_name == "argument":
            given.append(draw(mostly(st.just(values[0]), st.sampled_from(values))))
        else:
            known[label] = [] if parameter.is_flag else values
    for label in SHORT.keys() & known.keys():
        given += [label, SHORT[label]]
    given += options() if name == ("fit",) else []
    for _ in range(draw(st.integers(0, 2)) if known else 0):
        label = draw(st.sampled_from(list(known)))
        given += [label, draw(st.sampled_from(known[label]))] if known[label] else [label]
    run = template(draw(mostly(st.just("finished"), st.just("images"))))
    entries = (run, Entry("file.csv", b"a,b\n1,2\n3,4\n5,7\n"))
    return Case(entries, (*name, *given), writes=WRITES, adds=("t",))


# --- settings -----------------------------------------------------------------------------------

PATHS = sorted(known_paths())
HUGE = [10**12, 2**63, 10**30]
NAN, INF = math.nan, math.inf
# By a part of the annotation, the first that fits: values that a setting may have, and others.
KINDS: dict[str, tuple[list[Any], list[Any]]] = {
    "tuple[tuple[": (
        [0, 0.5, 2, [[0, 1], [1, 0.5]], [[0, 1], [0.5, 2], [1, 3]]],
        [
            *(NAN, INF, -1, 1e308, True, "1", [], [[]], [1, 2, 3], [[0, 1]], [[1, 1], [0, 1]]),
            *([[-1, 1], [2, 1]], [[0, 1, 2]], [[0, NAN], [1, 1]], [["0", "1"]], [[0, 1]] * 1000),
        ],
    ),
    "tuple[int": (
        [[], [4], [3, 3], [1]],
        [[0], [-1], [3, 0], [10**12], [1] * 300, [1.5], ["3"], [True], 3, "3", [[3]], [10**5] * 2],
    ),
    "tuple[float": (
        [None, [0.5, 0.5], [0.9, 0.99], "auto"],
        [
            *([], [1.5, 2.0], [NAN, 0.9], [0.9], [1, 1], [0, 0], [-1, 2], [0.5, 0.5, 0]),
            *([1e-320, 1], [INF, 0.9], [0.9, 1.0], 0.9, ["a", "b"], [[0.5, 0.5]], [0.1] * 10),
        ],
    ),
    "Literal": (["auto"], ["", "no", "AUTO", " cpu", "mlp", "conv", "resnet8", 0, None, True]),
    "bool": ([True, False], ["yes", 2, -1, 0.5, "", None]),
    "float": (
        [0, 0.1, 0.5, 1, 2],
        [NAN, INF, -INF, -1, 1e308, 1e-320, 1e30, "1", True, None, *HUGE],
    ),
    "int": ([1, 2, 3, 5, 8, None], [0, -1, 1.5, NAN, INF, "1", "x", True, 100, 100_000, *HUGE]),
    "str": (["auto", *METHODS, *VIEWS], ["", "no", "a" * 1000, 0, None, True, 1.5]),
}
ALIASES = "".join(f", &{b} [" + ",".join([f"*{a}"] * 10) + "]" for a, b in ("ab", "bc", "cd", "de"))
BOMB = f"[&a [x,x,x,x,x,x,x,x,x,x]{ALIASES}]"
TEXTS = [  # no values in the words of YAML, or strange ones
    *("[1", "{a: 1}", "&a [*a]", "*a", "!!python/object/apply:os.system [ls]", "!!binary AA=="),
    *(
        "2020-01-01",
        "0x10",
        "1e400",
        ".nan",
        "-.inf",
        "~",
        "a: b: c",
        "[" * 2000,
        "\t",
        "- 1",
        BOMB,
    ),
    *("!!float 1", "!!set {a}", "0o7", "1_0", "1:30", "'", "é", "=", "%s"),
]
MORE = [["--method", name] for name in METHODS]
MORE += [["--preset", name] for name in ("paper/toy", "images", "é", "")]
MORE += [["--device", name] for name in ("cpu", "cuda", "", "abacus")]
SCRIPT = """
import numpy as np
from gedilearn import GEDI

nan, inf = float("nan"), float("inf")
model = GEDI(2, random_state=0, run_dir="r", settings={settings!r})
model.fit(np.load("x.npy"))
assert np.isfinite(model.predict_proba(np.load("x.npy"))).all(), "probabilities are not finite"
"""


def values_of(path: str) -> tuple[list[Any], list[Any]]:
    """Values that a setting may have, as far as its kind tells, and others."""
    section, _, name = path.rpartition(".")
    owner: Any = settings_type()
    owner = owner.model_fields[section].annotation if section else owner
    annotation = owner.model_fields[name].annotation
    usual, odd = next(lists for text, lists in KINDS.items() if text in str(annotation))
    return [c for c in get_args(annotation) if isinstance(c, str)] + usual, odd


def awaits_others(path: str, value: Any) -> bool:
    """Whether a fit would wait for, or start, further processes."""
    if path not in ("device.devices", "device.num_nodes"):
        return False
    try:
        return 1 < float(value) < (10 if path == "device.devices" else INF)
    except (TypeError, ValueError, OverflowError):
        return isinstance(value, list)


@st.composite
def changes(draw: Any) -> dict[str, Any]:
    """A few settings with new values."""
    found: dict[str, Any] = {}
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        usual, odd = values_of(path)
        value = draw(st.one_of(*(st.sampled_from(each) for each in (usual, odd, odd, STRANGE))))
        if not awaits_others(path, value):
            found[path] = value
    return found


def in_yaml(value: Any) -> str:
    """The value as one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


@st.composite
def settings(draw: Any) -> Case:
    """A fit with changed settings: by --set, by the config of a run, or by the estimator."""
    route = draw(st.sampled_from(["set", "set", "text", "config", "estimator"]))
    data = Entry("x.npy", npy(IMAGES if draw(st.integers(0, 4)) == 4 else POINTS))
    changed = draw(changes())
    if route == "estimator":
        return Case((data,), script=SCRIPT.format(settings=TINY | changed), writes=("r",))
    if route == "config":  # of a run that has no checkpoint yet: it begins anew with these
        config = yaml.safe_load((TEMPLATES["interrupted"] / "run/config.yaml").read_text())
        for path, value in changed.items():
            section, _, name = path.rpartition(".")
            (config["settings"][section] if section else config["settings"])[name] = value
        text = yaml.safe_dump(config, sort_keys=False).encode(errors="surrogatepass")
        begun = (template("interrupted"), Entry("t/run/checkpoint", kind="gone"))
        entries = (*begun, Entry("t/run/config.yaml", text))
        return Case(entries, ("resume", "t/run"), writes=("t/run",))
    texts = {path: in_yaml(value) for path, value in changed.items()}
    if route == "text":
        texts = {draw(st.sampled_from(PATHS)): draw(st.sampled_from(TEXTS))}
    arguments = ["fit", "x.npy", "-k", texts.pop("n_clusters", "2"), "--out", "r", *options(texts)]
    arguments += draw(mostly(st.just([]), st.sampled_from(MORE)))
    clean = (a.replace("\0", "").encode(errors="replace").decode() for a in arguments)
    return Case((data,), tuple(clean), writes=("r",))


# --- damaged runs -------------------------------------------------------------------------------

RUN, X = "t/run", "t/x.npy"
# Text that is short for what is in it, as long as may be read, of YAML and of JSON.
DENSE = [(b"0,", 950_000), (b":1", 950_000), (b"[],", 30 * 10**6), (b"{}\n", 30 * 10**6)]
USES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("predict", RUN, X, "--proba"), ()),
    (("predict", f"{RUN}/model.safetensors", X, "--json"), ()),
    (("predict", RUN, X, "--out", "o.npy"), ("o.npy",)),
    (("sample", RUN, "-n", "3", "--steps", "2", "--out", "o.csv"), ("o.csv",)),
    (("evaluate", RUN, "--samples", "4", "--steps", "1"), (f"{RUN}/evaluation",)),
    (("explain", RUN), ()),
    (("explain", f"{RUN}/model.safetensors", X, "--json"), ()),
    (("report", RUN), (f"{RUN}/report.html", f"{RUN}/figures")),
]
RESUMES = [("resume", RUN), ("resume", RUN, "--json"), ("resume", RUN, "--data", X)]


@st.composite
def wrongs(draw: Any, names: list[str], root: Path) -> Entry:
    """Something wrong with one of the files of a run, or with one of their folders."""
    name, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    sort = draw(st.sampled_from(["damaged"] * 8 + ["gone", "swapped", "folder", "dense", "other"]))
    if sort == "damaged":
        return Entry(name, draw(damaged(name, (root / name[2:]).read_bytes())))
    if sort == "gone":
        return Entry(name, kind="gone")
    if sort == "swapped":
        return Entry(name, (root / other[2:]).read_bytes())
    if sort == "folder":
        kind = draw(st.sampled_from(["gone", "file", "link"]))
        return Entry(str(Path(name).parent), b"a" if kind == "file" else b"", kind, ".")
    if sort == "dense":
        piece, times = draw(st.sampled_from(DENSE))
        return Entry(name, piece, times=times)
    return draw(not_files(name) | st.just(Entry(name, f"format: 1\nsettings: {BOMB}\n".encode())))


@st.composite
def runs(draw: Any) -> Case:
    """A run with something wrong and a command that reads it."""
    name = draw(st.sampled_from(["finished", "interrupted", "interrupted", "images"]))
    root = TEMPLATES[name]
    found = (path for path in (root / "run").rglob("*") if path.is_file() and path.name != ".lock")
    names = sorted(f"t/{path.relative_to(root)}" for path in found)
    entries = draw(st.lists(wrongs(names, root), min_size=1, max_size=2))
    arguments, writes = draw(st.sampled_from(USES))
    if name == "interrupted" and draw(st.integers(0, 5)):
        arguments, writes = draw(st.sampled_from(RESUMES)), (RUN,)
    elif draw(st.integers(0, 4)) == 4:  # the last files of a fit are missing: written anew
        entries += [Entry(f"{RUN}/{each}", kind="gone") for each in ("summary.json", "labels.csv")]
        arguments, writes = RESUMES[0], (RUN,)
    return Case((template(name), *entries), arguments, writes=writes)


# --- programs -----------------------------------------------------------------------------------

HEAD = """
import copy, io, pathlib
import numpy as np, pandas as pd, scipy.sparse, torch
from sklearn.base import clone
from gedilearn import GEDI

nan, inf = float("nan"), float("inf")
rng = np.random.default_rng(0)
sound = rng.normal(size=(24, 2)) + 6 * (rng.random((24, 1)) < 0.5)
images = rng.integers(0, 256, (12, 1, 8, 8)).astype(np.uint8)
frame = pd.DataFrame(sound, columns=["a", "b"])


def attempt(call):
    "The result of a call; None where it refuses."
    before = set(pathlib.Path(".").rglob("*"))
    try:
        return call()
    except (ValueError, TypeError, OSError, MemoryError) as error:
        if isinstance(error, UnicodeError):
            raise
        assert set(pathlib.Path(".").rglob("*")) == before, "a refusal left files"


def finite(values):
    if values is not None:
        assert np.isfinite(np.asarray(values, float)).all(), "not finite"


# the case
"""
SHAPES = [
    *((24, 2), (24, 1), (1, 2), (2, 2), (0, 2), (24, 0), (24,), (), (3, 4, 5), (24, 300)),
    *((12, 1, 8, 8), (12, 3, 8, 8), (12, 2, 8, 8), (12, 1, 1, 1), (2, 1, 2, 2, 2), (12, 1, 3, 50)),
]
FILLS = [
    *("rng.normal(size={0})", "rng.normal(size={0}) * 1e200", "rng.normal(size={0}) * 1e-200"),
    *("rng.normal(size={0}) + 1e9", "rng.standard_cauchy({0}) ** 9", "rng.integers(0, 3, {0})"),
    *("np.zeros({0})", "np.full({0}, nan)", "np.full({0}, 1e300)"),
    "np.where(rng.random({0}) < 0.02, inf, rng.normal(size={0}))",
]
ODD = [
    *("None", "5", "nan", "'text'", "[]", "[[]]", "{}", "[[1, 2], [3]]", "[['a', 'b']] * 9"),
    *("object()", "iter([1])", "range(24)", "type", "lambda: 1", "io.BytesIO()", "sound.tolist()"),
    *("np.matrix(sound)", "np.ma.array(sound, mask=sound > 0)", "np.asfortranarray(sound)"),
    "np.lib.stride_tricks.as_strided(sound, (10**12, 2), (0, 0))",
    *("np.array([['1', '2']] * 24)", "sound.astype(object)", "sound.astype('datetime64[s]')"),
    *("sound.view(np.recarray)", "sound.T", "sound[::-1]", "images / 255", "images[:, 0]"),
    *("scipy.sparse.csr_matrix(sound)", "frame.assign(c='x')", "frame.assign(a=pd.NaT)"),
    *("frame.assign(a=pd.Categorical(['x', 'y'] * 12))", "frame.astype('Float64')", "frame['a']"),
    *("frame.rename(columns={'a': 'b'})", "frame.rename(columns={'a': 0})", "frame[['b', 'a']]"),
    *("frame.iloc[:0]", "torch.tensor(sound)", "torch.tensor(sound, requires_grad=True)"),
    *("torch.tensor(sound).bfloat16()", "torch.zeros(24, 2, device='meta')"),
    *("torch.zeros(24, 2, dtype=torch.complex64)", "torch.zeros(9, 2).to_sparse()"),
]
OTHERS = {
    "random_state": ["0", "None", "-1", "2**40", "1.5", "'a'", "[]", "np.random.default_rng(0)"],
    "run_dir": ["'r'", "''", "'r/s/t'", "5", "'\\0'", "'full'", "'file'", "'x' * 300", "'file/r'"],
    "verbose": ["True", "'a'", "None", "3"],
    "preset": ["'default'", "'paper/toy'", "'no'", "''", "5", "[]", "{}"],
    "views": [
        *("lambda x: x", "lambda x: x[:1]", "lambda x: None", "lambda x: x * nan", "lambda: 1"),
        *("lambda x: x.numpy()", "lambda x: x.double()", "torch.nn.Dropout(0.5)", "print"),
    ],
    "encoder": [
        *("torch.nn.Linear(2, 3)", "torch.nn.Linear(5, 3)", "torch.nn.Linear(2, 0)"),
        *("torch.nn.Linear(2, 3).double()", "torch.nn.Linear(2, 3).requires_grad_(False)"),
        *("torch.nn.Linear(2, 3, device='meta')", "torch.nn.LazyLinear(3)", "torch.nn.Linear"),
        *("torch.nn.BatchNorm1d(2)", "torch.nn.Conv2d(1, 2, 3)", "torch.nn.Sequential()", "5"),
    ],
    "settings": ["[0]", "5", "'a'", "{1: 2}", "{'a': 1}", "{None: 1}", "{'views': {}}"],
}
SMALL = ["0", "1", "3", "-1", "None", "2.5", "nan", "'a'", "10**15", "True", "[3]", "np.int64(2)"]
SCORES = ["'log_density'", "'gradient_norm'", "'confidence'", "'energy'", "'no'", "None"]
PLACES = ["'m.safetensors'", "'file'", "'full'", "'r'", "''", "'no/m'", "5", "None"]
CALLS = [
    "attempt(lambda: model.predict({x}))",
    "finite(attempt(lambda: model.predict_proba({x})))",
    "finite(attempt(lambda: model.transform({x})))",
    "attempt(lambda: model.score_samples({x}, {score}))",
    "finite(attempt(lambda: model.score_samples(sound, {score})))",
    "attempt(lambda: model.score({x}))",
    "attempt(lambda: model.diagnose({x}))",
    "attempt(lambda: model.sample({small}, steps={other}))",
    "attempt(lambda: model.sample(2, cluster={other}))",
    "attempt(lambda: model.sample(2, steps=2, random_state={small}))",
    "attempt(lambda: (model.summary(), model.get_feature_names_out()))",
    "attempt(lambda: model.save({path}))",
    "attempt(lambda: GEDI.load({path}, {some}))",
    "attempt(lambda: model.save('n'))\nattempt(lambda: GEDI.load('n').predict({x}))",
    "attempt(lambda: GEDI.resume({path}, {x}))",
    "attempt(lambda: model.set_params({some}))",
    "attempt(lambda: model.set_params(settings={small}).get_params())",
    "attempt(lambda: (repr(model), model.get_params(), hash(model)))",
    "model = attempt(lambda: clone(model)) or model",
    "model = copy.deepcopy(model)",
    "attempt(lambda: clone(model).set_output(transform='pandas').fit_transform({x}))",
    "attempt(lambda: model.fit({x}, {other}))",
]


@st.composite
def data(draw: Any) -> str:
    """An expression for X."""
    if draw(st.booleans()):
        return str(
            draw(mostly(st.sampled_from(["sound", "frame", "images"]), st.sampled_from(ODD)))
        )
    fill = draw(st.sampled_from(FILLS)).format(draw(st.sampled_from(SHAPES)))
    kind = draw(mostly(st.just(""), st.sampled_from(DTYPES[:-1])))
    return f"({fill}).astype({kind!r})" if kind else str(fill)


@st.composite
def arguments(draw: Any) -> dict[str, str]:
    """Arguments of the constructor, most of them sound, as expressions."""
    found = {"n_clusters": "2", "random_state": "0"}
    found["settings"] = repr(TINY | draw(mostly(st.just({}), changes())))
    for name in draw(st.lists(st.sampled_from([*NAMED, *OTHERS]), max_size=2)):
        if name in OTHERS:
            found[name] = draw(st.sampled_from(OTHERS[name]))
            continue
        usual, odd = values_of(NAMED[name])
        value = draw(st.sampled_from(usual) | st.sampled_from(odd) | st.sampled_from(STRANGE))
        if not awaits_others(NAMED[name], value):
            found[name] = repr(value)
    return found


@st.composite
def calls(draw: Any) -> str:
    """A use of the estimator `model`, as a line."""
    given = draw(arguments())
    return str(draw(st.sampled_from(CALLS))).format(
        x=draw(mostly(st.sampled_from(["sound", "sound[:1]", "frame"]), data())),
        small=draw(st.sampled_from(SMALL)),
        other=draw(st.sampled_from(SMALL)),
        score=draw(st.sampled_from(SCORES)),
        path=draw(st.sampled_from(PLACES)),
        some=", ".join(f"{name}={given[name]}" for name in list(given)[-2:]),
    )


@st.composite
def programs(draw: Any) -> Case:
    """An estimator, in most cases fitted, and some calls."""
    made = ", ".join(f"{name}={value}" for name, value in draw(arguments()).items())
    lines = [f"model = attempt(lambda: GEDI({made})) or GEDI(max_iter=2, w_gen=0)"]
    if draw(st.integers(0, 4)):
        lines.append(f"attempt(lambda: model.fit({draw(data())}))")
    lines += draw(st.lists(calls(), min_size=1, max_size=4))
    entries = (Entry("file", b"a"), Entry("full/a", b"a"))
    script = HEAD + "\n".join(lines) + "\n"
    return Case(entries, script=script, writes=("r", "m.safetensors", "n", "x" * 300))
