"""Commands before a fit: `choose`, `settings`, `data`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from gedilearn.cli import data as inputs
from gedilearn.cli import options
from gedilearn.cli.app import Screen, app, short, table
from gedilearn.errors import InputError
from gedilearn.io import refuse_existing, write_json


@app.command()
def choose(
    data: options.Data,
    most: Annotated[
        int, Option("--max", metavar="K", min=2, help="The most clusters to try.")
    ] = 10,
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            file_okay=False,
            help="Write choose.json and choose.png into this folder.",
        ),
    ] = None,
    seed: options.Seed = 0,
    columns: inputs.Columns = None,
    drop: inputs.Drop = None,
    id_column: inputs.IdColumn = None,
    categorical: inputs.Categorical = None,
    numeric: inputs.Numeric = None,
    impute: inputs.Impute = None,
    separator: inputs.Separator = None,
    decimal: inputs.Decimal = None,
    size: options.Size = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Recommend a number of clusters for DATA, without labels.

    Fits every number from 2 on with two seeds. Compares the grades, the gaps to the optimum, and
    the agreement between fits to parts of the data (of images, between the two seeds). Says so if
    no number stands out.

    \b
    gedi choose points.csv
    gedi choose points.csv --max 6 --out choice
    """

    screen = Screen(as_json, quiet)
    how = inputs.reading_options(size, skip_broken, separator, decimal)
    files = [out / "choose.json", out / "choose.png"] if out else []
    for file in files:
        refuse_existing(file)
    given = inputs.table_settings(columns, drop, id_column, categorical, numeric, impute)

    def tell(row: dict[str, Any]) -> None:
        certified = "certified" if row["certified"] else "not certified"
        k, gap, seconds = row["n_clusters"], row["gap"], row["seconds"]
        screen.message(f"{k} clusters: gap {gap:.4f} nats, {certified} ({seconds:.1f} s)")
        progress.step(k - 1, most - 1)

    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        x, settings = inputs.read_points(data, screen, given, how)
        progress.phase("loading torch")
        from gedilearn.selection import choose_n_clusters

        progress.phase(f"fits with 2 to {most} clusters")
        try:
            choice = choose_n_clusters(x, most, random_state=seed, on_row=tell, settings=settings)
        except InputError as error:
            raise InputError(str(error).replace("n_clusters=", "--max ")) from None
    heads = ("n_clusters", "gap", "certified", "stability", "unused", "score", "rank")
    rows = ([short(row[name]) for name in heads] for row in choice.rows)
    screen.show(choice.to_json(), table(heads, rows), choice.recommendation)
    if files:
        from gedilearn.report.pictures import choice_figure

        files[0].parent.mkdir(parents=True, exist_ok=True)
        write_json(files[0], choice.to_json(), 1, new=True)
        choice_figure(choice, files[1])
        screen.message(f"written: {files[0]}, {files[1]}")


