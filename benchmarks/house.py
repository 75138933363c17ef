"""The size of the code and the paths through it, counted.

    python benchmarks/house.py

Lines of code are those that are neither blank, nor comment, nor docstring. Files on the way of a
call are those with a function that runs in it, found by a profile function in a second call: what
runs while modules are imported does not count.
"""

from __future__ import annotations

import ast
import inspect
import sys
import tempfile
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gedilearn

ROOT = Path(gedilearn.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            documentation |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    lines = ((k, line.strip()) for k, line in enumerate(text.splitlines(), start=1))
    return sum(1 for k, line in lines if line and line[0] != "#" and k not in documentation)


def module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Our modules that a file imports, also inside functions and for types alone."""
    known, found = {module(file) for file in FILES}, set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gedilearn"):
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= inside or {node.module}
    return found & known - {module(path), "gedilearn"}


def files_on_the_way(call: Callable[[], object]) -> list[str]:
    """The files with a function that runs in `call`, in this process."""
    seen: set[str] = set()

    def note(frame, event, argument) -> None:  # type: ignore[no-untyped-def]
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<"
        if event == "call" and is_function and code.co_filename.startswith(str(ROOT)):
            seen.add(code.co_filename)

    call()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return sorted(str(Path(name).relative_to(ROOT)) for name in seen)


def fit() -> None:
    gedilearn.GEDI(n_clusters=2, max_iter=60, random_state=0).fit(POINTS)


def command(folder: str) -> Callable[[], None]:
    np.save(f"{folder}/points.npy", POINTS)
    options = ["--set", "training.max_iter=60", "--set", "density.iterations=10", "--quiet"]
    runs = iter((f"{folder}/first", f"{folder}/second"))

    def run() -> None:
        from gedilearn.cli import main

        sys.argv = ["gedi", "fit", f"{folder}/points.npy", "-k", "2", "--out", next(runs), *options]
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code

    return run


POINTS = np.random.default_rng(0).normal(size=(200, 2))


def main() -> None:
    warnings.simplefilter("ignore")
    importers: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        for name in imports(path):
            importers[name].add(module(path))
    alone = sorted(name for name, users in importers.items() if len(users) == 1)
    busiest = max(FILES, key=lambda path: len(imports(path)))
    longest = max(FILES, key=lambda path: len(path.read_text().splitlines()))
    arguments = len(inspect.signature(gedilearn.GEDI).parameters)
    by_fit = files_on_the_way(fit)
    with tempfile.TemporaryDirectory() as folder:
        by_command = files_on_the_way(command(folder))
    rows = [
        ("lines of code", sum(map(code_lines, FILES))),
        ("files", len(FILES)),
        ("modules with one importer", len(alone)),
        (f"imports of the busiest module ({module(busiest)})", len(imports(busiest))),
        ("files on the way of GEDI.fit", len(by_fit)),
        ("files on the way of gedi fit", len(by_command)),
        ("constructor arguments", arguments),
        (f"longest file ({module(longest)})", len(longest.read_text().splitlines())),
    ]
    for name, value in rows:
        print(f"{value:7,}  {name}")
    print("one importer:", ", ".join(name.removeprefix("gedilearn.") for name in alone))
    print("GEDI.fit:", ", ".join(by_fit))
    print("gedi fit:", ", ".join(by_command))


if __name__ == "__main__":
    main()
