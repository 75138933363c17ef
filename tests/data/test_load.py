"""Reading data from paths: what comes out, and what each kind of bad file says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gedilearn.data.load import known_formats, load
from gedilearn.errors import InputError

RNG = np.random.default_rng(0)


def refusal(source: object, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        load(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes, name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.fixture
def save(tmp_path):
    def save(x: np.ndarray, name: str = "x.npy") -> Path:
        np.save(tmp_path / name, x)
        return tmp_path / name

    return save


# --- paths --------------------------------------------------------------------------------------


def test_a_path_without_a_file_suggests_the_nearest_file_or_name(write, tmp_path, monkeypatch):
    path = write("1,2\n", "iris.csv")
    message = refusal(path.with_name("iris.cvs"))
    assert "no such file" in message and "did you mean iris.csv?" in message
    assert "no such file" in refusal(tmp_path / "no" / "x.csv")
    monkeypatch.chdir(tmp_path)
    assert "did you mean moons?" in refusal("moon")


def test_a_file_named_like_a_builtin_needs_a_dot_and_slash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moons").mkdir()
    Image.new("L", (2, 2)).save(tmp_path / "moons" / "a.png")
    assert load("moons").x.shape == (1000, 2)
    assert load("./moons").x.shape == (1, 1, 2, 2)
    assert load(Path("moons")).x.shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("name", "way"),
    [("x.doc", "'.doc'"), ("x.xlsx", "as .csv"), ("x.csv.gz", "unpack"), ("x.jsonl", "as .csv")],
)
def test_an_unknown_extension_is_refused_with_the_way_out_and_the_known(write, name, way):
    message = refusal(write("1", name))
    assert way in message and known_formats() in message


@pytest.mark.parametrize(
    "name",
    [*("x.npy", "x.npz", "x.csv"), "x.tsv", "x.parquet"],
)
def test_an_empty_file_is_called_empty(write, name):
    assert "the file is empty" in refusal(write("", name))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet"])
def test_random_bytes_and_a_file_cut_short_anywhere_are_refused(tmp_path, name):
    path = tmp_path / name
    x = RNG.normal(size=(20, 3))
    if name == "x.npy":
        np.save(path, x)
    elif name == "x.npz":
        np.savez_compressed(path, x=x)
    else:
        pd.DataFrame(x, columns=list("abc")).to_parquet(path)
    whole = path.read_bytes()
    for length in (1, 5, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert str(path) in refusal(path)
    path.write_bytes(RNG.bytes(300))
    assert f"{path} is damaged" in refusal(path)


def test_permission_denied_is_one_line(save, monkeypatch):
    path = save(np.ones((2, 2)))

    def deny(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(np, "load", deny)
    assert refusal(path) == f"{path}: permission denied; make it readable"


def test_something_that_is_no_path_is_refused():
    assert "give a path" in refusal(3)
    assert "give a path" in refusal("")


@pytest.mark.parametrize("source", ["moons", "x.npy", "x.npz"])
def test_a_label_column_is_for_tables_only(source):
    assert "label_column: only for tables" in refusal(source, label_column="y")


# --- npy, npz -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "i8", "u1", "?"])
@pytest.mark.parametrize("order", "CF")
def test_npy_gives_back_the_saved_numbers(save, dtype, order):
    x = RNG.integers(0, 2, size=(6, 3)).astype(dtype, order)
    data = load(save(x))
    assert data.x.dtype.kind == "f"
    np.testing.assert_array_equal(data.x, x)
    assert (data.name, data.y, data.columns) == ("x", None, None)


def test_four_dimensions_are_channels_first_images(save, tmp_path):
    x = 100 + RNG.normal(size=(2, 3, 5, 6))
    np.testing.assert_array_equal(load(save(x)).x, x)
    last = x.transpose(0, 2, 3, 1)
    np.savez(tmp_path / "a.npz", x=last)
    for path in (save(last.astype("u1")), tmp_path / "a.npz"):
        assert "transpose(0, 3, 1, 2)" in refusal(path)
    np.savez(tmp_path / "a.npz", x=last.astype("u1"))  # bytes in an archive are understood
    np.testing.assert_array_equal(load(tmp_path / "a.npz").x, x.astype("u1"))


def test_object_arrays_are_refused_without_unpickling(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    np.save(tmp_path / "x.npy", np.array([[Bomb()]]), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=np.array([[Bomb()]]))
    assert "Python objects" in refusal(tmp_path / "x.npy")
    assert "x.npz[x] is damaged (Object arrays" in refusal(tmp_path / "x.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arrays", "x", "y"),
    [
        ({"anything": [[1, 2]]}, [[1, 2]], None),
        ({"X": [[1], [2]], "y": [0, 1]}, [[1], [2]], [0, 1]),
        ({"data": [[1], [2]], "labels": ["a", "b"], "extra": [1]}, [[1], [2]], ["a", "b"]),
        ({"train": [[1], [2]], "y": [[0.0], [1.0]]}, [[1], [2]], [0, 1]),
    ],
)
def test_npz_finds_the_data_and_the_labels(tmp_path, arrays, x, y):
    np.savez(tmp_path / "a.npz", **{key: np.array(value) for key, value in arrays.items()})
    data = load(tmp_path / "a.npz")
    assert data.x.tolist() == x
    assert (data.y if data.y is None else data.y.tolist()) == y


@pytest.mark.parametrize("keys", [("a", "b"), ("x", "X"), ("x", "y", "labels"), ()])
def test_npz_with_unclear_arrays_lists_the_keys(tmp_path, keys):
    np.savez(tmp_path / "a.npz", **dict.fromkeys(keys, np.ones((2, 1))))
    assert (", ".join(keys) or "none") in refusal(tmp_path / "a.npz")


def test_npz_labels_must_match_the_rows(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((3, 1)), y=np.ones(2))
    assert "[y]: shape (2,) for 3 rows" in refusal(tmp_path / "a.npz")


def test_an_npy_renamed_to_npz_is_refused(save, tmp_path):
    save(np.ones((2, 2))).rename(tmp_path / "b.npz")
    assert "b.npz is damaged" in refusal(tmp_path / "b.npz")


# --- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("header", ["", "a,b\n", "0,1\n", '"a, b",c\n', "\n\na,b\n"])
def test_csv_detects_the_header(write, header, start, newline):
    text = (start + header + "1.5,2\n-3,4e2\n").replace("\n", newline)
    data = load(write(text))
    assert data.x.tolist() == [[1.5, 2], [-3, 400]]
    assert (data.columns is None) == (header == "")


def test_an_all_integer_first_row_is_a_point_not_a_header(write):
    assert load(write("0,1\n1,1\n")).x.tolist() == [[0, 1], [1, 1]]
    assert load(write("3,1\n0.5,1\n")).x.tolist() == [[3, 1], [0.5, 1]]


def test_numbers_are_read_to_the_last_bit_and_names_without_quotes_and_blanks(tmp_path, write):
    x = RNG.normal(size=(50, 4)) * 10.0 ** RNG.integers(-9, 9, size=(50, 4))
    pd.DataFrame(x).to_csv(tmp_path / "t.csv", index=False)  # names 0, 1, 2, 3
    pd.DataFrame(x).to_csv(tmp_path / "t.tsv", index=False, header=list("abcd"), sep="\t")
    np.testing.assert_array_equal(load(tmp_path / "t.csv").x, x)
    np.testing.assert_array_equal(load(tmp_path / "t.tsv").x, x)
    assert load(tmp_path / "t.tsv").columns == ("a", "b", "c", "d")
    assert load(write('"a, b", c ,\n1,2,3\n')).columns == ("a, b", "c", "column 3")


def test_blank_lines_are_skipped_and_one_column_and_one_row_are_enough(write):
    assert load(write("1,2\n\n3, 4\n\n")).x.tolist() == [[1, 2], [3, 4]]
    assert load(write("1\n2\n")).x.tolist() == [[1], [2]]
    assert load(write("1,2")).x.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n7,8x\n9z,1\n", "column 'a': '9z' in row 2 (counted from 0) is not a number"),
        ("a,kind\n1,x\n3,y\n", "column 'kind': 'x' in row 0"),
        ("a,b\n1,2\n3,\n5,6\n", "column 'b': missing in row 1 (counted from 0); drop"),
        ("a,b\n1,2\n3,1e999\n5,6\n", "column 'b': infinite in row 1"),
        ("a,b\n1,2\n3\n5,6\n", "column 'b': missing in row 1"),
        ("a,b\nNA,NA\n1,2\n", "column 'a': missing in row 0"),
        ("a,b\n1,2,3\n4,5,6\n", "Length of header or names does not match length of data"),
        ("a,b\n", "no rows"),
        ("\n\n", "blank lines"),
        ("\ufeff", "blank lines"),
    ],
)
def test_cells_that_are_no_numbers_are_named_by_row_and_column(write, text, words):
    assert words in refusal(write(text))


def test_labels_are_set_aside(write):
    data = load(write('a,kind,b\n1,"x, y",2\n3,z,4\n'), label_column="kind")
    assert data.x.tolist() == [[1, 2], [3, 4]]
    assert data.y.tolist() == ["x, y", "z"] and data.columns == ("a", "b")
    data = load(write("label,0,1\n1,5,6\n0.0,7,8\n"), label_column="label")
    assert data.y.tolist() == [1, 0] and data.y.dtype == np.int64
    path = write("a,kind\n1,x\n2,\n")
    assert "no column 'knd' (did you mean 'kind'?)" in refusal(path, label_column="knd")
    assert "row 1 (counted from 0) has no label" in refusal(path, label_column="kind")
    assert "no columns except the labels" in refusal(write("y\n1\n2\n"), label_column="y")


def test_columns_are_found_by_their_names_or_in_their_order(write):
    path = write("b,text,a\n1,u,2\n3,v,4\n")
    assert load(path, columns=["a", "b"]).x.tolist() == [[2, 1], [4, 3]]
    assert "no column 'c' (there are b, text, a)" in refusal(path, columns=["a", "c"])
    assert load(write("1,2\n3,4\n"), columns=["a", "b"]).columns == ("a", "b")
    assert "no column 'a'" in refusal(write("1,2\n3,4\n"), columns=["a"])


def test_text_in_no_known_encoding_is_refused(write):
    late = b"a,b\n" + b"1,2\n" * 50_000 + b"\x81,1\n"
    assert "is damaged" in refusal(write(late))


def test_parquet_columns_of_every_number_type_are_read_without_the_index(tmp_path):
    path = tmp_path / "t.parquet"
    columns = {"i": [1, 2], "f": np.float32([0.5, 1.5]), "b": [True, False], "y": ["u", "v"]}
    pd.DataFrame(columns, index=[7, 9]).to_parquet(path)
    data = load(path, label_column="y")
    assert data.x.tolist() == [[1, 0.5, 1], [2, 1.5, 0]] and data.x.dtype == np.float64
    assert data.y.tolist() == ["u", "v"] and data.columns == ("i", "f", "b")
    assert "column 'y': 'u' in row 0" in refusal(path)
    pd.DataFrame({"a": np.zeros(0)}).to_parquet(path)
    assert "no rows" in refusal(path)


def test_without_pyarrow_the_extra_is_named(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert 'pip install "gedi-learn[parquet]"' in refusal(write("PAR1", "t.parquet"))
