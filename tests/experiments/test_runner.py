"""Rows made cell by cell: what is run, what is not run again, and where."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import threading
import warnings

import joblib
import pytest
import threadpoolctl
from joblib.parallel import ThreadingBackend, get_active_backend

from gedilearn.errors import InputError
from gedilearn.experiments.runner import Cell, Runner

CELLS = [Cell("moons", "a", (0, 1, 2), ("a", "a too")), Cell("moons", "b", (0, 1), ("b",))]


def work(cell, n, settings):
    """Each row says where it was made, and with whom."""
    where = {"thread": threading.current_thread().name, "process": os.getpid()}
    return [
        {"data": cell.data, "method": name, "seed": seed, "with": list(cell.seeds), **where}
        for name in cell.rows
        for seed in cell.seeds
    ]


def kept(out):
    return [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]


def test_rows_come_in_the_order_of_the_cells_seed_by_seed():
    rows = Runner().rows_of_cells(CELLS, work, 5)
    assert [(r["method"], r["seed"]) for r in rows] == [
        *(("a", 0), ("a too", 0), ("a", 1), ("a too", 1), ("a", 2), ("a too", 2)),
        *(("b", 0), ("b", 1)),
    ]


def test_only_the_seeds_that_lack_a_row_are_run_again_and_no_row_is_kept_twice(tmp_path):
    first = Runner(tmp_path).rows_of_cells(CELLS, work, 5)
    lines = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    gone = [i for i, r in enumerate(kept(tmp_path)) if (r["method"], r["seed"]) == ("a too", 1)]
    del lines[gone[0]]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    told = []
    runner = Runner(tmp_path, tell=lambda r, left: told.append((r, left)))
    rows = runner.rows_of_cells(CELLS, work, 5)
    ((row, left),) = told
    assert (row["method"], row["seed"], row["with"], left) == ("a too", 1, [1], 0)
    assert [r for r in rows if r is not row] == [
        r for r in first if (r["method"], r["seed"]) != ("a too", 1)
    ]
    names = [(r["data"], r["method"], r["seed"]) for r in kept(tmp_path)]
    assert len(names) == len(set(names)) == 8


def test_what_was_done_before_an_interruption_is_kept(tmp_path):
    def interrupted(cell, *others):
        if cell.method == "b":
            raise KeyboardInterrupt
        return work(cell, *others)

    with pytest.raises(KeyboardInterrupt):
        Runner(tmp_path).rows_of_cells(CELLS, interrupted, 5)
    assert len(kept(tmp_path)) == 6
    told = []
    runner = Runner(tmp_path, tell=lambda r, _: told.append(r["method"]))
    runner.rows_of_cells(CELLS, work, 5)
    assert told == ["b", "b"]


def test_no_more_processes_are_started_than_there_are_cells(tmp_path):
    for _ in range(2):  # the second time there is none to run
        rows = Runner(tmp_path, workers=10**12).rows_of_cells(CELLS[:2], work, 5)
        assert len(rows) == 8


def test_a_backend_chosen_by_the_caller_runs_the_cells():
    with joblib.parallel_config(backend="threading", n_jobs=2):
        rows = Runner().rows_of_cells(CELLS, work, 5)
    assert threading.current_thread().name not in {r["thread"] for r in rows}
    assert [r["method"] for r in rows][-2:] == ["b", "b"]


def test_a_backend_that_gives_no_results_early_is_asked_in_rounds(tmp_path):
    cells = [Cell("moons", name, (0,), (name,)) for name in "bcdef"]
    sizes = []
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        runner = Runner(tmp_path, tell=lambda r, left: sizes.append(left))
        rows = runner.rows_of_cells(cells, work, 5)
    assert [r["method"] for r in rows] == list("bcdef") and sizes == [4, 3, 2, 1, 0]
    assert os.getpid() not in {r["process"] for r in rows[:4]}


def test_a_row_has_its_key_plain_values_and_as_many_threads_as_asked_for():
    def fit(data, method, seed, n, settings):
        warnings.warn("not worth a line", stacklevel=1)
        pools = threadpoolctl.threadpool_info()
        return {"score": math.inf, "threads": max(pool["num_threads"] for pool in pools)}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = Runner().rows([("moons", "a", 3)], fit, 5, threads=1)
    assert list(row.items()) == [
        *(("data", "moons"), ("method", "a"), ("seed", 3), ("score", "inf"), ("threads", 1))
    ]


def test_a_backend_is_chosen_by_its_name(tmp_path):
    rows = Runner(tmp_path, workers=2, backend="threading").rows_of_cells(CELLS, work, 5)
    assert threading.current_thread().name not in {r["thread"] for r in rows}
    assert get_active_backend()[0].__class__.__name__ == "LokyBackend"  # as it was before


def test_a_backend_that_a_package_has_registered_is_as_good_as_joblibs_own(monkeypatch):
    used = []

    class Far(ThreadingBackend):
        def effective_n_jobs(self, n_jobs):
            used.append(n_jobs)
            return super().effective_n_jobs(2 if n_jobs == -1 else n_jobs)

    monkeypatch.setattr(joblib.parallel, "BACKENDS", dict(joblib.parallel.BACKENDS))
    joblib.register_parallel_backend("far", Far)
    rows = Runner(backend="far").rows_of_cells(CELLS, work, 5)
    assert threading.current_thread().name not in {r["thread"] for r in rows}
    assert -1 in used  # as many as it has


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dask", "backend 'dask' is not installed: pip install \"dask\\[distributed\\]\""),
        ("ray", "backend 'ray' is not installed: pip install \"ray\""),
        ("threadin", "unknown backend 'threadin'.*did you mean 'threading'"),
    ],
)
def test_a_backend_that_is_not_there_is_one_line(name, words, monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    with pytest.raises(InputError, match=words):
        Runner(tmp_path / "new", backend=name).rows_of_cells(CELLS, work, 5)
    assert not (tmp_path / "new").exists()