@app.command()
def settings(
    preset: Annotated[
        str | None, Argument(metavar="PRESET", help="List what this preset changes.")
    ] = None,
    presets: Annotated[bool, Option("--presets", help="List the presets.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """List the settings with their defaults and meaning, or the presets.

    A setting is changed by gedi fit --set NAME=VALUE; a preset is used by gedi fit --preset NAME.

    \b
    gedi settings
    gedi settings --presets
    gedi settings paper/toy
    """
    from gedilearn.presets import ABOUT
    from gedilearn.presets import preset as preset_values
    from gedilearn.settings import IMAGES, flat, known_paths, settings_type

    meanings, screen = known_paths(), Screen(quiet=quiet)
    if presets:
        screen.list(("preset", "about"), list(ABOUT.items()))
    elif preset is not None:
        values = flat(preset_values(preset))
        rows = [(path, json.dumps(value), meanings[path]) for path, value in values.items()]
        screen.list(("setting", "value", "meaning"), rows)
    else:
        defaults = {path: json.dumps(v) for path, v in flat(settings_type()().model_dump()).items()}
        images = {path: json.dumps(value) for path, value in IMAGES.items()}
        listed = [(path, defaults[path], images.get(path, ""), meanings[path]) for path in meanings]
        screen.list(("setting", "default", "for images", "meaning"), listed)


# --- data ---------------------------------------------------------------------------------------

data_commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_commands, name="data")


@data_commands.callback()
def data() -> None:
    """Download published image sets, or turn images into vectors."""


@data_commands.command("get")
def get(
    name: Annotated[str, Argument(metavar="NAME", help="A set; see gedi data list.")],
    directory: Annotated[
        Path | None, Option("--from", metavar="DIR", help="Take the files from this folder.")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Download a published image set, check it, and keep it under its name.

    It is kept in $GEDI_CACHE, or else in $XDG_CACHE_HOME/gedi-learn or ~/.cache/gedi-learn.

    \b
    gedi data get cifar10
    gedi data get mnist --from ~/Downloads
    gedi fit mnist:test --clusters 10
    """
    from gedilearn.data import published

    screen = Screen(as_json, quiet)
    path = published.get(name, directory, screen.message)
    if as_json:
        screen.show({"name": name, "path": str(path)})


@data_commands.command("list")
def list_sets(as_json: options.AsJson = False, quiet: options.Quiet = False) -> None:
    """List the published image sets, and which of them are on this machine.

    \b
    gedi data list
    """
    from gedilearn.data.published import SOURCES, SPLITS, cache_root, is_cached

    sets: list[dict[str, Any]] = [
        {
            "name": source.name,
            "about": source.about,
            "counts": {split: part.count for split, part in source.splits.items()},
            "shape": list(source.shape),
            "classes": source.classes,
            "download_bytes": sum(file.size for file in source.downloads),
            "cached": is_cached(source.name),
        }
        for source in SOURCES.values()
    ]
    rows = []
    for each in sets:
        counts = [str(each["counts"].get(split, "-")) for split in SPLITS]
        size, here = f"{each['download_bytes'] / 1e6:.0f}", "yes" if each["cached"] else "no"
        shape = "x".join(map(str, each["shape"]))
        rows.append([each["name"], each["about"], *counts, shape, size, here])
    heads = ("name", "what", *SPLITS, "shape", "MB", "here")
    content = {"cache": str(cache_root()), "sets": sets}
    Screen(as_json, quiet).show(content, table(heads, rows), f"kept in {cache_root()}")


@data_commands.command("features")
def features(
    data: options.Data,
    out: options.OutFile,
    size: options.Size = None,
    skip_broken: options.SkipBroken = False,
    quiet: options.Quiet = False,
) -> None:
    """Turn images into vectors with a pretrained network.

    EfficientNet-Lite0 gives 1280 numbers for each image; gedi fit then clusters these. A .npy file
    has the vectors alone; .csv and .parquet have the path of each image beside them. Python takes
    any torch module: docs/images.md.

    \b
    gedi data features photographs --out features.npy
    gedi data features photographs --out features.parquet --size 224 --skip-broken
    gedi fit features.parquet -k 5 --id-column path
    """
    import numpy as np

    screen, how = Screen(quiet=quiet), inputs.reading_options(size, skip_broken)
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        dataset = inputs.read(data, screen, **how)
        if dataset.x.ndim != 4:
            raise InputError(f"{data}: data of shape {dataset.x.shape}, and not images")
        progress.phase("loading torch")
        from gedilearn.pretrained import features

        vectors = features(dataset.x, progress=progress)
    columns: dict[str, Any] = {"row": np.arange(len(vectors))}
    if dataset.paths is not None:
        columns = {"path": np.array(dataset.paths, dtype=object)}
    columns |= {f"f{k + 1}": values for k, values in enumerate(vectors.T)}
    screen.give(columns, vectors, {"features": vectors.tolist()}, out)
