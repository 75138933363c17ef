"""Commands before a fit: `choose`, `settings`, `data`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from gedilearn.cli import data as inputs
from gedilearn.cli.app import App, OutFile, Screen, app, cell, check_out, table
from gedilearn.errors import InputError

# Columns of the table of `choose`: the evidence for each number, if it was measured.
HEADS = {
    "n_clusters": "clusters",
    "bound_gap": "bound gap (nats)",
    "stability": "stability",
    "groups": "groups separated by density dips",
    "cut": "cut",
    "reason": "supported",
}


@app.command()
def choose(
    data: inputs.Data,
    most: Annotated[
        int | None,
        Option(
            "--max",
            metavar="K",
            min=2,
            help="The largest number of clusters to try: 10 if not given, 300 for embeddings.",
        ),
    ] = None,
    seed: inputs.Seed = 0,
    *,
    reading: inputs.FitOptions,
    screen: Screen,
) -> None:
    """Recommend a number of clusters for DATA, without labels.

    Tries every number of clusters from 2 to --max. For each it prints the stability (whether
    subsamples give the same clusters), the groups that are separated by density dips, and the cut
    (the share of links between neighbours that leave their cluster). Of embeddings it tries about
    thirty numbers, and prints whether two halves of the rows give the same clusters. Images are
    fitted twice with each number, and their bound gaps are compared. gedi fit without --clusters
    chooses in the same way, and keeps the model.

    \b
    gedi choose points.csv
    gedi choose points.csv --max 6 --json
    """
    from gedilearn.settings import nested

    arguments, values = reading.load_arguments(), reading.settings()
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        rows, columns = inputs.read_for_fit(
            data, screen, nested(values), arguments, reading.verbose
        )
        from gedilearn.selection import choose_n_clusters

        choice = choose_n_clusters(
            rows.x, most, random_state=seed, progress=progress, settings=values
        )
    content = choice.to_json()
    numbers = [row | {"reason": row["reason"] or "no"} for row in content["numbers"]]
    names = [name for name in HEADS if any(row[name] is not None for row in numbers)]
    lines = [[cell(row[name]) for name in names] for row in numbers]
    words = f"Recommended: {choice.n_clusters} clusters ({choice.model.grade_}). "
    words += f"{choice.words[:1].upper()}{choice.words[1:]}."
    size = f"{data}: {inputs.size_words(rows.x.shape, columns)}"
    screen.show(content, size, table([HEADS[name] for name in names], lines), words)


@app.command()
def settings(
    preset: Annotated[
        str | None, Argument(metavar="PRESET", help="List the settings of this preset.")
    ] = None,
    presets: Annotated[bool, Option("--presets", help="List the presets.")] = False,
    *,
    screen: Screen,
) -> None:
    """List all settings with their defaults, or the presets.

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
        screen.show(about, *(f"{name}: {description}" for name, description in about.items()))
        return
    meanings = known_paths()
    values = flat(preset_values(preset) if preset else settings_type()().model_dump())
    images = {} if preset else IMAGES
    rows, lines = [], []
    for path, value in values.items():
        row = {"setting": path, "value": value, "meaning": meanings[path]}
        for_images = ""
        if path in images:
            row["for images"], for_images = images[path], f" (images: {json.dumps(images[path])})"
        rows.append(row)
        lines.append(f"{path} = {json.dumps(value)}{for_images}: {meanings[path]}")
    screen.show(rows, *lines)


# --- data ---------------------------------------------------------------------------------------

data_commands = App(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_commands, name="data")


@data_commands.callback()
def data() -> None:
    """Download published image sets, or turn images or texts into vectors."""


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
    """Download a published image set, to use it by its name.

    The files are checked. They are kept in $GEDI_CACHE, or in $XDG_CACHE_HOME/gedi-learn, or in
    ~/.cache/gedi-learn.

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
    screen.show(content, table(heads, rows), f"Downloaded sets are in {cache_root()}.")


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

    arguments = inputs.FitOptions(skip_broken=skip_broken, size=size).load_arguments()
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        dataset = inputs.read(data, screen, **arguments)
        if dataset.x.ndim != 4:
            raise InputError(f"{data}: data of shape {dataset.x.shape}, not images")
        from gedilearn.pretrained import features

        vectors = features(dataset.x, progress=progress)
    columns: dict[str, Any] = {"row": np.arange(len(vectors))}
    if dataset.paths is not None:
        columns = {"path": np.array(dataset.paths, dtype=object)}
    columns |= {f"f{k + 1}": values for k, values in enumerate(vectors.T)}
    screen.give(columns, vectors, out)


@data_commands.command("embed")
def embed(
    data: inputs.Data,
    column: Annotated[str, Option(metavar="NAME", help="The column with the texts.")],
    model: Annotated[Path, Option(metavar="FOLDER", help="Folder of a sentence encoder.")],
    out: OutFile = None,
    keep_columns: inputs.KeepColumns = False,
    *,
    reading: inputs.FileOptions,
    screen: Screen,
) -> None:
    """Turn the texts in a column into vectors with a sentence encoder.

    The result has the texts and their vectors. gedi fit clusters the vectors, and describes the
    clusters by words of the texts. Without --out it is written to DATA with the ending .parquet.
    A .npy file holds the vectors alone. FOLDER is a model as sentence-transformers saves it, for
    instance all-MiniLM-L6-v2. Nothing is downloaded.

    \b
    gedi data embed questions.csv --column question --model all-MiniLM-L6-v2
    gedi fit questions.parquet -k 20
    """
    from gedilearn.data.columns import vectors_of
    from gedilearn.data.files import check_names

    out = check_out(out or Path(data).with_suffix(".parquet"))
    with screen.progress() as progress:
        progress.phase(f"reading {data}")
        frame = inputs.read(data, screen, text=[column], **reading.load_arguments()).frame
        if frame is None:
            raise InputError(f"{data}: texts are in a table, .csv, .tsv, .txt or .parquet")
        check_names([column], frame.columns, data)
        from gedilearn.pretrained import embed

        vectors = embed(frame[column].fillna(""), model, progress=progress)
    names = [f"{vectors_of(column)}[{j}]" for j in range(vectors.shape[1])]
    kept = inputs.by_column(frame if keep_columns else frame[[column]], None)
    screen.give(kept | inputs.by_column(vectors, names), vectors, out)
