"""Heavy imports wait: help pages and bad arguments do not load torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gedilearn.cli import app

HEAVY = {"torch", "numpy", "scipy", "sklearn", "lightning_fabric", "kornia", "pandas"}
COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback]
MAIN = "from gedilearn.cli import main; sys.argv = {}; main()"


def python(code: str, folder: Path | None = None) -> tuple[str, str, set[str]]:
    """Run code in a fresh interpreter: stdout, stderr, and the heavy packages it imported."""
    script = (
        "import sys\n"
        "try:\n"
        f"    {code}\n"
        "except SystemExit as end:\n"
        "    assert end.code in (0, 2, None), end.code\n"
        f"print('LOADED', *({HEAVY!r} & sys.modules.keys()))\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    out, _, loaded = done.stdout.rpartition("LOADED")
    return out, done.stderr, set(loaded.split())


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["--version"], ["data", "get", "--help"], ["data", "features", "--help"]),
        *(["reproduce", "--help"], ["settings"], ["settings", "--presets"]),
        *([name, "--help"] for name in COMMANDS),
    ],
    ids=" ".join,
)
def test_help_pages_and_lists_load_nothing_heavy(arguments):
    out, error, loaded = python(MAIN.format(["gedi", *arguments]))
    assert out and not error and not loaded


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "nothing.csv", "-k", "3"], "nothing.csv: no such file"),
        (["fit", "moons", "-k", "1"], "'--clusters'"),
        (["fit", "moons", "-k", "2", "--device", "gpu"], "device.accelerator='gpu'"),
        (["fit", "moons", "-k", "2", "--method", "gedy"], "unknown method 'gedy'"),
        (["fit", "moons", "-k", "2", "--preset", "papr/toy"], "papr/toy"),
        (["fit", "moons", "-k", "2", "--set", "nothing.at=1"], "unknown setting 'nothing.at'"),
        (["fit", "moons", "-k", "2", "--set", "training.tol=-1"], "training.tol=-1"),
        (["choose", "nothing.csv"], "nothing.csv: no such file"),
        (["data", "features", "nothing", "--out", "f.npy"], "nothing: no such file"),
        (["predict", "nothing", "more.csv"], "nothing is not a run directory"),
        (["report", "nothing"], "nothing is not a run directory"),
        (["reproduce", "toi"], "did you mean 'toy'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_do_not_wait_for_torch(arguments, words, tmp_path):
    out, error, loaded = python(MAIN.format(["gedi", *arguments]), tmp_path)
    assert words in error.splitlines()[-1]
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
    assert python("import gedilearn")[2] == set()


def test_the_estimator_is_imported_on_first_use_without_fabric_and_kornia():
    loaded = python("import gedilearn; assert gedilearn.GEDI.__name__ == 'GEDI'")[2]
    assert "torch" in loaded and not {"lightning_fabric", "kornia"} & loaded


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import gedilearn

    with pytest.raises(AttributeError, match="GEDY"):
        _ = gedilearn.GEDY
