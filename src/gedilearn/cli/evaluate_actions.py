"""What `gedi evaluate` does. Imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gedilearn.cli.runs import (
    MODEL,
    Pictures,
    data_section,
    lasting,
    load_source,
    open_model,
    read,
)
from gedilearn.data.arrays import as_numbers
from gedilearn.data.dataset import Dataset, fingerprint
from gedilearn.data.load import is_folder, is_name
from gedilearn.data.sources import SOURCES, split_of
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI
from gedilearn.evaluation import evaluate as evaluate_model
from gedilearn.evaluation import read_buffer, sentences, table
from gedilearn.output import Screen
from gedilearn.training.modelfile import load_model
from gedilearn.training.run_directory import read_config


def evaluate(
    run: Path,
    test: str | None,
    ood: list[str],
    train: str | None,
    asked: dict[str, Any],
    out: Path | None,
    screen: Screen,
) -> None:
    """Measure the model of `run`, write the folder and show the table.

    `asked` are further arguments of `gedilearn.evaluation.evaluate`.
    """
    model, columns = open_model(run)
    config = read_config(run) if run.is_dir() else {}
    file = run / MODEL if run.is_dir() else run
    out = out or file.parent / "evaluation"
    trained = _train_data(run, config, train, test, columns, screen)
    tested = _test_data(config, trained, train, test, columns, screen)
    others = _others(ood, model, columns, screen)
    result = evaluate_model(
        model,
        trained,
        tested,
        others=others,
        # Views that were a function are in no file.
        certificate="views" not in load_model(file)[1]["objects"],
        buffer=read_buffer(run, model, screen.message) if run.is_dir() else None,
        out=out,
        tell=screen.message,
        **asked,
    )
    if screen.json:
        screen.content(result)
        return
    screen.table(("measure", "value", "beside it"), table(result), sentences(result))
    screen.message(f"written in {out}: {', '.join(result['files'])}")


def _train_data(
    run: Path,
    config: dict[str, Any],
    train: str | None,
    test: str | None,
    columns: list[str] | None,
    screen: Screen,
) -> Dataset | None:
    """What the model was fitted to; None where it cannot be found and is not all there is."""
    if config:
        try:
            data = load_source(run, config, train, "give it with --train DATA", screen)
        except InputError as error:
            if train is not None or test is None:
                raise
            screen.message(f"without training data: {error}")
            return None
        if fingerprint(as_numbers(data.x, data.name)) != data_section(config).get("fingerprint"):
            screen.message(
                f"careful: {data.name} is not, or no longer, what {run} was fitted to (the "
                "fingerprints differ); what is said of training data holds for other points"
            )
        return data
    if train is not None:
        return read(train, Pictures(), screen, columns=columns)
    if test is None:
        raise InputError(f"{run} is a model file, which does not name its data: give --test DATA")
    return None


def _test_data(
    config: dict[str, Any],
    trained: Dataset | None,
    train: str | None,
    test: str | None,
    columns: list[str] | None,
    screen: Screen,
) -> Dataset:
    """What was asked for, the test images of a fetched set, or else the training data."""
    described = data_section(config)
    source = train or described.get("source")
    if test is None:
        test = _test_split(source)
    if trained is not None and (test is None or lasting(test) == (source and lasting(source))):
        return trained
    assert test is not None  # without training data, test data was demanded
    pictures = Pictures.of_run(config) if is_folder(test) else Pictures()
    label = described.get("label_column")
    if label is not None:
        try:
            return read(test, pictures, screen, columns=columns, label_column=label)
        except InputError:  # new points need not have labels
            pass
    return read(test, pictures, screen, columns=columns)


def _test_split(source: str | None) -> str | None:
    """The test images of the fetched set whose training images `source` names."""
    named = split_of(source) if source is not None and is_name(source) else None
    if named is None or named[1] != "train" or "test" not in SOURCES[named[0]].splits:
        return None
    return f"{named[0]}:test"


def _others(
    asked: list[str], model: GEDI, columns: list[str] | None, screen: Screen
) -> dict[str, Dataset]:
    """Data outside by name; NAME=DATA, or DATA alone, whose own name it then has."""
    found: dict[str, Dataset] = {}
    for text in asked:
        name, equals, data = text.partition("=")
        if not equals or Path(text).exists():
            name, data = "", text
        if equals and not data:
            raise InputError(f"--ood {text}: write it as NAME=DATA, or DATA alone")
        dataset = _read_outside(data, model, columns, screen)
        name = name or dataset.name
        if name in found:
            raise InputError(f"--ood {text}: there are two sets called {name}; write NAME=DATA")
        found[name] = dataset
    return found


def _read_outside(data: str, model: GEDI, columns: list[str] | None, screen: Screen) -> Dataset:
    """Images of a folder may have sizes of their own; then they are read in the model's."""
    try:
        return read(data, Pictures(), screen, columns=columns)
    except InputError:
        shape = tuple(model.box_.low.shape)
        if not is_folder(data) or len(shape) != 3:
            raise
        screen.message(f"{data}: read at {shape[2]}x{shape[1]} pixels")
        return read(data, Pictures(size=(shape[1], shape[2])), screen)
