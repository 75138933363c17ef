"""What `make docs` adds to turning Markdown into pages (mkdocs.yml names this file as a hook).

- CONTRIBUTING.md and CHANGELOG.md stand at the top of the repository, where people look for them;
  here they become pages, with their links changed to those of the site.
- The commands and the settings are listed by the library itself.
- A page that loads anything from another host ends the build.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Links of pages that came from the top of the repository.
MOVED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
# What a browser fetches without being asked to.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*\bhref=[\"']?(?:https?:)?//"
)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs."""
    pages = {target: from_top(ROOT / source) for source, target in MOVED.items()}
    pages |= {"commands.md": commands(), "settings.md": settings()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_post_build(config: Any) -> None:
    """End the build if a page would load something from another host."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        found = LOADED.search(page.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{page} loads something from outside: {found.group()}")


def from_top(path: Path) -> str:
    """A page of the repository's top folder, with links as in the site."""
    text = path.read_text(encoding="utf-8").replace("](docs/", "](")
    for source, target in MOVED.items():
        text = text.replace(f"]({source}", f"]({target}")
    return text


def commands() -> str:
    """The help page of every command."""
    from gedilearn.cli import app

    group = typer.main.get_command(app)
    lines = ["# Commands", "", "What `gedi COMMAND --help` says.", ""]
    for name, command in walk(group, "gedi"):
        context = click.Context(command, info_name=name, max_content_width=100)
        with context:
            lines += [f"## {name}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return "\n".join(lines)


def walk(group: Any, prefix: str) -> list[tuple[str, Any]]:
    """The commands of a group and of the groups in it, under their whole names."""
    found = []
    for name, command in group.commands.items():
        if getattr(command, "hidden", False):
            continue
        inner = hasattr(command, "commands")
        whole = f"{prefix} {name}"
        found += walk(command, whole) if inner else [(whole, command)]
    return found


def settings() -> str:
    """What `gedi settings` lists, as a table."""
    from typer.testing import CliRunner

    from gedilearn.cli import app

    printed = CliRunner().invoke(app, ["settings", "--json"])
    if printed.exit_code:
        raise PluginError(f"gedi settings: {printed.output}")
    lines = [
        "# Settings",
        "",
        "What `gedi settings` lists. A setting is changed by `gedi fit --set NAME=VALUE`, or in "
        'Python by `GEDI(settings={"NAME": VALUE})`.',
        "",
        "| setting | default | for images | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for row in json.loads(printed.output):
        cells = [row["setting"], json.dumps(row["value"])]
        cells += [json.dumps(row["for images"])] if "for images" in row else [""]
        values = [f"`{cell}`" if cell else "" for cell in cells]
        lines.append("| " + " | ".join([*values, escaped(row["meaning"])]) + " |")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text in which Markdown finds no markup."""
    return re.sub(r"([\\|*_<\[`])", r"\\\1", text)
