"""What can be added from outside: methods, views, samplers, parts of a base, data sets, presets
and experiments, by name.

Each registry knows its built-in entries as "module:attribute" and imports one when it is asked for,
so that names can be listed and checked without importing torch. `register` adds an entry of your
own; CONTRIBUTING.md shows one of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from gedilearn.errors import InputError, suggestion


def imported(entry: Any) -> Any:
    """The entry, imported if it is a "module:attribute" or a "module:dict:key"."""
    if not isinstance(entry, str):
        return entry
    module, attribute, *keys = entry.split(":")
    found = getattr(import_module(module), attribute)
    return found[keys[0]] if keys else found


class Registry:
    """Named entries of one kind, in the order in which they were added."""

    def __init__(self, kind: str, **built_in: str) -> None:
        self.kind = kind
        self._entries: dict[str, Any] = {
            name.replace("_", "-"): where for name, where in built_in.items()
        }

    def register(self, name: str, entry: Any) -> Any:
        """Add an entry, or replace one; the entry itself is returned."""
        self._entries[name] = entry
        return entry

    def remove(self, name: str) -> None:
        """Forget an entry."""
        del self._entries[name]

    def check(self, name: str) -> str:
        """The name, if there is such an entry; otherwise one line with the nearest known one."""
        if name not in self._entries:
            raise InputError(f"unknown {self.kind} {name!r}{suggestion(name, self)}")
        return name

    def __getitem__(self, name: str) -> Any:
        entry = self._entries[name] = imported(self._entries[self.check(name)])
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)


# Subclasses of `methods.settings.MethodSettings`, each of which names its `Method`.
METHODS = Registry(
    "method",
    gedi="gedilearn.methods.settings:GEDI",
    no_gen="gedilearn.methods.settings:NoGen",
    no_inv="gedilearn.methods.settings:NoInv",
    no_unif="gedilearn.methods.settings:NoUnif",
    jem="gedilearn.methods.settings:JEM",
    swav="gedilearn.methods.settings:SwAV",
    barlow="gedilearn.methods.settings:Barlow",
    dino="gedilearn.methods.settings:Dino",
    deepcluster="gedilearn.methods.settings:DeepCluster",
    ebclr="gedilearn.methods.settings:Ebclr",
)
# Functions (settings, data, n_clusters, seed) -> `graph.views.Views`.
VIEWS = Registry(
    "view",
    walk="gedilearn.graph.views:walk_views",
    noise="gedilearn.graph.views:noise_views",
    grey="gedilearn.graph.views:grey",
    paper="gedilearn.graph.views:paper",
)
# Functions (`sampling.langevin.SamplerContext`) -> `Sampler` there, which draws x~ for GEN.
SAMPLERS = Registry(
    "sampler",
    langevin="gedilearn.sampling.langevin:replay_buffer",
    importance="gedilearn.density.samplers:Proposals",
    chains="gedilearn.density.samplers:BaseChains",
)
# Classes of `density.parts.Part`, of which the base of a density is a weighted sum.
PARTS = Registry(
    "part of the base",
    wide_gaussian="gedilearn.density.candidates:WideGaussian",
    outliers="gedilearn.density.candidates:Outliers",
    kernels="gedilearn.density.candidates:Kernels",
    mixture="gedilearn.density.candidates:Mixture",
    flow="gedilearn.density.flow:Flow",
)
# Functions () -> `data.dataset.Dataset`. One with `splits`, as those of the published sets, also
# takes the name of a split: NAME:test.
_PUBLISHED = ("mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "svhn-extra")
DATA_SETS = Registry(
    "data set",
    moons="gedilearn.data.toy:moons",
    circles="gedilearn.data.toy:circles",
    digits="gedilearn.data.toy:digits",
    **{name: f"gedilearn.paper.published:SETS:{name}" for name in _PUBLISHED},
)
# Values of `presets.Preset`: settings under a name.
_PAPER_SETS = ("svhn", "cifar10", "cifar100")
PRESETS = Registry(
    "preset",
    default="gedilearn.presets:DEFAULT",
    **{
        name: f"gedilearn.paper.presets:PRESETS:{name}"
        for name in (
            *("alike/random", "alike/start", "paper/toy-literal", "paper/toy"),
            *(f"{scale}/{data}" for scale in ("paper", "small") for data in _PAPER_SETS),
            *(f"paper/{data}-signed" for data in _PAPER_SETS),
        )
    },
)
# Functions (`paper.runner.Runner`, options of `gedi reproduce`) -> tables to print.
EXPERIMENTS = Registry(
    "experiment",
    landscape="gedilearn.paper.landscape:run",
    toy="gedilearn.paper.toy:run",
    labels="gedilearn.paper.toy:labels",
    generation="gedilearn.paper.toy:generation",
    sensitivity="gedilearn.paper.sensitivity:run",
    images="gedilearn.paper.images:run",
)
