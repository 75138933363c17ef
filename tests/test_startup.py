"""Heavy imports wait: help pages and bad arguments do not load torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gedilearn.cli import app

HEAVY = {"torch", "numpy", "scipy", "sklearn", "lightning_fabric", "kornia", "pandas"}
COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback]
HELP = [
    *(["--help"], ["--version"], ["data", "get", "--help"], ["data", "features", "--help"]),
    *(["reproduce", "--help"], ["settings"], ["settings", "--presets"]),
    *([name, "--help"] for name in COMMANDS),
]
BAD = [
    (["fit", "nothing.csv", "-k", "3"], "nothing.csv: no such file"),
    (["fit", "moons", "-k", "1"], "'--clusters'"),
    (["fit", "moons", "-k", "2", "--set", "device.accelerator=gpu"], "device.accelerator='gpu'"),
    (["fit", "moons", "-k", "2", "--method", "gedy"], "unknown method 'gedy'"),
    (["fit", "moons", "-k", "2", "--preset", "papr/toy"], "papr/toy"),
    (["fit", "moons", "-k", "2", "--set", "nothing.at=1"], "unknown setting 'nothing.at'"),
    (["fit", "moons", "-k", "2", "--set", "training.tol=-1"], "training.tol=-1"),
    (["choose", "nothing.csv"], "nothing.csv: no such file"),
    (["data", "features", "nothing", "--out", "f.npy"], "nothing: no such file"),
    (["predict", "nothing", "more.csv"], "nothing is not a run directory"),
    (["report", "nothing"], "nothing is not a run directory"),
    (["reproduce", "toi"], "did you mean 'toy'"),
]
PLAY = """
from typer.testing import CliRunner
from gedilearn.cli import app
for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, arguments)
    print(json.dumps([done.exit_code, done.stdout, done.stderr, loaded()]))
"""


def python(code: str, *arguments: str, folder: Path | None = None) -> list[str]:
    """The lines that code prints in a fresh interpreter."""
    script = (
        f"import json, sys\ndef loaded(): return sorted({HEAVY!r} & sys.modules.keys())\n{code}\n"
    )
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def played() -> dict[str, list[Any]]:
    """Exit code, stdout, stderr and loaded packages of all commands, in one interpreter.

    What is heavy stays loaded for those that follow, so a first failure may bring others.
    """
    cases = [*HELP, *(arguments for arguments, _ in BAD)]
    lines = python(PLAY, json.dumps(cases))
    return {" ".join(case): json.loads(line) for case, line in zip(cases, lines, strict=True)}


@pytest.mark.parametrize("case", map(" ".join, HELP))
def test_help_pages_and_lists_load_nothing_heavy(case, played):
    code, out, error, loaded = played[case]
    assert code == 0 and out and not error and not loaded


@pytest.mark.parametrize(("case", "words"), [(" ".join(case), words) for case, words in BAD])
def test_bad_arguments_do_not_wait_for_torch(case, words, played):
    code, out, error, loaded = played[case]
    assert code == 2 and words in error.splitlines()[-1]
    assert not out and "torch" not in loaded


@pytest.mark.parametrize("module", ["typer", "gedilearn.cli.fit", "gedilearn.settings"])
def test_ctrl_c_while_the_commands_load_is_one_line(module):
    script = (
        "import sys\n"
        "from gedilearn.__main__ import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['gedi', 'settings']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_importing_the_package_loads_nothing_heavy():
    assert python("import gedilearn; print(loaded())") == ["[]"]


def test_the_estimator_is_imported_on_first_use_without_fabric_and_kornia():
    (loaded,) = python("import gedilearn; gedilearn.GEDI; print(loaded())")
    assert "torch" in loaded and "fabric" not in loaded and "kornia" not in loaded


def test_a_fit_of_one_process_loads_no_fabric_no_compiler_and_nothing_for_pictures(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(f"{k % 2},{k % 7}\n" for k in range(40)))
    unused = ["lightning_fabric", "torch._dynamo", "sympy", "zuko", "kornia", "matplotlib"]
    code = f"""
from typer.testing import CliRunner
from gedilearn.cli import app
done = CliRunner().invoke(app, ["fit", "x.csv", "-q", "--set", "training.max_iter=4"])
print(done.exit_code, sorted({set(unused)} & sys.modules.keys()))
"""
    assert python(code, folder=tmp_path)[-1] == "0 []"


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import gedilearn

    with pytest.raises(AttributeError, match="GEDY"):
        _ = gedilearn.GEDY
