"""What the commands of `gedi reproduce` may be asked for: options that several of them have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

Number: Any = partial(typer.Option, metavar="N", min=1, max=1_000_000)
Names: Any = partial(typer.Option, metavar="A,B")
Seeds = Annotated[int, Number(help="Seeds 0 to N-1.")]
Workers = Annotated[int, Number(min=None, max=None, help="Fits at once, a process each.")]
Backend = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where fits run, by joblib: loky, threading, dask or ray; with --workers 1, as many "
        "at once as it has.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where results are kept, with a folder for each preset or scale if there are several; "
        "in gedi-runs if not given.",
    ),
]
Preset = Annotated[
    str, typer.Option(metavar="NAME", help="One of default, paper/toy, paper/toy-literal.")
]
Sets = Annotated[str | None, Names(help="Only these of moons,circles; both otherwise.")]
SomeSets = Annotated[
    str | None, Names(help="Only these sets, as moons,circles,rings; all otherwise.")
]
Methods = Annotated[
    str | None,
    Names(
        help="Only these of jem,barlow,swav,no-unif,no-inv,no-gen,gedi (which are all) and "
        "dino,deepcluster,ebclr (which are not in the paper)."
    ),
]
Iterations = Annotated[
    int | None,
    Number(help="Shorten the training to N iterations, for a quick look; the results say so."),
]
RIVALS = "Only these of gedi,kmeans,gmm,spectral,spectral-local,hdbscan,genie (extra yardsticks)."
