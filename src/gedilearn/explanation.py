"""What defines each cluster: the columns in which it differs, its words, and rows to look at.

`explain` makes an `Explanation` of a model's outputs for each row; a run keeps it in profile.json,
with a preview of the rows in preview.safetensors.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import FiniteFloat, TypeAdapter

from gedilearn.data.arrays import FEW_COLUMNS, Scaling, evenly_spaced, listing
from gedilearn.errors import InputError
from gedilearn.io import RESTORE, digits, read_json, reading, write_json, write_tensors
from gedilearn.settings import Kind
from gedilearn.starts.choose import adjusted_mutual_info
from gedilearn.training.run import RunDirectory, read_config
from gedilearn.verdict.hierarchy import check, groups_at, levels, partners
from gedilearn.verdict.outputs import Outputs

if TYPE_CHECKING:
    import pandas as pd

Names = Sequence[str] | None  # of columns; None: their numbers
Kinds = Sequence[Kind] | None  # of columns; None: numbers, or shares where all are 0 or 1

MOST_COLUMNS = 5  # named for each cluster
MEDIUM_EFFECT, LARGE_EFFECT = 0.5, 2.0  # Cohen's d from which a column is named; "much" higher
SUFFICIENT_AMI = 0.9  # adjusted mutual information of the clusters and one column alone
MOST_TRIED, MOST_SEARCHED = 50, 5_000  # columns and rows of the search for such a column
ROUNDING = 1e-10
MOST_ROWS = 5  # named of each kind, for each cluster; also values of a row
MOST_OUTLIERS = 10  # of all rows
MOST_NEIGHBOURS = 3
MOST_WORDS, MOST_LETTERS = 5, 200  # of a cluster; of the text of a row
LEAST_MEAN = 0.001  # the mean probability from which another cluster is named as similar
LEAST_SECOND = 0.005  # the probability from which a row's second cluster is named
NO_DENSITY = "The density was not learnt, so no row is called unusual."
SINGLE_COLUMN = (
    "The column {} alone reproduces the clusters (AMI {:.2f}): a few thresholds on it give the "
    "same groups. Check that it is not a row number, a date or a known answer."
)
MOST_PREVIEWED, LEAST_PREVIEWED = 5_000, 100  # rows; the fewer, the larger they are
MOST_BYTES = 64_000_000


def day(days: float) -> str:
    """2024-03-01, for days since 1970."""
    return str(np.datetime64(math.floor(days), "D"))


def minute(hours: float) -> str:
    """18:30, for hours since midnight, also of the day before or after."""
    return "{:02}:{:02}".format(*divmod(round(60 * hours) % 1440, 60))


# How values of each kind are written, and the words for more and for less.
SHARE = "{:.0%}".format, "more often", "less often"
FORMATS: dict[Kind, tuple[Callable[[float], str], str, str]] = {
    "number": (digits, "higher", "lower"),
    "boolean": SHARE,
    "category": SHARE,
    "date": (day, "later", "earlier"),
    "time": (minute, "later", "earlier"),
}


@dataclass(frozen=True)
class Difference:
    """How the rows of a cluster differ in one column from all other rows."""

    column: str
    effect: float  # Cohen's d: the difference of the means in pooled standard deviations
    mean: float  # of the cluster
    others: float  # the mean of all other rows
    kind: Kind = "number"

    @property
    def words(self) -> str:
        """'higher income', 'much later joined', 'never smoker'."""
        if FORMATS[self.kind] is SHARE and min(abs(self.mean), abs(1 - self.mean)) < ROUNDING:
            return f"{'always' if self.mean > 0.5 else 'never'} {self.column}"
        _, more, less = FORMATS[self.kind]
        much = "much " if abs(self.effect) >= LARGE_EFFECT else ""
        return f"{much}{more if self.effect > 0 else less} {self.column}"

    def written(self, mean: float) -> str:
        """A mean of the column as people write it: a share in percent, a date as a day."""
        return FORMATS[self.kind][0](mean)

    def __str__(self) -> str:
        mean = "" if FORMATS[self.kind] is SHARE else "mean "
        effect = f"effect {self.effect:+.2f}" if math.isfinite(self.effect) else "no overlap"
        means = f"{mean}{self.written(self.mean)}, others {self.written(self.others)}"
        return f"{self.column}: {means}; {effect}"


@dataclass(frozen=True)
class Row:
    """A row of the data, counted from 0, with the model's outputs."""

    row: int
    cluster: int
    probability: float  # of its cluster
    second: int | None  # the next likely cluster, from `LEAST_SECOND` on
    values: dict[str, FiniteFloat]  # of the columns that differ most in its cluster
    log_density: float | None = None  # None if it was not learnt
    trust: float | None = None  # of a row of the fit, where training had an initial clustering
    text: str = ""  # its beginning, if the rows have text
    outlier: float | None = None  # the outlier score, if the density has a base
    reason: str = ""  # the cell that makes it unusual


