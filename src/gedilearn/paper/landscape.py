"""Theorem 1 and Table 1 of the paper, measured: which term penalises which failure mode.

Every failure mode is built as a function x -> logits on two moons whose density p is known, and
every term is evaluated there against its optimum:

    GEN    CE(p, p_Theta) >= H(p)     both by quadrature on one grid over the data's box
    INV    CE(p(y|x'), p(y|x)) >= 0   over the 400 points and their views
    PRIOR  CE(p(y), q(y)) >= log c    over the 400 points

A term *admits* a mode if one construction of the mode reaches the term's optimum, and penalises it
if none does: a cell of the table is the verdict over all of its rows. Numbers prove a No; a Yes is
measured for the constructions below, and is the paper's to prove for the rest. Where the paper's
argument needs a word more, docs/results/landscape.md has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from gedilearn.data.arrays import Scaling
from gedilearn.data.toy import moons
from gedilearn.graph.views import NoiseViews
from gedilearn.methods.terms import invariance, prior, target_entropy
from gedilearn.models.energy import log_density
from gedilearn.paper import table
from gedilearn.paper.runner import Runner
from gedilearn.paper.table import Group, Row, Table
from gedilearn.sampling.langevin import Box

Logits = Callable[[Tensor], Tensor]  # (n, 2) -> (n, clusters)
Values = dict[str, float]  # of the terms, in nats

N_POINTS = 400
NOISE = 0.05  # of the moons, before they are standardised
VIEW_NOISE = 0.03
NODES = 100  # a side; one to three for each standard deviation of the noise
CLUSTERS = 2
# Stands for the infinite f_j - f_y of the definitions: exp(-50) is below float64's resolution.
MARGIN = 50.0
TOLERANCE = 1e-3  # nats

GEN, INV, PRIOR, GEDI = "GEN", "INV", "PRIOR", "GEDI"  # GEDI: the sum of the three, Eq. 5
TERMS = (GEN, INV, PRIOR, GEDI)
REPRESENTATION, CLUSTER, PERMUTATION = "Repr. collapse", "Clus. collapse", "Perm. inv."
MODES = (REPRESENTATION, CLUSTER, PERMUTATION)
NO_FAILURE, FOOTNOTE = "No failure", "Perm., collapsed"  # not in Table 1


class World(NamedTuple):
    """Moons with a density that is known, and a grid over their box.  All float64."""

    x: Tensor  # (n, 2)
    view: Tensor  # (n, 2)
    y: Tensor  # (n,): the true moons
    nodes: Tensor  # (m, 2): the centres of the grid's cells
    cell: float  # the volume of one
    log_p: Tensor  # (m,): the density at the nodes, normalised by their own sum
    log_moons: Logits  # log p(x, moon) anywhere: (n, 2) -> (n, moons)


def build_world(random_state: int, generator: Generator, nodes: int = NODES) -> World:
    """The points, and their density: one normal for each point of the noiseless moons."""
    data = moons(N_POINTS, NOISE, random_state)
    curves = moons(N_POINTS, 0.0, random_state)
    assert data.y is not None and curves.y is not None
    scaling = Scaling.fit(data.x)
    x = torch.from_numpy(scaling.apply(data.x)).double()
    centres = torch.from_numpy(scaling.apply(curves.x)).double()
    sides = [centres[torch.from_numpy(curves.y == k)] for k in range(CLUSTERS)]
    sigma = NOISE / torch.from_numpy(scaling.scale)

    def unnormalised(points: Tensor) -> Tensor:
        squares = [(points[:, None] / sigma - side / sigma).square().sum(-1) for side in sides]
        return torch.stack([log_density(-s / 2) for s in squares], dim=-1)

    grid, cell = quadrature(Box.around(x), nodes)
    log_p = log_density(unnormalised(grid))
    log_mass = log_integral(log_p, cell)
    return World(
        x=x,
        view=NoiseViews(VIEW_NOISE).draw(torch.arange(len(x)), x, 0.0, generator),
        y=torch.from_numpy(data.y),
        nodes=grid,
        cell=cell,
        log_p=log_p - log_mass,
        log_moons=lambda points: unnormalised(points) - log_mass,
    )


def quadrature(box: Box, nodes: int) -> tuple[Tensor, float]:
    """The midpoint rule on a box: the centres of nodes**d equal cells, and the volume of one."""
    width = (box.high - box.low) / nodes
    steps = torch.arange(nodes, dtype=width.dtype) + 0.5
    axes = [low + w * steps for low, w in zip(box.low, width, strict=True)]
    return torch.cartesian_prod(*axes), float(width.prod())


def log_integral(log_values: Tensor, cell: float) -> Tensor:
    """log of the integral of exp(log_values) over the grid: (nodes,) -> ()."""
    return torch.logsumexp(log_values, dim=0) + math.log(cell)


def cross_entropy(log_p: Tensor, logits: Tensor, cell: float) -> Tensor:
    """CE(p, p_Theta) over the grid, Gamma included.  (nodes,), (nodes, clusters) -> ()."""
    energy = log_density(logits)
    return log_integral(energy, cell) - (log_p.exp() * cell * energy).sum()


def entropy(log_p: Tensor, cell: float) -> Tensor:
    """H(p) over the grid: (nodes,) -> ()."""
    return -(log_p.exp() * cell * log_p).sum()


def constant_encoder(*logits: float) -> Logits:
    """Failure mode 1: enc(x) = k for all x, so that the head has the same logits everywhere."""
    constant = torch.tensor(logits, dtype=torch.float64)
    return lambda x: constant.expand(len(x), -1)


def collapsed_clusters(world: World) -> Logits:
    """Failure mode 2 with p_Theta = p: the first logit is log p(x), the other MARGIN below it."""
    offsets = torch.tensor([0.0, -MARGIN], dtype=torch.float64)
    return lambda x: log_density(world.log_moons(x))[:, None] + offsets


def separated_moons(world: World) -> Logits:
    """No failure: p_Theta = p, and each point belongs to its own moon by MARGIN nats."""

    def function(x: Tensor) -> Tensor:
        by_moon = world.log_moons(x)
        other = by_moon < by_moon.amax(-1, keepdim=True)
        return log_density(by_moon)[:, None] - MARGIN * other

    return function


def run(runner: Runner) -> list[Table]:
    """Theorem 1 and Table 1: which term of the loss penalises which failure mode."""
    return runner.finish("landscape", measure(), tables)


def measure(random_state: int = 0) -> list[Row]:
    """Every term at every construction, one row each; plain JSON values."""
    generator = Generator().manual_seed(random_state)  # of views and permutations
    world = build_world(random_state, generator)
    separated = separated_moons(world)
    collapsed = [
        (REPRESENTATION, "uniform", constant_encoder(0.0, 0.0)),
        (REPRESENTATION, "confident", constant_encoder(0.0, -MARGIN)),
        (CLUSTER, "f_j = log p", collapsed_clusters(world)),
    ]
    log_c = float(target_entropy(None, CLUSTERS))
    rows = []

    least = _with_sum(float(entropy(world.log_p, world.cell)), 0.0, log_c)
    for mode, construction, model in [(NO_FAILURE, "true moons", separated), *collapsed]:
        gen = cross_entropy(world.log_p, model(world.nodes), world.cell)
        rows += _compared(mode, construction, _terms(gen, model(world.x), model(world.view)), least)

    pair = torch.arange(len(world.x))
    ends = [int((world.y == k).nonzero()[0]) for k in range(CLUSTERS)]
    pair[ends] = pair[ends[::-1]]
    shuffled = torch.randperm(len(pair), generator=generator)

    # The theorem swaps points, so GEN is a mean over points here, and its optimum that of -log p.
    # Definition 3 has a data set (x_i, t_i, t'_i); Gamma is an integral over x.
    least = _with_sum(float(-log_density(world.log_moons(world.x)).mean()), 0.0, log_c)
    log_gamma = log_integral(log_density(separated(world.nodes)), world.cell)
    t, t_view = separated(world.x), separated(world.view)
    before = _terms(log_gamma - log_density(t).mean(), t, t_view)
    for construction, order in [("one pair", pair), ("all points", shuffled)]:
        after = _terms(log_gamma - log_density(t[order]).mean(), t[order], t_view)
        rows += _compared(PERMUTATION, construction, after, least, before)
    for _, construction, model in collapsed:
        t, t_view = model(world.x), model(world.view)
        kept, swapped = ({INV: float(invariance(u, t_view))} for u in (t, t[shuffled]))
        rows += _compared(FOOTNOTE, construction, swapped, least, kept)
    return rows


def _terms(gen: Tensor, t: Tensor, t_view: Tensor) -> Values:
    return _with_sum(float(gen), float(invariance(t, t_view)), float(prior(t)))


def _with_sum(gen: float, inv: float, pri: float) -> Values:
    return {GEN: gen, INV: inv, PRIOR: pri, GEDI: gen + inv + pri}


def _compared(
    mode: str, construction: str, values: Values, least: Values, before: Values | None = None
) -> list[Row]:
    """A row for each term: its value at a construction, and its optimum.

    `before` is the loss before predictions are swapped, of mode 3 alone.
    """
    rows = []
    for term, value in values.items():
        row: Row = {"term": term, "mode": mode, "construction": construction, "value": value}
        row |= {"before": before and before[term], "optimum": least[term]}
        row["excess"] = value - least[term]
        # A permutation is penalised if the loss sees it, a model if it is not optimal.
        seen = abs(value - before[term]) if before else row["excess"]
        row["penalises"] = "Yes" if seen > TOLERANCE else "No"
        row["paper"] = table.PAPER["landscape"][term].get(mode, "No")
        rows.append(row)
    return rows


# --- showing ------------------------------------------------------------------------------------


def _penalises(mode: str, group: Group) -> str:
    """Whether a term penalises a mode, with the excess in nats of each construction of the mode."""
    rows = [row for row in group if row["mode"] == mode]
    verdict = "Yes" if all(row["penalises"] == "Yes" for row in rows) else "No"
    doubt = "" if verdict == rows[0]["paper"] else f" (paper: {rows[0]['paper']})"
    return f"{verdict}{doubt}: {', '.join(table.number(row['excess'], 3) for row in rows)}"


def tables(rows: Group) -> list[Table]:
    """Table 1 of the paper, with measured numbers, and every row."""
    columns: dict[str, table.Text] = {"term": table.label("term")}
    for mode in MODES:
        built = ", ".join(r["construction"] for r in rows if (r["term"], r["mode"]) == (GEN, mode))
        columns[f"{mode} ({built})"] = partial(_penalises, mode)
    numbers = {
        **{name: table.label(name) for name in ("mode", "construction", "term")},
        **{name: table.statistic(name) for name in ("value", "before", "optimum", "excess")},
        **{name: table.label(name) for name in ("penalises", "paper")},
    }
    head = "Table 1: does a term penalise a failure mode? With the excess over its optimum, in nats"
    return [
        table.make(head, columns, table.grouped(rows, term=TERMS)),
        table.make("Every construction, in nats", numbers, [[row] for row in rows]),
    ]
