"""Where the fits of an experiment run: joblib's own backends, on this machine or on a cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from gedilearn.errors import InputError, suggestion

# Backends that another package brings: the module that must be there, and what installs it.
BROUGHT = {"dask": ("distributed", "dask[distributed]"), "ray": ("ray", "ray")}


@contextmanager
def fits_on(backend: str | None, workers: int) -> Iterator[None]:
    """Let joblib use a backend by its name for what runs meanwhile; None leaves it as it is.

    With 1 worker as many as the backend has. Dask's finds its cluster by the environment
    (DASK_SCHEDULER_ADDRESS), Ray's too (RAY_ADDRESS).
    """
    if backend is None:
        yield
        return
    from joblib import parallel_config
    from joblib.parallel import BACKENDS

    if backend in BROUGHT:
        module, package = BROUGHT[backend]
        if importlib.util.find_spec(module) is None:
            raise InputError(f'backend {backend!r} is not installed: pip install "{package}"')
        if backend == "ray":
            from ray.util.joblib import register_ray  # type: ignore[import-not-found, unused-ignore]

            register_ray()
    elif backend not in BACKENDS:
        known = [*BACKENDS, *(name for name in BROUGHT if name not in BACKENDS)]
        raise InputError(f"unknown backend {backend!r}{suggestion(backend, known)}")
    try:
        config = parallel_config(backend=backend, n_jobs=-1 if workers == 1 else workers)
    except (ValueError, OSError) as error:  # a cluster that is not there
        raise InputError(f"backend {backend!r}: {' '.join(str(error).split())}") from None
    with config:
        yield