@dataclass(frozen=True)
class Profile:
    """One cluster."""

    cluster: int
    size: int
    share: float  # of all rows
    probability: float  # the mean over its rows
    words: str  # 'higher income, lower age', and words of its texts; empty for images
    differences: tuple[Difference, ...]  # the columns with the largest effects, the largest first
    # Highest log p(x) + log p(y|x), next to the mode of p(x|y); of embeddings next to the mean.
    typical: tuple[Row, ...]
    uncertain: tuple[Row, ...]  # lowest p(y|x)
    outliers: tuple[Row, ...]  # lowest log p(x); none if it was not learnt
    # Other clusters with the mean probability that its rows give them, the most probable first.
    neighbours: dict[int, float]
    terms: tuple[str, ...] = ()  # words that its text has more often than that of others
    partners: tuple[int, ...] = ()  # the clusters of the group that it merges with first

    def short_words(self, most: int) -> str:
        """At most so many columns that differ and words of its texts; else its typical rows."""
        words = [*(difference.words for difference in self.differences), *self.terms][:most]
        rows = f"rows such as {listing([r.row for r in self.typical[:most]])}"
        return ", ".join(words) or self.words or rows * bool(self.typical)

    def __str__(self) -> str:
        lines = [f"cluster {self.cluster}: {self.size} rows ({self.share:.1%})"]
        if not self.size:
            return lines[0]
        lines += [self.words] if self.words else []
        lines += [f"  {difference}" for difference in self.differences]
        parts = {
            "typical rows": [str(r.row) for r in self.typical],
            "uncertain rows": [
                f"{r.row}" if r.second is None else f"{r.row} ({r.probability:.2f}, or {r.second})"
                for r in self.uncertain
            ],
            "unusual rows": [str(r.row) for r in self.outliers],
            "most similar": [f"cluster {k} ({p:.3f})" for k, p in self.neighbours.items()],
            "merges first with": [f"cluster {listing(self.partners, 8)}"] * bool(self.partners),
        }
        lines += [f"{name}: {', '.join(words)}" for name, words in parts.items() if words]
        lines += [f'  "{row.text}"' for row in self.typical if row.text]
        return "\n  ".join(lines)


@dataclass(frozen=True)
class Explanation:
    """What defines each cluster; `str` gives it in words."""

    n_samples: int
    columns: tuple[str, ...]  # by name; empty for images and embeddings
    clusters: tuple[Profile, ...]
    outliers: tuple[Row, ...]  # of all rows: highest outlier score, or lowest log p(x)
    warnings: tuple[str, ...]
    kinds: dict[str, Kind] = field(default_factory=dict)  # of columns that are not plain numbers
    merges: tuple[tuple[float, ...], ...] = ()  # the hierarchy of the clusters, if it is known

    @property
    def hierarchy(self) -> np.ndarray:
        """How the clusters merge, as `GEDI.hierarchy_`."""
        return np.array(self.merges, dtype=np.float64).reshape(-1, 4)

    def levels(self) -> dict[int, np.ndarray]:
        """A tree of few levels: by their numbers of groups, the group of each cluster."""
        sizes = np.array([profile.size for profile in self.clusters])
        if len(self.merges) != len(sizes) - 1:
            raise InputError("the hierarchy of these clusters was not kept: fit anew")
        return {k: groups_at(self.hierarchy, k, sizes) for k in levels(self.hierarchy)}

    @staticmethod
    def words_of(group: Sequence[Profile]) -> str:
        """Words for a cluster, or for several: those that most of them have."""
        if len(group) == 1:
            return group[0].short_words(MOST_WORDS)
        counts = Counter(term for profile in group for term in profile.terms)
        return ", ".join(term for term, _ in counts.most_common(MOST_WORDS))

    @property
    def rows(self) -> list[int]:
        """All rows that are named, each once, in their order."""
        named = {row.row for row in self.outliers}
        for profile in self.clusters:
            named |= {r.row for r in (*profile.typical, *profile.uncertain, *profile.outliers)}
        return sorted(named)

    def format_of(self, column: str) -> Callable[[float], str] | None:
        """How values of a column are written, if they are dates or times of day."""
        kind = self.kinds.get(column, "number")
        return FORMATS[kind][0] if kind in ("date", "time") else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> Explanation:
        """The value that `to_json` gave; anything else is a ValueError."""
        read = TypeAdapter(Explanation).validate_python(content)
        numbers = [profile.cluster for profile in read.clusters]
        n = sum(profile.size for profile in read.clusters)
        if numbers != list(range(len(numbers))) or n != read.n_samples:
            raise ValueError("its clusters and rows do not belong together")
        if read.merges:
            check(read.hierarchy, len(numbers))
        return read

    def __str__(self) -> str:
        head = f"{self.n_samples} rows in {len(self.clusters)} clusters"
        rows = [f"{r.row} ({r.outlier:.1f}): {r.reason}" for r in self.outliers if r.reason]
        unusual = ["\n  ".join(["most unusual rows, and why", *rows])] * bool(rows)
        return "\n\n".join([head, *map(str, self.clusters), *unusual, *self.warnings])


