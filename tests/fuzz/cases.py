"""Cases: files of data, command lines, damaged runs, programs with any settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer
from hypothesis import strategies as st

from fuzz.contents import CONTENTS, POINTS, STRANGE, contents, damaged, mostly, npy_head
from fuzz.play import Case, Entry, Player
from gedilearn.cli import app
from gedilearn.registry import METHODS, VIEWS
from gedilearn.settings import known_paths

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
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 1, 8, 8), dtype=np.uint8)
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

ODD_BEGINNINGS = ["\udcff", "./-", "a b", "é", "x\n", "%s", "[red]", "~", "a=b", "{", "$HOME"]


def not_files(name: str) -> st.SearchStrategy[Entry]:
    """Things that only look like a file, and files of which the disk holds little."""
    targets = ["/dev/zero", "/dev/full", "nowhere", name, "..", "/proc/self/mem", "/dev/stdin"]
    links = [Entry(name, kind="link", target=target) for target in targets]
    others = [Entry(name, kind="pipe"), Entry(name, kind="folder"), Entry(name)]
    sparse = Entry(name, npy_head("(1000000000, 2)"), size=2**34)
    return st.sampled_from([*links, *others, sparse])


@st.composite
def files(draw: Any) -> Case:
    """Data and a command that reads it."""
    kind = draw(st.sampled_from([*CONTENTS]))
    if draw(st.integers(0, 7)) == 7:
        data, entry = kind, draw(not_files(kind))
    else:
        data = draw(mostly(st.just(""), st.sampled_from(ODD_BEGINNINGS))) + kind
        entry = Entry(data, draw(contents(kind)))
    run = template(draw(st.sampled_from(["images", "finished"])))
    more = draw(st.sampled_from([(), (), ("--size", "8"), ("--label-column", "a")]))
    clusters = draw(st.sampled_from(["2", "2", "3", "30"]))
    fit = ("fit", data, "-k", clusters, "--out", "r", *options(), *more)
    others = [
        (("predict", "t/run", data, "--proba", "--out", "o.csv"), ("o.csv",)),
        (("evaluate", "t/run", "--test", data, "--samples", "0"), ("t/run/evaluation",)),
        (("evaluate", "t/run", "--ood", data, "--samples", "0"), ("t/run/evaluation",)),
        (("resume", "t/run", "--data", data), ()),
    ]
    arguments, writes = (fit, ("r",)) if draw(st.booleans()) else draw(st.sampled_from(others))
    return Case((run, entry), arguments, writes=writes)


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
    *("o.csv", "o.npy", "o.json", "o.txt", "o", "o/p", "", "t/x.npy", "no/o.csv"),
    *("\udcff.csv", "o.parquet", "o.CSV", "a" * 300 + ".csv", "/proc/o.csv", "t/x.npy/o.csv"),
]
NAMES = ["", ",", "moons", "moons,moons", "no", "gedi", "no-gen,no", "\udcff", "digits", "a", "toy"]
SETS = ["training.max_iter=1", "a", "=", "a=1", "training.max_iter=", "n_clusters=3"]
VALUES = {
    **dict.fromkeys(("data", "--data", "--test", "--ood", "--from"), DATA),
    **dict.fromkeys(("run", "model"), RUNS),
    "--out": OUTS,
    **dict.fromkeys(("-n", "-k", "--seed", "--seeds", "--steps", "--max"), NUMBERS),
    **dict.fromkeys(("--samples", "--cluster", "--jobs"), NUMBERS),
    "--size": ["8", "8x8", "0", "x", "8x", "-1", "99999999", "٣x3"],
    "--set": SETS,
}
# Options that keep a command short, where it has them.
SHORT = {"-k": "2", "-n": "3", "--steps": "2", "--samples": "3", "--max": "2"}
SHORT |= {"--seeds": "1", "--methods": "no-gen", "--jobs": "1"}
WRITES = ("o", "o.csv", "o.npy", "o.json", "o.txt", "o.parquet", "o.CSV", "\udcff.csv", "gedi-runs")
WRITES += ("t/run/evaluation", "t/run/figures", "t/run/report.html", "cache", "no")


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
    return Case(entries, (*name, *given), writes=WRITES)


# --- settings -----------------------------------------------------------------------------------

PATHS = sorted(known_paths())
USUAL: list[Any] = [  # values that many settings may have; others are STRANGE
    *("auto", *METHODS, *VIEWS, None, True, False, 0, 1, 2, 5, 100, 100_000, 0.1, 0.5, 1e30),
    *([], [4], [3, 3], [0], [1] * 300, [10**12], [0.5, 0.5], [-1, 2], [[0, 1], [1, 0.5]]),
]
ALIASES = "".join(f", &{b} [" + ",".join([f"*{a}"] * 10) + "]" for a, b in ("ab", "bc", "cd", "de"))
BOMB = f"[&a [x,x,x,x,x,x,x,x,x,x]{ALIASES}]"


def awaits_others(path: str, value: Any) -> bool:
    """Whether a fit would wait for, or start, further processes."""
    if path != "device.devices":
        return False
    return value not in (None, 0, 1, -1, "", "a", "auto", "1")


@st.composite
def changes(draw: Any) -> dict[str, Any]:
    """A few settings with new values."""
    found: dict[str, Any] = {}
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        value = draw(st.sampled_from(USUAL) | st.sampled_from(STRANGE))
        if not awaits_others(path, value):
            found[path] = value
    return found


# --- damaged runs -------------------------------------------------------------------------------

RUN, X = "t/run", "t/x.npy"
# Text that is short for what is in it, as long as may be read, of YAML and of JSON.
DENSE = [(b"0,", 950_000), (b":1", 950_000), (b"[],", 30 * 10**6), (b"{}\n", 30 * 10**6)]
USES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("predict", RUN, X, "--proba"), ()),
    (("predict", f"{RUN}/model.safetensors", X, "--json"), ()),
    (("sample", RUN, "-n", "3", "--steps", "2", "--out", "o.csv"), ("o.csv",)),
    (("evaluate", RUN, "--samples", "4", "--steps", "1"), (f"{RUN}/evaluation",)),
    (("explain", RUN), ()),
    (("explain", RUN, "--levels"), ()),
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
import pathlib
import numpy as np, pandas as pd, scipy.sparse, torch
from gedilearn import GEDI, GEDIOutlierDetector

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


# the case
"""
SHAPES = [(24, 2), (24, 1), (2, 2), (0, 2), (24, 0), (24,), (), (24, 300), (12, 1, 8, 8)]
ODD = [
    *("images", "None", "5", "'text'", "[[]]", "[[1, 2], [3]]", "iter([1])", "sound * 1j"),
    *(f"rng.normal(size={shape})" for shape in SHAPES),
    *("sound * 1e200", "sound * 1e-200", "sound * nan", "sound + 1e9", "sound * 0", "sound > 0"),
    *("sound.astype(object)", "sound.astype('datetime64[s]')", "scipy.sparse.csr_matrix(sound)"),
    "np.lib.stride_tricks.as_strided(sound, (10**12, 2), (0, 0))",
    *("frame.assign(c='x')", "frame.assign(a=pd.NaT)", "frame[['b', 'a']]", "frame.iloc[:0]"),
    *("frame.rename(columns={'a': 'b'})", "torch.zeros(24, 2, device='meta')"),
]
OTHERS = [
    *(f"random_state={value}" for value in ("None", "-1", "2**40", "'a'")),
    *(f"run_dir={value}" for value in ("'r'", "''", "5", "'\\0'", "'full'", "'file/r'")),
    *(f"views=lambda x: {value}" for value in ("x[:1]", "None", "x * nan")),
    *(f"encoder=torch.nn.{value}" for value in ("Linear(5, 3)", "Linear(2, 0)", "Linear")),
]
SMALL = ["0", "3", "-1", "None", "2.5", "nan", "10**15", "True", "'m.safetensors'", "'file'"]
CALLS = [
    *(f"model.{name}({{x}})" for name in ("predict", "predict_proba", "transform", "fit")),
    *("model.diagnose({x})", "model.explain({x})", "model.score_samples({x}, 'gradient_norm')"),
    *("model.sample({small}, steps=2)", "model.sample(2, cluster={small})"),
    *("model.sample(2, given={{0: {small}}})", "model.sample(2, given={small})"),
    *("model.labels_at({small})", "model.impute({x})"),
    *("model.outliers({x}, {small})", "model.outlier_reasons({x}, {small})"),
    *("model.outlier_score({x})", "GEDIOutlierDetector({small}, random_state=0).fit_predict({x})"),
    "GEDIOutlierDetector(random_state=0).fit({x}).score_samples({x})",
    *("model.save({small})", "GEDI.load({small})", "GEDI.resume({small}, {x})"),
]


@st.composite
def programs(draw: Any) -> Case:
    """An estimator, fitted or not, and some calls."""
    x = mostly(st.sampled_from(["sound", "frame"]), st.sampled_from(ODD))
    settings = repr(TINY | draw(mostly(st.just({}), changes())))
    other = draw(mostly(st.just("random_state=0"), st.sampled_from(OTHERS)))
    made = f"GEDI(2, {other}, settings={settings})"
    lines = [f"model = attempt(lambda: {made}) or GEDI(max_iter=2, w_gen=0)"]
    for call in ["model.fit({x})", *draw(st.lists(st.sampled_from(CALLS), max_size=4))]:
        small = draw(st.sampled_from(SMALL))
        lines.append(f"attempt(lambda: {call.format(x=draw(x), small=small)})")
    entries = (Entry("file", b"a"), Entry("full/a", b"a"))
    return Case(entries, script=HEAD + "\n".join(lines), writes=("r", "m.safetensors"))
