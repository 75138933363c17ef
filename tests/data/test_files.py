"""Tables from files and from memory: separators, decimal marks, headers, types of cells."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from gedilearn.data.files import as_frame, export_cells
from gedilearn.data.load import load
from gedilearn.errors import InputError


@pytest.fixture
def write(tmp_path):
    def write(text: str, encoding: str = "utf-8", name: str = "t.csv") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding=encoding, newline="")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("größe,b\n1.5,2\n3,4\n", "utf-8"),
        ("größe;b\r\n1.5;2\r\n3;4\r\n", "cp1252"),
        ("größe\tb\n1.5\t2\n3\t4\n", "utf-16"),
        ('"größe"|"b"\n"1.5"|"2"\n3|4\n', "utf-8-sig"),
        ("größe,b\n1.5,2\n3,4\n,\n,\n", "utf-8"),  # empty rows of a spreadsheet
    ],
)
def test_the_same_table_comes_out_however_it_is_written(write, text, encoding):
    data = load(write(text, encoding))
    assert data.x.tolist() == [[1.5, 2], [3, 4]] and data.columns == ("größe", "b")


def test_the_decimal_mark_can_be_named(write):
    text = "a;b\n1,5;x\n-;y\n2,25;x\n" + "3,5;y\n" * 3
    frame = load(write(text), text=(), decimal=",").x
    assert frame["a"].dropna().tolist() == [1.5, 2.25, 3.5, 3.5, 3.5]
    assert load(write("a;b\n1,5;2\n3;4,25\n"), decimal=",").x.tolist() == [[1.5, 2], [3, 4.25]]
    assert load(write("a\n1,5\n2\n"), decimal="comma").x.tolist() == [[1.5], [2]]
    with pytest.raises(InputError, match="'oops' in row 1"):
        load(write("a;b\n1,5;2\noops;4,25\n"), decimal=",")
    with pytest.raises(InputError, match=r"column 'a': '1,5' in row 0 .*: decimal='comma'"):
        load(write("a;b\n1,5;2\n3;4,25\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b,c\nx;y,z\nu;v,w\n", "the separator may be comma or semicolon; .* separator='comma'"),
        ("a,b\n" + "1,2\n" * 300 + "1,2,3\n", "Expected 2 fields in line 302, saw 3"),
        ('a,b\n1,2\n3,"4\n5,6\n', "t.csv is damaged .*EOF inside string"),
    ],
)
def test_an_unclear_file_is_refused_with_the_way_out(write, text, words):
    with pytest.raises(InputError, match=words) as caught:
        load(write(text), text=())
    assert "\n" not in str(caught.value)


def test_an_unknown_mark_is_refused(write):
    path = write("a:b\n1:2\n")
    with pytest.raises(InputError, match="separator=':': give one of comma, semicolon, tab, bar"):
        load(path, separator=":")
    with pytest.raises(InputError, match="decimal=';': give one of point, comma"):
        load(path, decimal=";")


def test_digits_with_zeros_before_them_are_kept_as_they_are_written(write):
    path = write("zip,n\n01067,1\n80331,2\n")
    assert load(path, text=()).x["zip"].tolist() == ["01067", "80331"]
    later = write("zip,n\n" + "80331,1\n" * 400 + "01067,2\n")
    assert load(later, text=["zip"]).x["zip"].tolist()[-1] == "01067"


def test_the_second_column_of_a_name_gets_a_number(write):
    assert list(load(write("x,y,x\n1,2,3\n4,5,6\n"), text=()).x) == ["x", "y", "x.1"]


# --- frames -------------------------------------------------------------------------------------


def test_other_objects_are_no_frame():
    for other in (np.zeros((2, 2)), [[1, 2]], "text", None, {"a": [1]}, pd.Series([1, 2])):
        assert as_frame(other) is None


def test_objects_of_every_kind_are_read():
    zone = timezone(timedelta(hours=2))
    frame = as_frame(
        pd.DataFrame(
            {
                "decimal": [Decimal("1.5"), None],
                "moment": pd.to_datetime([datetime(2024, 1, 1, 2, tzinfo=zone), None]),
                "length": [timedelta(days=2), None],
                "truth": pd.array([True, None], dtype="boolean"),
                "both": [1, "one"],
                "month": pd.period_range("2024-01", periods=2, freq="M"),
                "key": [UUID(int=k) for k in range(2)],
                "band": pd.cut([1.0, 4.0], 2),
            }
        )
    )
    assert frame["decimal"][0] == 1.5 and frame["length"][0] == 2
    assert frame["moment"][0] == pd.Timestamp("2024-01-01") and frame["month"][0] == "2024-01"
    assert frame["both"].tolist() == ["1", "one"] and frame["key"][1].endswith("0001")
    assert frame["band"].tolist() == ["(0.997, 2.5]", "(2.5, 4.0]"]
    assert frame["truth"].dtype == "boolean"
    keys = [2**60 + 1, 2**60 + 2]
    assert export_cells(as_frame(pd.DataFrame({"key": keys}))["key"]).tolist() == keys
