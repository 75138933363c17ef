"""Programs that use the estimator: strange arguments and data, methods in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fuzz import tiny
from fuzz.contents import DTYPES
from fuzz.damage import STRANGE, mostly
from fuzz.entries import File
from fuzz.player import Case
from fuzz.settings_values import awaits_others, changes, values
from gedilearn.estimator import NAMED

HEAD = """
import copy, io, pathlib
import numpy as np, pandas as pd, scipy.sparse, torch
from sklearn.base import clone
from gedilearn import GEDI

nan, inf = float("nan"), float("inf")
rng = np.random.default_rng(0)
sound = rng.normal(size=(24, 2)) + 6 * (rng.random((24, 1)) < 0.5)
images = rng.integers(0, 256, (12, 1, 8, 8)).astype(np.uint8)
frame = pd.DataFrame(sound, columns=["a", "b"])


def attempt(call):
    "What a call gives; None where it refuses."
    before = set(pathlib.Path(".").rglob("*"))
    try:
        return call()
    except (ValueError, TypeError, OSError, MemoryError) as error:
        if isinstance(error, UnicodeError):
            raise
        assert set(pathlib.Path(".").rglob("*")) == before, "a refusal left files"


def finite(values):
    if values is not None:
        assert np.isfinite(np.asarray(values, float)).all(), "not finite"


