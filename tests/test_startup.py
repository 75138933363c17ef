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
        *(["gedi", name, "--help"] for name in ("choose", "evaluate", "explain", "report")),
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
