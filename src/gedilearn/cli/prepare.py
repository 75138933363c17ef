"""What comes before a fit: `gedi choose`, `features`, `settings`, `presets`, `data`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gedilearn.cli.app import AsJson, Data, Quiet, Seed, Size, SkipBroken, app, loading_torch
from gedilearn.cli.data import (
    Categorical,
    Columns,
    Decimal,
    Drop,
    IdColumn,
    Impute,
    Numeric,
    Separator,
    table_settings,
)
from gedilearn.cli.output import Result, Screen, check_out, new_files, print_list, write_new
from gedilearn.errors import InputError
from gedilearn.io import json_text, read_json


@app.command()
def choose(
    data: Data,
    most: Annotated[
        int, typer.Option("--max", metavar="K", help="The largest number of clusters to try.")
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write choose.json and choose.png there. Never overwrites."
        ),
    ] = None,
    seed: Seed = 0,
    columns: Columns = None,
    drop: Drop = None,
    id_column: IdColumn = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    impute: Impute = None,
    separator: Separator = None,
    decimal: Decimal = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Recommend a number of clusters for DATA, without labels.

    Fits every number from 2 on, from two seeds each, and compares grades, gaps to the optimum and
    how well parts of the data agree; of images, how well the two fits do. If no number stands out,
    it says so.

    \b
    gedi choose points.csv
    gedi choose points.csv --max 6 --out choice
    """
    from gedilearn.cli.data import image_options, read_points, text_options

    screen, images = Screen(as_json, quiet), image_options(size, skip_broken)
    text = text_options(separator, decimal)
    if most < 2:
        raise InputError(f"--max {most}: clustering needs at least 2")
    files = new_files(out, "choose.json", "choose.png")
    given = table_settings(columns, drop, id_column, categorical, numeric, impute)

    def tell(row: dict[str, Any]) -> None:
        state = "certified" if row["certified"] else "not certified"
        k, gap, seconds = row["n_clusters"], row["gap"], row["seconds"]
        screen.message(f"{k} clusters: gap {gap:.4f} nats, {state} ({seconds:.1f} s)")
        progress.step(k - 1, most - 1)

    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        x, settings = read_points(data, screen, given, text, **images)
        loading_torch(progress)
        from gedilearn.selection import choose_n_clusters

        progress.phase(f"fits with 2 to {most} clusters")
        try:
            choice = choose_n_clusters(x, most, random_state=seed, on_row=tell, settings=settings)
        except InputError as error:
            raise InputError(str(error).replace("max_clusters=", "--max ")) from None
    if files:
        from gedilearn.report.figures import choice_figure

        write_new(files[0], json_text(choice.to_json(), indent=1) + "\n")
        choice_figure(choice, files[1])
    shown = {
        "clusters": ("n_clusters", "{}"),
        "gap (nats)": ("gap", "{:.4f}"),
        "certified": ("certified", "{}"),
        "stability": ("stability", "{:.2f}"),
        "unused": ("unused", "{}"),
        "score": ("score", "{:.2f}"),
        "rank": ("rank", "{}"),
        "seconds": ("seconds", "{:.1f}"),
    }
    words = [row | {"certified": "yes" if row["certified"] else "no"} for row in choice.rows]
    rows = [[form.format(row[name]) for name, form in shown.values()] for row in words]
    written = [f"written: {file}" for file in files]
    content = choice.to_json() | ({"out": str(out)} if files else {})
    screen.show(content, list(shown), rows, ["", choice.recommendation, *written])