def explain(
    x: np.ndarray,
    outputs: Outputs,
    names: Names = None,
    kinds: Kinds = None,
    texts: Sequence[str] | None = None,
    merges: np.ndarray | None = None,
    scores: np.ndarray | None = None,
    reasons: Mapping[int, str] | None = None,
) -> Explanation:
    """What defines each cluster of x: (n, d) in the data's units, or images (n, c, h, w).

    texts: (n,) of the rows, which describe the clusters too; merges: the hierarchy of the clusters
    scores: (n,) outlier scores; reasons: why some rows are outliers
    """
    import pandas as pd

    labels, probabilities = outputs.labels, outputs.probabilities
    (n, c), columns = probabilities.shape, _columns(x, names)
    kinds = kinds or ["number"] * len(columns)
    vectors = x
    if len(described := _described(columns)) < len(columns):
        x, columns = x[:, described], tuple(columns[j] for j in described)
        kinds = [kinds[j] for j in described]
    kinds = ["boolean" if k == "number" and _is_binary(x[:, j]) else k for j, k in enumerate(kinds)]
    differences: list[tuple[Difference, ...]] = [()] * c
    warnings = [] if outputs.log_density is not None else [NO_DENSITY]
    terms: list[tuple[str, ...]] = [()] * c
    if texts is not None:
        if len(texts) != n:
            raise InputError(f"{len(texts)} texts for {n} rows: give one for each")
        terms = frequent_words(texts, labels, c)
    if columns and c > 1:
        scaling = Scaling.fit(x)
        compared = compare(x, scaling.scale, labels, c)
        each = zip(*compared, strict=True)
        differences = [_largest_differences(columns, kinds, *numbers) for numbers in each]
        largest = np.argsort(-np.abs(compared[0]).max(0), kind="stable")[:MOST_TRIED]
        some = evenly_spaced(n, MOST_SEARCHED)
        alone = sufficient_columns(scaling.apply(x[some]), labels[some], largest)
        warnings += [SINGLE_COLUMN.format(columns[j], ami) for j, ami in alone.items()]
    rows, by = _frame(outputs, texts), "log_density"
    if scores is not None:
        why = [(reasons or {}).get(row, "") for row in range(n)]
        rows, by = rows.assign(outlier=scores, reason=why, usualness=-scores), "usualness"
    first = [[]] * c if merges is None or c < 3 else partners(merges)
    means = pd.DataFrame(probabilities).groupby(labels).mean().reindex(range(c))
    clusters = []
    for k in range(c):
        own, mean = rows[labels == k], means.loc[k]
        if vectors.ndim == 2 and not columns and len(own):
            distance = np.linalg.norm(vectors[labels == k] - vectors[labels == k].mean(0), axis=1)
            own = own.assign(atypicality=distance)
        shown = [difference.column for difference in differences[k]]
        near = mean.drop(k).nlargest(MOST_NEIGHBOURS)
        words = ", ".join([*(difference.words for difference in differences[k]), *terms[k]])
        if not words and len(own) and columns and c > 1:
            words = "no single column differs much from the rest"
        typical, uncertain, outliers = (
            _lowest(own, name, x, columns, shown)
            for name in ("atypicality", "probability", "log_density")
        )
        clusters.append(
            Profile(
                cluster=k,
                size=len(own),
                share=len(own) / n,
                probability=float(mean[k]),
                words=words,
                differences=differences[k],
                typical=typical,
                uncertain=uncertain,
                outliers=outliers,
                neighbours={int(j): float(p) for j, p in near.items() if p >= LEAST_MEAN},
                terms=terms[k],
                partners=tuple(first[k]),
            )
        )
    if empty := [profile.cluster for profile in clusters if not profile.size]:
        warnings.append(f"Clusters without rows: {listing(empty)}.")
    return Explanation(
        n_samples=n,
        columns=columns,
        clusters=tuple(clusters),
        outliers=_lowest(rows, by, x, columns, most=MOST_OUTLIERS),
        warnings=tuple(warnings),
        kinds={name: kind for name, kind in zip(columns, kinds, strict=True) if kind != "number"},
        merges=() if merges is None else tuple(map(tuple, merges.tolist())),
    )


