"""Commands before a fit: `choose`, `settings`, `data`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from gedilearn.cli import data as inputs
from gedilearn.cli.app import App, OutFile, Screen, app, short, table
from gedilearn.errors import InputError

HEADS = ("n_clusters", "bound_gap", "stability", "groups", "cut", "reason")


@app.command()
def choose(
    data: inputs.Data,
    most: Annotated[
        int, Option("--max", metavar="K", min=2, help="The largest number of clusters to try.")
    ] = 10,
    seed: inputs.Seed = 0,
    *,
    reading: inputs.FitOptions,
    screen: Screen,
) -> None:
    """Recommend a number of clusters for DATA, without labels.

    Tries every number of clusters from 2 to --max and prints what speaks for each: whether parts of
    the data agree on the clusters, how many groups of them are apart, and how many links between
    neighbours they cut. Images are fitted with every number and two seeds, and their gaps to the
    optimum are compared. Says so if no number is better than the others. gedi fit without
    --clusters chooses in the same way, and keeps the model.

    \b
    gedi choose points.csv
    gedi choose points.csv --max 6 --json
    """
    from gedilearn.settings import nested

    how, values = reading.how(), reading.settings()
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        rows, _ = inputs.read_for_fit(data, screen, nested(values), how)
        progress.phase("loading torch")
        from gedilearn.selection import choose_n_clusters

        given: dict[str, Any] = {"random_state": seed, "progress": progress, "settings": values}
        choice = choose_n_clusters(rows.x, most, **given)
    content = choice.to_json()
    heads = [name for name in HEADS if any(row[name] is not None for row in content["numbers"])]
    lines = [
        ["" if row[name] is None else short(row[name]) for name in heads]
        for row in content["numbers"]
    ]
    words = f"{choice.n_clusters} clusters, {choice.model.grade_}: {choice.words}."
    screen.show(content, table(heads, lines), words)


@app.command()
def settings(
    preset: Annotated[
        str | None, Argument(metavar="PRESET", help="List the settings of this preset.")
    ] = None,
    presets: Annotated[bool, Option("--presets", help="List the presets.")] = False,
    *,
    screen: Screen,
) -> None:
    """List all settings with defaults and meaning, or the presets.

    Use gedi fit --set NAME=VALUE to change a setting, and gedi fit --preset NAME to use a preset.

    \b
    gedi settings
    gedi settings --presets
    gedi settings paper/toy
    """
    from gedilearn.presets import preset as preset_values
    from gedilearn.registry import PRESETS
    from gedilearn.settings import IMAGES, flat, known_paths, settings_type

    if presets:
        about = {name: PRESETS[name].about for name in PRESETS}
        screen.show(about, *(f"{name}: {words}" for name, words in about.items()))
        return
    meanings = known_paths()
    values = flat(preset_values(preset) if preset else settings_type()().model_dump())
    images = {} if preset else IMAGES
    rows, lines = [], []
    for path, value in values.items():
        row = {"setting": path, "value": value, "meaning": meanings[path]}
        other = ""
        if path in images:
            row["for images"], other = images[path], f" (images: {json.dumps(images[path])})"
        rows.append(row)
        lines.append(f"{path} = {json.dumps(value)}{other}: {meanings[path]}")
    screen.show(rows, *lines)


# --- data ---------------------------------------------------------------------------------------

data_commands = App(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_commands, name="data")


@data_commands.callback()
def data() -> None:
    """Download published image sets, or turn images into vectors."""


@data_commands.command("get")
def get(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the set; see gedi data list.")],
    directory: Annotated[
        Path | None,
        Option("--from", metavar="DIR", help="Use the files in this folder."),
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Download a published image set, for use by its name.

    The files are checked and kept in $GEDI_CACHE, in $XDG_CACHE_HOME/gedi-learn if this is not
    set, or in ~/.cache/gedi-learn.

    \b
    gedi data get cifar10
    gedi data get mnist --from ~/Downloads
    gedi fit mnist:test --clusters 10
    """
    from gedilearn.paper import published

    path = published.get(name, directory, screen.message)
    screen.show({"name": name, "path": str(path)})


@data_commands.command("list")
def list_sets(screen: Screen) -> None:
    """List the published image sets, and those already downloaded.

    \b
    gedi data list
    """
    from gedilearn.io import cache_root
    from gedilearn.paper.published import SETS, SPLITS, is_cached

    sets: list[dict[str, Any]] = [
        {
            "name": source.name,
            "content": source.about,
            **{split: part.count for split, part in source.splits.items()},
            "shape": "x".join(map(str, source.shape)),
            "classes": source.classes,
            "MB": round(sum(file.size for file in source.downloads) / 1e6),
            "cached": is_cached(source.name),
        }
        for source in SETS.values()
    ]
    heads = ("name", "content", *SPLITS, "shape", "MB", "cached")
    rows = ([str(each.get(head, "-")) for head in heads] for each in sets)
    content = {"cache": str(cache_root()), "sets": sets}
    screen.show(content, table(heads, rows), f"kept in {cache_root()}")


@data_commands.command("features")
def features(
    data: inputs.Data,
    out: OutFile,
    size: inputs.Size = None,
    skip_broken: inputs.SkipBroken = False,
    *,
    screen: Screen,
) -> None:
    """Turn images into vectors with a pretrained network.

    The network EfficientNet-Lite0 gives 1280 numbers for each image, which gedi fit can cluster.
    A .npy file holds the vectors alone; .csv and .parquet also hold the path of each image. Other
    networks can be used from Python: docs/images.md.

    \b
    gedi data features photographs --out features.npy
    gedi data features photographs --out features.parquet --size 224 --skip-broken
    gedi fit features.parquet -k 5 --id-column path
    """
    import numpy as np

    how = inputs.FitOptions(skip_broken=skip_broken, size=size).how()
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
    screen.give(columns, vectors, out)
