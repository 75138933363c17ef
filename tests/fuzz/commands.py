"""Commands on a sound run and sound data, with options that make little sense."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fuzz import tiny
from fuzz.damage import mostly
from fuzz.entries import File, Template
from fuzz.player import Case

NUMBERS = [
    *("0", "1", "3", "-1", "1.5", "1e3", "nan", "", "x", "0x1", "٣", " 2", "1_0"),
    *("1000000000000", "99999999999999999999"),
]
DATA = [
    *("t/x.npy", "moons", "circles", "mnist", "mnist:test", "mnist:", "no.npy", "", ".", "..", "-"),
    *("t", "t/run", "\udcff", "http://localhost/x.npy", "moons\n", "a" * 5000, "/dev/stdin", "~"),
    *("~nobody/x.npy", "/proc/self/maps", "t/x.npy/", "file.csv", "a=t/x.npy"),
]
RUNS = [
    *("t/run", "t/run/model.safetensors", "t", "no", "", "t/x.npy", "t/run/", "t/run/../run"),
    *("\udcff", "file.csv", "a" * 300, "/dev/null"),
]
FILES = [
    *("o.csv", "o.npy", "o.json", "o.txt", "o", "", "t/x.npy", "no/o.csv", "t", "\udcff.csv"),
    *(
        "o.parquet",
        "o.CSV",
        "a" * 300 + ".csv",
        "/proc/o.csv",
        "./-.csv",
        "t/x.npy/o.csv",
        "file.csv",
    ),
]
FOLDERS = ["o", "o/p", "t", "t/run", "t/x.npy", "t/x.npy/o", "\udcff", "a" * 300, "/proc/o"]
SIZES = ["8", "8x8", "0", "x", "8x", "-1", "99999999", "4096x4096", "٣x3"]
NAMES = ["", ",", "moons", "moons,moons", "no", "gedi", "no-gen,no", "\udcff", "digits"]
SETS = ["training.max_iter=1", "a", "=", "a=1", "training.max_iter=", "n_clusters=3"]
YES = [None]  # an option without a value

# Each command: what it is given, the options that keep it short, and those that are drawn.
COMMANDS: dict[str, tuple[list[list[str]], list[str], dict[str, list[Any]]]] = {
    "fit": (
        [DATA],
        ["-k", "2", *tiny.options()],
        {"--out": FOLDERS, "--seed": NUMBERS, "--inits": NUMBERS, "-k": NUMBERS, "--set": SETS}
        | {"--label-column": NAMES, "--size": SIZES, "--skip-broken": YES, "--json": YES}
        | {"--drop": NAMES, "--columns": NAMES, "--id-column": NAMES, "--impute": ["mean", "no"]}
        | {"--categorical": NAMES, "--numeric": NAMES, "--keep-columns": YES},
    ),
    "predict": (
        [RUNS, DATA],
        [],
        {"--out": FILES, "--proba": YES, "--json": YES, "--keep-columns": YES}
        | {"--score": ["confidence", "no", ""], "--quiet": YES},
    ),
    "sample": (
        [RUNS],
        ["-n", "3", "--steps", "2"],
        {"-n": NUMBERS, "--steps": NUMBERS, "--seed": NUMBERS, "--out": FILES, "--json": YES},
    ),
    "explain": ([RUNS], [], {"--json": YES, "--skip-broken": YES, "--quiet": YES}),
    "evaluate": (
        [RUNS],
        ["--samples", "3", "--steps", "2"],
        {"--test": DATA, "--train": DATA, "--ood": DATA, "--samples": NUMBERS, "--steps": NUMBERS}
        | {
            "--out": FOLDERS,
            "--probe": ["paper", "none", "no"],
            "--inception": FILES,
            "--json": YES,
        },
    ),
    "report": ([RUNS], [], {"--quiet": YES}),
    "resume": ([RUNS], [], {"--data": DATA, "--json": YES, "--quiet": YES}),
    "choose": ([DATA], ["--max", "2"], {"--max": NUMBERS, "--out": FOLDERS, "--seed": NUMBERS}),
    "data get": ([NAMES], [], {"--from": DATA, "--json": YES}),
    "data list": ([], [], {"--json": YES}),
    "data features": ([DATA], ["--out", "o.npy"], {"--out": FILES, "--size": SIZES}),
    "settings": ([NAMES], [], {"--presets": YES, "--no": YES}),
    "demo": ([], [], {"--out": FOLDERS}),
    "reproduce toy": (
        [],
        ["--iterations", "2", "--seeds", "1", "--data", "moons", "--methods", "no-gen"],
        {"--seeds": NUMBERS, "--data": NAMES, "--methods": NAMES, "--workers": NUMBERS}
        | {"--iterations": NUMBERS, "--out": FOLDERS, "--preset": NAMES},
    ),
    "reproduce labels": (
        [],
        ["--iterations", "2", "--data", "moons", "--methods", "no-gen"],
        {"--seed": NUMBERS, "--data": NAMES, "--methods": NAMES, "--out": FOLDERS},
    ),
    "reproduce images": (
        [],
        ["--data", "mnist", "--iterations", "1", "--samples", "0", "--methods", "no-gen"],
        {"--data": NAMES, "--methods": NAMES, "--samples": NUMBERS, "--ood": DATA, "--set": SETS}
        | {"--out": FOLDERS, "--weights": FILES, "--seeds": NUMBERS},
    ),
}
# Where they may write; what was there before is never among it.
WRITES = ("o", "o.csv", "o.npy", "o.json", "o.parquet", "o.CSV", "-.csv", "\udcff.csv")
WRITES += ("\udcff", "gedi-runs")


@st.composite
def cases(draw: Any) -> Case:
    """A command with some of its options."""
    name = draw(st.sampled_from(list(COMMANDS)))
    given, short, known = COMMANDS[name]
    arguments = [draw(mostly(st.just(values[0]), st.sampled_from(values))) for values in given]
    options = list(short)
    for _ in range(draw(st.integers(0, 2)) if known else 0):
        option = draw(st.sampled_from(list(known)))
        value = draw(st.sampled_from(known[option]))
        options += [option] if value is None else [option, value]
    also = ("t/run/evaluation", "t/run/figures", "t/run/report.html", "cache")
    entries = (Template("t", draw(mostly(st.just("finished"), st.just("images")))),)
    entries += (File("file.csv", b"a,b\n1,2\n3,4\n5,7\n"),)
    command = (*name.split(), *arguments, *options)
    return Case(entries, command, writes=(*WRITES, *also), adds=("t",))