# the case
"""


def _lines(text: str) -> list[str]:
    """One expression a line."""
    return text.strip().splitlines()


SHAPES = [
    *((24, 2), (24, 1), (1, 2), (2, 2), (0, 2), (24, 0), (24,), (), (3, 4, 5), (24, 300)),
    *((12, 1, 8, 8), (12, 3, 8, 8), (12, 2, 8, 8), (12, 1, 1, 1), (2, 1, 2, 2, 2), (12, 1, 3, 50)),
]
FILLS = _lines("""
rng.normal(size={0})
rng.normal(size={0}) * 1e200
rng.normal(size={0}) * 1e-200
rng.normal(size={0}) + 1e9
rng.standard_cauchy({0}) ** 9
rng.integers(0, 3, {0})
np.zeros({0})
np.full({0}, nan)
np.full({0}, 1e300)
np.where(rng.random({0}) < 0.02, inf, rng.normal(size={0}))
""")
ODD = _lines("""
None
5
nan
'text'
[]
[[]]
{}
[[1, 2], [3]]
[['a', 'b']] * 9
object()
iter([1])
range(24)
type
lambda: 1
io.BytesIO()
sound.tolist()
tuple(map(tuple, sound))
np.matrix(sound)
np.ma.array(sound, mask=sound > 0)
np.asfortranarray(sound)
np.broadcast_to(sound[:1], (24, 2))
np.lib.stride_tricks.as_strided(sound, (10**12, 2), (0, 0))
np.array([['1', '2']] * 24)
sound.astype(object)
sound.astype('datetime64[s]')
sound.view(np.recarray)
sound.T
sound[::-1]
images / 255
images[:, 0]
scipy.sparse.csr_matrix(sound)
frame.assign(c='x')
frame.assign(a=pd.NaT)
frame.assign(a=pd.Categorical(['x', 'y'] * 12))
frame.astype('Float64')
frame.rename(columns={'a': 'b'})
frame.rename(columns={'a': 0})
frame[['b', 'a']]
frame['a']
frame.iloc[:0]
torch.tensor(sound)
torch.tensor(sound, requires_grad=True)
torch.tensor(sound).bfloat16()
torch.zeros(24, 2).half()
torch.zeros(24, 2, device='meta')
torch.zeros(24, 2, dtype=torch.complex64)
torch.zeros(9, 2).to_sparse()
""")
VIEWS = _lines("""
lambda x: x
lambda x: x[:1]
lambda x: None
lambda x: x * nan
lambda x: x.numpy()
lambda x: x.double()
lambda: 1
torch.nn.Dropout(0.5)
print
""")
ENCODERS = _lines("""
torch.nn.Linear(2, 3)
torch.nn.Linear(5, 3)
torch.nn.Linear(2, 0)
torch.nn.Linear(2, 3).double()
torch.nn.Linear(2, 3).requires_grad_(False)
torch.nn.Linear(2, 3, device='meta')
torch.nn.LazyLinear(3)
torch.nn.Linear
torch.nn.BatchNorm1d(2)
torch.nn.Conv2d(1, 2, 3)
torch.nn.Identity()
torch.nn.Sequential()
object()
5
""")
OTHERS = {
    "random_state": [
        *("0", "None", "-1", "2**40", "1.5", "'a'", "True", "[]", "np.int64(3)"),
        *("np.random.RandomState(0)", "np.random.default_rng(0)"),
    ],
    "run_dir": [
        *("'r'", "''", "'r/s/t'", "pathlib.Path('r')", "5", "'\\0'", "'full'", "'file'"),
        *("'x' * 300", "'\\udcff'", "b'r'", "'file/r'"),
    ],
    "verbose": ["True", "False", "'a'", "None", "3"],
    "preset": ["'default'", "'paper/toy'", "'no'", "''", "5", "[]", "{}"],
    "views": VIEWS,
    "encoder": ENCODERS,
    "settings": [
        *("[0]", "5", "'a'", "{1: 2}", "{'a': 1}", "{None: 1}", "[('a', 1)]", "{'views': {}}"),
        "{'training.max_iter': 2, 'density.iterations': 1}",
    ],
}


@st.composite
def data(draw: Any) -> str:
    """An expression for X."""
    if draw(st.integers(0, 1)):
        return str(
            draw(
                mostly(st.sampled_from(["sound", "sound", "frame", "images"]), st.sampled_from(ODD))
            )
        )
    fill = draw(st.sampled_from(FILLS)).format(draw(st.sampled_from(SHAPES)))
    kind = draw(mostly(st.just(""), st.sampled_from(DTYPES[:-2])))
    return f"({fill}).astype({kind!r})" if kind else str(fill)


@st.composite
def arguments(draw: Any) -> dict[str, str]:
    """Arguments of the constructor, most of them sound, as expressions."""
    found = {"n_clusters": "2", "random_state": "0"}
    settings = dict(tiny.SETTINGS) | draw(mostly(st.just({}), changes()))
    found["settings"] = repr(settings)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from([*NAMED, *OTHERS]))
        if name in OTHERS and (name not in NAMED or draw(st.booleans())):
            found[name] = draw(st.sampled_from(OTHERS[name]))
            continue
        usual, odd = values(NAMED[name])
        value = draw(st.sampled_from(usual) | st.sampled_from(odd) | st.sampled_from(STRANGE))
        if not awaits_others(NAMED[name], value):
            found[name] = repr(value)
    return found


KINDS = ["'log_density'", "'gradient_norm'", "'confidence'", "'energy'", "'no'", "None"]
SMALL = ["0", "1", "3", "-1", "None", "2.5", "nan", "'a'", "10**15", "True", "[3]", "np.int64(2)"]


@st.composite
def calls(draw: Any) -> str:
    """A use of the estimator `model`, as a line."""
    x, small, other = draw(data()), draw(st.sampled_from(SMALL)), draw(st.sampled_from(SMALL))
    x = draw(mostly(st.sampled_from(["sound", "sound[:1]", "frame"]), st.just(x)))
    kind = draw(st.sampled_from(KINDS))
    path = draw(
        st.sampled_from(["'m.safetensors'", "'file'", "'full'", "'r'", "''", "'no/m'", "5", "None"])
    )
    given = draw(arguments())
    some = ", ".join(f"{name}={given[name]}" for name in list(given)[-2:])
    return draw(
        st.sampled_from(
            [
                f"attempt(lambda: model.predict({x}))",
                f"finite(attempt(lambda: model.predict_proba({x})))",
                f"finite(attempt(lambda: model.transform({x})))",
                f"attempt(lambda: model.score_samples({x}, {kind}))",
                f"finite(attempt(lambda: model.score_samples(sound, {kind})))",
                f"attempt(lambda: model.score({x}))",
                f"attempt(lambda: model.diagnose({x}))",
                f"attempt(lambda: model.sample({small}, steps={other}))",
                f"attempt(lambda: model.sample(2, cluster={other}))",
                f"attempt(lambda: model.sample(2, steps=2, random_state={small}))",
                "attempt(lambda: model.summary())",
                "attempt(lambda: model.get_feature_names_out())",
                f"attempt(lambda: model.save({path}))",
                f"attempt(lambda: GEDI.load({path}))",
                f"attempt(lambda: GEDI.load({path}, {some}))",
                "attempt(lambda: model.save('n.safetensors'))",
                f"attempt(lambda: GEDI.load('n.safetensors').predict({x}))",
                f"attempt(lambda: GEDI.resume({path}, {x}))",
                f"attempt(lambda: model.set_params({some}))",
                f"attempt(lambda: model.set_params(settings={small}).get_params())",
                f"attempt(lambda: model.set_params(**{{'settings__sampler.steps': {small}}}))",
                "attempt(lambda: (repr(model), model.get_params(), hash(model)))",
                "model = attempt(lambda: clone(model)) or model",
                "model = copy.deepcopy(model)",
                f"attempt(lambda: clone(model).fit_predict({x}))",
                f"attempt(lambda: clone(model).set_output(transform='pandas').fit_transform({x}))",
                f"attempt(lambda: model.fit({x}))",
                f"attempt(lambda: model.fit({x}, {other}))",
            ]
        )
    )


@st.composite
def cases(draw: Any) -> Case:
    """An estimator, in most cases fitted, and some calls."""
    given = draw(arguments())
    made = ", ".join(f"{name}={value}" for name, value in given.items())
    lines = [f"model = attempt(lambda: GEDI({made})) or GEDI(max_iter=2, w_gen=0)"]
    if draw(st.integers(0, 4)):
        lines.append(f"attempt(lambda: model.fit({draw(data())}))")
    lines += [draw(calls()) for _ in range(draw(st.integers(1, 4)))]
    written = ("r", "m.safetensors", "n.safetensors", "x" * 300, "\udcff")
    return Case(
        (File("file", b"a"), File("full/a", b"a")),
        script=HEAD + "\n".join(lines) + "\n",
        writes=written,
    )