# --- columns --------------------------------------------------------------------------------------


def _columns(x: np.ndarray, names: Names) -> tuple[str, ...]:
    """The names of the columns of vectors; images have none."""
    if x.ndim != 2:
        return ()
    columns = tuple(f"column {j}" for j in range(x.shape[1])) if names is None else tuple(names)
    if len(columns) != x.shape[1]:
        raise InputError(f"{len(columns)} names for {x.shape[1]} columns: give one for each")
    return columns


def _described(columns: Sequence[str]) -> list[int]:
    """The columns whose names say something: not the many numbered ones of an embedding."""
    stems = [re.sub(r"\d+", "", name, count=1) for name in columns]
    counts = Counter(stems)
    return [j for j, stem in enumerate(stems) if counts[stem] <= FEW_COLUMNS]


def _is_binary(column: np.ndarray) -> bool:
    return bool(np.isin(column, (0, 1)).all())


def compare(
    x: np.ndarray, scale: np.ndarray, labels: np.ndarray, n_clusters: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every cluster against all other rows, column by column: Cohen's d, and both means.

    x: (rows, columns); scale: (columns,), their standard deviations -> (clusters, columns) each
    """
    n, size = len(x), np.bincount(labels, minlength=n_clusters)[:, None]
    total = np.stack([x[labels == k].sum(0, dtype=np.float64) for k in range(n_clusters)])
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, others = total / size, (total.sum(0) - total) / (n - size)
        distance = (mean - others) / scale
        # The variance that is left within the cluster and within the rest, as a share of all.
        within = 1 - size * (n - size) * (distance / n) ** 2
        within = np.where(within > ROUNDING, within, 0.0) * n / max(n - 2, 1)
        effect = distance / np.sqrt(within)
    return np.where(np.isnan(effect), 0.0, effect), mean, others


def _largest_differences(
    columns: Sequence[str],
    kinds: Sequence[Kind],
    effects: np.ndarray,
    means: np.ndarray,
    others: np.ndarray,
) -> tuple[Difference, ...]:
    """Of one cluster, the largest effect first; of each category one value. Arrays: (columns,)."""
    largest: dict[str, Difference] = {}
    for j in np.argsort(-np.abs(effects), kind="stable"):
        if abs(effects[j]) < MEDIUM_EFFECT or len(largest) == MOST_COLUMNS:
            break
        numbers = float(effects[j]), float(means[j]), float(others[j])
        source = columns[j].rpartition("=")[0] if kinds[j] == "category" else columns[j]
        largest.setdefault(source, Difference(columns[j], *numbers, kinds[j]))
    return tuple(largest.values())


def sufficient_columns(z: np.ndarray, labels: np.ndarray, tried: np.ndarray) -> dict[int, float]:
    """The columns that alone reproduce the clusters, with the agreement (AMI), the best first.

    A column alone is a decision tree of it with twice as many leaves as there are clusters.
    z: (rows, columns), standardised, since the tree computes in single precision
    """
    from sklearn.tree import DecisionTreeClassifier

    used = len(np.unique(labels))
    if z.shape[1] < 2 or used < 2:
        return {}
    agreement = {}
    for j in tried.tolist():
        tree, column = DecisionTreeClassifier(max_leaf_nodes=2 * used, random_state=0), z[:, [j]]
        predicted = tree.fit(column, labels).predict(column)
        agreement[j] = adjusted_mutual_info(labels, predicted)
    best = sorted(agreement, key=lambda j: -agreement[j])[:MOST_COLUMNS]
    return {j: agreement[j] for j in best if agreement[j] >= SUFFICIENT_AMI}


def frequent_words(texts: Sequence[str], labels: np.ndarray, c: int) -> list[tuple[str, ...]]:
    """For each cluster, words that its texts have more often than those of others.

    By TF-IDF of one document a cluster; stop words are those of English.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    rows = np.asarray(texts, dtype=object)
    documents = [" ".join(map(str, rows[labels == k])) for k in range(c)]
    counter = CountVectorizer(stop_words="english")
    try:
        weights = TfidfTransformer().fit_transform(counter.fit_transform(documents))
    except ValueError:  # no words but stop words
        return [()] * c
    names = counter.get_feature_names_out()
    best = (row.indices[np.argsort(-row.data, kind="stable")[:MOST_WORDS]] for row in weights)
    return [tuple(names[at].tolist()) for at in best]


# --- rows -----------------------------------------------------------------------------------------


def _frame(outputs: Outputs, texts: Sequence[str] | None) -> pd.DataFrame:
    """The outputs of the model, row by row."""
    import pandas as pd

    labels, own = outputs.labels, outputs.probability
    at, others = np.arange(len(labels)), outputs.probabilities.copy()
    others[at, labels] = -1
    second = np.where(others.max(1) >= LEAST_SECOND, others.argmax(1).astype(object), None)
    columns = {"row": at, "cluster": labels, "probability": own, "second": second}
    columns |= {"log_density": outputs.log_density, "trust": outputs.trust}
    if texts is not None:
        columns["text"] = [" ".join(str(text).split())[:MOST_LETTERS] for text in texts]
    frame = pd.DataFrame({name: each for name, each in columns.items() if each is not None})
    with np.errstate(divide="ignore"):
        log_p = np.log(frame["probability"].astype(np.float64))
    return frame.assign(atypicality=-log_p - frame.get("log_density", 0.0))


def _lowest(
    rows: pd.DataFrame,
    by: str,
    x: np.ndarray,
    columns: Sequence[str],
    shown: Sequence[str] = (),
    most: int = MOST_ROWS,
) -> tuple[Row, ...]:
    """The rows with the lowest values, if there are any; of equal ones the first.

    Their own values are of the columns `shown`, then of the first ones.
    """
    if by not in rows:
        return ()
    names = list(dict.fromkeys([*shown, *columns[:MOST_ROWS]]))[:MOST_ROWS]
    lowest = rows.sort_values(by, kind="stable").head(most)
    lowest = lowest.drop(columns=["atypicality", "usualness"], errors="ignore")
    return tuple(
        Row(
            **outputs,
            values={name: float(x[outputs["row"], columns.index(name)]) for name in names},
        )
        for outputs in lowest.to_dict("records")
    )


# --- in a run directory ---------------------------------------------------------------------------


def keep(
    directory: RunDirectory,
    x: np.ndarray,
    outputs: Outputs,
    features: Callable[[np.ndarray], np.ndarray],
    names: Names,
    kinds: Kinds,
    texts: Sequence[str] | None = None,
    merges: np.ndarray | None = None,
    **unusual: Any,
) -> None:
    """Write the profiles of the clusters, and a preview: rows of the data with their outputs.

    These rows are evenly spaced ones, and all that the profiles name. features: enc of rows of x;
    unusual: scores and reasons of `explain`
    """
    names = read_config(directory.path).data.columns if names is None else names
    explanation = explain(x, outputs, names, kinds, texts, merges, **unusual)
    write_json(directory.profile, explanation.to_json(), None)

    is_bytes, vectors = x.dtype == np.uint8, features(x[:1])
    each = x[:1].size * (1 if is_bytes else 8) + 4 * vectors.size
    most = min(MOST_PREVIEWED, max(LEAST_PREVIEWED, MOST_BYTES // each))
    rows = np.union1d(evenly_spaced(len(x), most), np.array(explanation.rows, int)).astype(np.int64)
    preview = {
        "rows": rows,
        "points": x[rows] if is_bytes else x[rows].astype(np.float64),
        "labels": outputs.labels[rows].astype(np.int64),
        "probability": outputs.probability[rows].astype(np.float64),
        "features": features(x[rows]).astype(np.float32),
    }
    for name, values in (("log_density", outputs.log_density), ("trust", outputs.trust)):
        if values is not None:
            preview[name] = values[rows].astype(np.float64)
    write_tensors(directory.preview, {name: torch.from_numpy(a) for name, a in preview.items()})


def read_profile(directory: RunDirectory) -> Explanation:
    """The explanation that `keep` wrote, or one line that says what is wrong with it."""
    content = read_json(directory.profile)
    with reading(directory.profile, RESTORE):
        return Explanation.from_json(content)
