"""Commands that show a finished run to people: `explain`, `report`."""

from __future__ import annotations

from typing import Annotated

import typer

from gedilearn.cli.app import AsJson, Quiet, Run, RunFolder, Size, SkipBroken, app
from gedilearn.cli.data import Decimal, Separator
from gedilearn.cli.output import Screen


@app.command()
def explain(
    run: Run,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Data to explain; that of the fit if not given."),
    ] = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    separator: Separator = None,
    decimal: Decimal = None,
    as_json: AsJson = False,
) -> None:
    """Say why each cluster is one.

    Lists for every cluster its size, the columns that set it apart, its typical, least certain and
    unusual rows (counted from 0), and the clusters that it is taken for. Warns when one column
    alone makes the clusters.

    \b
    gedi explain gedi-runs/points-1
    gedi explain gedi-runs/points-1 more.csv --json
    """
    from gedilearn.explanation import read_profile
    from gedilearn.training.run import RunDirectory, read_config

    screen, files, marks = Screen(as_json), RunDirectory(run), separator or decimal
    if (
        run.is_dir()
        and files.profile.exists()
        and data is None
        and not (size or skip_broken or marks)
    ):
        read_config(run)  # or it is no run directory
        found = read_profile(files)
    else:
        from gedilearn.cli.runs import Fitted

        fitted = Fitted.open(run)
        x = fitted.read(data, size, skip_broken, screen, separator, decimal).x
        found = fitted.model.explain(x, fitted.columns)
    screen.words(found.to_json(), str(found))


@app.command()
def report(
    run: RunFolder,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser when it is written.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run, an HTML page with figures.

    Both are made from the run directory alone, and are written into it. The page is one file that
    can be sent to others.

    \b
    gedi report gedi-runs/points-1 --open
    """
    from gedilearn.report.page import write_report

    screen, page = Screen(quiet=quiet), write_report(run)
    screen.message(f"report: {page}")
    if open_:
        import webbrowser

        if not webbrowser.open(page.absolute().as_uri()):
            screen.message(f"no browser was found: open {page} yourself")
