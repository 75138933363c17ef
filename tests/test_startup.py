"""What is imported when: help pages must not wait for torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "scipy", "sklearn", "lightning_fabric", "kornia", "pandas"}
HELP = "from gedilearn.cli import main; sys.argv = {arguments}; main()"


def loaded(code: str) -> set[str]:
    """The heavy packages that `code` imports in a fresh interpreter."""
    script = (
        "import sys\n"
        "try:\n"
        f"    {code}\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"print('LOADED', *({HEAVY!r} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [
        ["gedi", "--help"],
        ["gedi", "--version"],
        *(["gedi", name, "--help"] for name in ("fit", "resume", "predict", "sample", "demo")),
        *(
            ["gedi", name, "--help"]
            for name in ("choose", "evaluate", "explain", "report", "features")
        ),
        ["gedi", "data", "get", "--help"],
        ["gedi", "reproduce", "landscape", "--help"],
    ],
    ids=" ".join,
)
def test_help_pages_load_nothing_heavy(arguments):
    assert loaded(HELP.format(arguments=arguments)) == set()


@pytest.mark.parametrize("command", ["settings", "presets"])
def test_lists_load_neither_torch_nor_numpy(command):
    assert loaded(HELP.format(arguments=["gedi", command])) == set()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "nothing.csv", "-k", "3"], "nothing.csv: no such file"),
        (["fit", "moons", "-k", "1"], "--clusters 1"),
        (["fit", "moons", "-k", "2", "--device", "gpu"], "device.accelerator='gpu'"),
        (["fit", "moons", "-k", "2", "--method", "gedy"], "unknown method 'gedy'"),
        (["fit", "moons", "-k", "2", "--preset", "papr/toy"], "papr/toy"),
        (["fit", "moons", "-k", "2", "--set", "nothing.at=1"], "unknown setting 'nothing.at'"),
        (["fit", "moons", "-k", "2", "--set", "training.tol=-1"], "training.tol=-1"),
        (["fit", "moons", "-k", "2", "--out", "used"], "used exists already"),
        (["fit", "ragged.csv", "-k", "2"], "ragged.csv"),
        (["choose", "nothing.csv"], "nothing.csv: no such file"),
        (["features", "nothing", "--out", "f.npy"], "nothing: no such file"),
        (["resume", "nothing"], "nothing is not a run directory"),
        (["predict", "nothing", "more.csv"], "nothing is not a run directory"),
        (["report", "nothing"], "nothing is not a run directory"),
        (["reproduce", "gen"], "gedi reproduce density"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_do_not_wait_for_torch(arguments, words, tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").touch()
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n")
    script = (
        "import sys\n"
        "from gedilearn.cli import main\n"
        f"sys.argv = ['gedi', *{arguments!r}]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert end.code == 2, end.code\n"
        f"print('LOADED', *({HEAVY - {'numpy', 'pandas'}!r} & sys.modules.keys()))\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert words in done.stderr.splitlines()[-1]
    assert done.stdout.splitlines()[-1] == "LOADED"


def test_a_fit_says_what_it_does_before_torch_is_there(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n3,4\n" * 20)
    script = (
        "import builtins, sys\n"
        "from gedilearn.cli import main\n"
        "class Stop(BaseException): pass\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'torch': raise Stop\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['gedi', 'fit', 'x.csv', '-k', '2']\n"
        "try:\n"
        "    main()\n"
        "except Stop:\n"
        "    print('torch was asked for')\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "torch was asked for"
    assert "loading torch" in done.stderr.splitlines()


@pytest.mark.parametrize("module", ["typer", "gedilearn.cli.fit", "gedilearn.settings"])
def test_ctrl_c_before_the_commands_are_there_is_one_line(module):
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
    assert loaded("import gedilearn") == set()


def test_the_estimator_is_there_on_first_use_and_waits_with_fabric_and_kornia():
    there = loaded("import gedilearn; assert gedilearn.GEDI.__name__ == 'GEDI'")
    assert "torch" in there
    assert not {"lightning_fabric", "kornia"} & there


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import gedilearn

    with pytest.raises(AttributeError, match="GEDY"):
        _ = gedilearn.GEDY