@app.command()
def features(
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            callback=check_out,
            help="The new file: .npy for the vectors alone; .csv or .parquet with the path of each "
            "image beside them.",
        ),
    ],
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder that keeps vectors, to be read there again."),
    ] = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    quiet: Quiet = False,
) -> None:
    """Turn images into vectors by a trained network.

    EfficientNet-Lite0, with the weights of a package, gives 1280 numbers for each image; gedi fit
    then clusters these. In Python any torch module will do: docs/images.md.

    \b
    gedi features photographs --out features.npy
    gedi features photographs --out features.parquet --size 224 --skip-broken
    gedi fit features.parquet -k 5 --id-column path
    """
    from gedilearn.cli.data import Rows, image_options, read

    screen, images = Screen(quiet=quiet), image_options(size, skip_broken)
    if cache is not None and cache.exists() and not cache.is_dir():
        raise InputError(f"--cache {cache}: is not a folder")
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        rows = Rows.of(read(data, screen, **images))
        if rows.x.ndim != 4:
            raise InputError(f"{data}: data of shape {rows.x.shape}, and not images")
        loading_torch(progress)
        from gedilearn.pretrained import features

        found = features(rows.x, cache=cache, progress=progress)
    columns: dict[str, Any] = {"row": rows.numbers}
    if rows.paths is not None:
        import numpy as np

        columns = {"path": np.array(rows.paths, dtype=object)}
    columns |= {f"f{k + 1}": values for k, values in enumerate(found.T)}
    screen.give(Result(columns, found, {"features": found.tolist()}), out)


@app.command()
def settings() -> None:
    """List every setting, its default and meaning.

    For gedi fit --set NAME=VALUE.

    \b
    gedi settings
    gedi settings | grep sampler
    """
    from gedilearn.settings import IMAGES, flat, known_paths, settings_type

    defaults = flat(settings_type()().model_dump(mode="json"))
    rows = []
    for path, text in known_paths().items():
        images = json.dumps(IMAGES[path]) if path in IMAGES else ""
        rows.append((path, json.dumps(defaults[path]), images, text))
    print_list(("setting", "default", "for images", "meaning"), rows)


@app.command()
def presets() -> None:
    """List the presets and what each changes.

    For gedi fit --preset NAME.

    \b
    gedi presets
    """
    from gedilearn.presets import ABOUT, PRESETS
    from gedilearn.settings import flat

    rows = []
    for name, values in PRESETS.items():
        changed = [f"{path}={json.dumps(value)}" for path, value in flat(values).items()]
        rows.append((name, ABOUT[name], " ".join(changed) or "the defaults of gedi settings"))
    print_list(("preset", "about", "settings"), rows)


# --- published sets ---------------------------------------------------------------------------

data_sets = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_sets, name="data")

HEADS = ("name", "what", "train", "test", "shape", "MB", "here")  # must fit into 80 columns


@data_sets.callback()
def data() -> None:
    """Fetch published image sets, and list them."""


@data_sets.command("get")
def get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of a set; see gedi data list.")
    ],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Take the published files from this folder instead of from the network.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a published image set, check it, and keep it for use by its name.

    It is kept in $GEDI_CACHE, or else in $XDG_CACHE_HOME/gedi-learn or ~/.cache/gedi-learn. An
    interrupted download goes on where it broke off.

    \b
    gedi data get cifar10
    gedi data get mnist --from ~/Downloads
    gedi fit mnist:test --clusters 10
    """
    from gedilearn.data import published

    screen = Screen(as_json, quiet)
    path = published.get(name, directory, screen.message)
    if screen.json:
        screen.content(read_json(path / "set.json") | {"path": str(path)})


@data_sets.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """List the image sets that can be fetched, and which are on this machine.

    \b
    gedi data list
    """
    from gedilearn.data.published import cache_root, is_cached
    from gedilearn.data.sources import SOURCES, SPLITS

    screen, sets, rows = Screen(as_json), [], []
    for source in SOURCES.values():
        counts = {split: part.count for split, part in source.splits.items()}
        size, here = sum(file.size for file in source.downloads), is_cached(source.name)
        sets.append(
            {
                "name": source.name,
                "about": source.about,
                "counts": counts,
                "shape": list(source.shape),
                "classes": source.classes,
                "download_bytes": size,
                "cached": here,
            }
        )
        shown = [str(counts.get(split, "-")) for split in SPLITS]
        shape, megabytes = "x".join(map(str, source.shape)), f"{size / 1e6:.0f}"
        rows.append((source.name, source.about, *shown, shape, megabytes, "yes" if here else "no"))
    cache = str(cache_root())
    screen.show({"cache": cache, "sets": sets}, HEADS, rows, [f"kept in {cache}"])
