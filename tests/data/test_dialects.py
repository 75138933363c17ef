"""Tables of text as they are written in different countries: the same table comes out."""

from __future__ import annotations

import csv
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gedilearn.data import decimals
from gedilearn.data.load import load, load_table
from gedilearn.data.table import Table
from gedilearn.errors import InputError

# --- properties ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A number as it is written: sign, whole part, digits of the fraction."""

    sign: str
    whole: int
    fraction: str

    def text(self, decimal: str = ".", group: str = "") -> str:
        whole = f"{self.whole:,}".replace(",", group)
        return self.sign + whole + (decimal + self.fraction if self.fraction else "")


@dataclass(frozen=True)
class Way:
    """How a table is written."""

    separator: str
    decimal: str
    group: str
    encoding: str
    newline: str
    quoting: int

    def write(self, path: Path, rows: list[list[Number | str]]) -> Path:
        with path.open("w", newline="", encoding=self.encoding) as file:
            writer = csv.writer(
                file,
                delimiter=self.separator,
                lineterminator=self.newline,
                quoting=self.quoting,
            )
            for row in rows:
                writer.writerow(
                    [c if isinstance(c, str) else c.text(self.decimal, self.group) for c in row]
                )
        return path


PLAIN = Way(",", ".", "", "utf-8", "\n", csv.QUOTE_MINIMAL)
NUMBERS = st.builds(
    Number,
    st.sampled_from(["", "-"]),
    st.one_of(st.integers(0, 999), st.integers(1000, 10**7)),
    st.one_of(st.text("0123456789", max_size=4), st.text("0123456789", min_size=3, max_size=3)),
)
WHOLE = st.builds(Number, st.just(""), st.integers(0, 10**7), st.just(""))
INNER = st.text("abzäöüßé ,;|'\"", max_size=4)
WORDS = st.builds(lambda a, b, c: a + b + c, st.sampled_from("bzä"), INNER, st.sampled_from("bzü"))
DATES = st.dates().map(str)
GAPS = st.sampled_from(["", "NA"])


@st.composite
def tables(draw: st.DrawFn) -> list[list[Number | str]]:
    n = draw(st.integers(2, 8))
    kinds = draw(st.lists(st.sampled_from([NUMBERS, WHOLE, WORDS, DATES]), min_size=2, max_size=4))
    gaps = draw(st.booleans())
    cells = [st.one_of(kind, GAPS) if gaps else kind for kind in kinds]
    columns = [draw(st.lists(cell, min_size=n, max_size=n)) for cell in cells]
    header = [f"{draw(WORDS)}{k}" for k in range(len(kinds))]
    return [header, *map(list, zip(*columns, strict=True))]


@st.composite
def ways(draw: st.DrawFn) -> Way:
    decimal = draw(st.sampled_from(".,"))
    return Way(
        draw(st.sampled_from(",;\t|")),
        decimal,
        draw(st.sampled_from(["", " ", "\u00a0", "'", "." if decimal == "," else ","])),
        draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16"])),
        draw(st.sampled_from(["\n", "\r\n"])),
        draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
    )


def same(a: Table, b: Table) -> None:
    assert a.names == b.names
    for name in a.names:
        first, second = a[name].typed(), b[name].typed()
        assert first.kind == second.kind, name
        if first.kind == "text":
            assert first.values.tolist() == second.values.tolist()
        else:
            np.testing.assert_array_equal(first.values, second.values)


@settings(max_examples=200, deadline=None)
@given(tables(), ways())
def test_a_table_reads_as_its_plain_form_if_its_marks_are_given(rows, way):
    with tempfile.TemporaryDirectory() as folder:
        plain = PLAIN.write(Path(folder, "plain.csv"), rows)
        path = way.write(Path(folder, "t.csv"), rows)
        expected = load_table(plain, as_text=True, separator=",", decimal=".")
        same(load_table(path, as_text=True, separator=way.separator, decimal=way.decimal), expected)


THREE = [["b0", "b1"], [Number("", 1, "234"), "zz"], [Number("", 5, "678"), "zb"]]


@settings(max_examples=300, deadline=None)
@given(tables(), ways())
@example(THREE, Way(";", ".", "", "utf-8", "\n", csv.QUOTE_MINIMAL))
@example(THREE, Way(";", ",", "", "utf-8", "\n", csv.QUOTE_MINIMAL))
def test_a_table_reads_as_its_plain_form_or_is_refused_with_the_option_that_decides(rows, way):
    """Never another table: a number that is a thousand times another is worse than a refusal."""
    if way.separator == "," and way.decimal == ",":
        return  # 1,234 in quotes between commas is a thousand, by the rule
    if way.separator == "\t" and way.group == ".":
        return  # 1.234 between tabs has a decimal point, by the rule
    with tempfile.TemporaryDirectory() as folder:
        plain = PLAIN.write(Path(folder, "plain.csv"), rows)
        path = way.write(Path(folder, "t.csv"), rows)
        try:
            found = load_table(path, as_text=True)
        except InputError as error:
            assert "--separator" in str(error) or "--decimal" in str(error)
            return
        same(found, load_table(plain, as_text=True, separator=",", decimal="."))


# --- cases --------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "t.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def refusal(source: object, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        load_table(source, as_text=True, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def values(path: Path, name: str, **options: object) -> list:
    return load_table(path, as_text=True, **options)[name].typed().values.tolist()


@pytest.mark.parametrize(
    ("text", "x", "words"),
    [
        ("a;b\n3,14;2\n0,5;3\n", [[3.14, 2], [0.5, 3]], "separated by semicolons, decimal commas"),
        ("a;b\n3.14;2\n0.5;3\n", [[3.14, 2], [0.5, 3]], "separated by semicolons"),
        ("a;b\n1.234,5;2\n17,0;3\n", [[1234.5, 2], [17, 3]], None),
        ("a;b\n1.234.567;2\n17;3\n", [[1234567, 2], [17, 3]], None),
        ("a;b\n1 234,5;2\n-17;3\n", [[1234.5, 2], [-17, 3]], None),
        ("a;b\n1'234;2\n17;3\n", [[1234, 2], [17, 3]], None),
        ("a\tb\n3,14\t2\n0,5\t3\n", [[3.14, 2], [0.5, 3]], "separated by tabs, decimal commas"),
        ("a|b\n3|2\n0|3\n", [[3, 2], [0, 3]], "separated by bars"),
        ('a,b\n"3,14",2\n"0,5",3\n', [[3.14, 2], [0.5, 3]], "decimal commas"),
        ('a,b\n"1,234",2\n17,3\n', [[1234, 2], [17, 3]], ""),
        ("1,5;2,5\n3,5;4\n", [[1.5, 2.5], [3.5, 4]], None),  # no header
        ("1,5;2\n3;4,5\n", [[1.5, 2], [3, 4.5]], None),
        ("a;b\n3,14;0.5\n2,71;0.75\n", [[3.14, 0.5], [2.71, 0.75]], None),
        ("a;b\n1,234;0,5\n2,345;0,75\n", [[1.234, 0.5], [2.345, 0.75]], None),
        ("a;b\n1.234;0,5\n2.345;0,75\n", [[1234, 0.5], [2345, 0.75]], None),
        ("a;b\n1,234;0\n5678;0\n", [[1.234, 0], [5678, 0]], None),  # groups would be in both
    ],
)
def test_separators_and_decimal_marks_are_found_out(write, text, x, words):
    path = write(text)
    np.testing.assert_array_equal(load(path).x, x)
    whole = load_table(path, as_text=True)
    np.testing.assert_array_equal(
        np.column_stack([column.typed().numbers() for column in whole.columns]), x
    )
    if words is not None:
        assert load(path).dialect == whole.dialect == words


def test_a_number_that_can_be_read_in_two_ways_is_refused_until_the_mark_is_given(write):
    for cell, point, comma in (("1.234", 1.234, 1234), ("1,234", 1234, 1.234)):
        path = write(f"a;b\n{cell};x\n7;y\n")
        message = refusal(path)
        assert f"column 'a': '{cell}' may be {point} or {comma}" in message
        assert "--decimal" in message
        assert values(path, "a", decimal=".") == [point, 7]
        assert values(path, "a", decimal="comma") == [comma, 7]
    both = write("a;b;c\n1.234;0,5;0.5\n2.345;0,75;0.75\n")
    assert "column 'a': '1.234' may be 1.234 or 1234" in refusal(both)
    assert values(write("a\tb\n1.234\tx\n2.345\ty\n", "t.tsv"), "a") == [1.234, 2.345]
    assert "'1,234' may be" in refusal(write("a\tb\n1,234\tx\n2,345\ty\n", "t.tsv"))


def test_decimal_commas_are_numbers_only_if_the_whole_column_reads_so(write):
    few = load_table(write("a;b\n3,14;1\nviel;2\n2,5;3\n"), as_text=True)
    assert few["a"].typed().kind == "text" and few["b"].typed().kind == "number"
    path = write("a;b\n3,14;1\nviel;2\n2,5;3\n")
    with pytest.raises(InputError, match=r"line 3, column 'a': 'viel' is not a number"):
        load(path)
    assert load_table(path, as_text=True, decimal=".")["a"].typed().kind == "text"


def test_what_is_no_number_by_name_can_be_read_in_one_way_only(write):
    assert values(write("a;b\n+nan;1\ninf;2\n"), "b") == [1, 2]


def test_the_decimal_mark_that_is_given_holds_for_all_columns(write):
    path = write('codes,x\n"1,2",0.5\n"2,3",0.25\n')
    assert values(path, "codes") == [1.2, 2.3]
    assert values(path, "codes", decimal=".") == ["1,2", "2,3"]


def test_cells_that_may_be_separated_in_two_ways_are_refused_until_one_is_given(write):
    path = write("name, first;town, land\nb, c;d, e\nf, g;h, i\n")
    message = refusal(path)
    assert "comma or semicolon" in message and "--separator" in message
    assert load_table(path, separator="semicolon").names == ("name, first", "town, land")
    assert load_table(path, separator=",").shape == (2, 3)


def test_other_marks_within_text_do_not_separate(write):
    path = write("name;price;note\nAnna;1,5;a, b\nBert;2,7;c|d\n")
    assert load_table(path).names == ("name", "price", "note")
    assert load_table(write("name,tags\nAnna,a;b\nBert,c;d\n")).names == ("name", "tags")


def test_a_column_alone_needs_its_separator_if_it_has_commas(write):
    path = write("x\n3,14\n2,71\n")
    assert "line 2 has 2 cells, line 1 has 1" in refusal(path) and "--separator" in refusal(path)
    assert values(path, "x", separator=";") == [3.14, 2.71]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
def test_text_of_windows_and_marks_at_its_start_are_read(write, encoding):
    path = write("Größe;Straße\n1,5;Äußere\n2,5;Öde\n", encoding=encoding)
    table = load_table(path, as_text=True)
    assert table.names == ("Größe", "Straße")
    assert table["Straße"].values.tolist() == ["Äußere", "Öde"]
    assert ("Windows-1252" in table.dialect) == (encoding in ("latin-1", "cp1252"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_unicode_text_of_excel_is_read(write, encoding):
    path = write("\ufeffGröße\tStraße\r\n1,5\tÄußere\r\n2,5\tÖde\r\n", "t.txt", encoding)
    table = load_table(path)
    assert table.names == ("Größe", "Straße")
    assert table["Größe"].typed().values.tolist() == [1.5, 2.5]
    assert table["Straße"].values.tolist() == ["Äußere", "Öde"]
    assert table.dialect == "decimal commas, text in UTF-16"
    np.testing.assert_array_equal(load(path, columns=["Größe"]).x, [[1.5], [2.5]])


def test_utf16_without_a_mark_and_half_a_character_are_refused_in_one_line(write):
    assert "UTF-16 without a mark" in refusal(write("a,b\n1,2\n", encoding="utf-16-le"))
    path = write("a,b\n1,2\n", encoding="utf-16")
    path.write_bytes(path.read_bytes()[:-1])
    assert "is damaged (not UTF-16-LE text)" in refusal(path)


def test_numbers_between_blanks_are_refused_until_they_are_said_to_be_one_column(write):
    path = write("1.0e+00 2.0e+00\n3.0e+00 4.0e+00\n", "t.txt")
    assert "separated by blanks" in refusal(path)
    path = write("sales\n1 234\n5 678\n", "t.txt")
    assert values(path, "sales") == [1234, 5678]  # the header says that it is one column
    assert "separated by blanks" in refusal(write("1 234\n5 678\n"))
    assert values(write("1 234\n5 678\n"), "column 1", separator=",") == [1234, 5678]


def test_empty_rows_at_the_end_are_no_rows_and_those_between_are(write):
    path = write("a,b,\n1,x,\n,,\n2,y,\n,,\n , ,\n")
    assert load_table(path)["a"].values.tolist() == ["1", None, "2"]


def test_the_euro_sign_and_dashes_of_windows_are_read(write):
    path = write("a;b\n5 €;x \u2013 y\n6 €;„z“\n", encoding="cp1252")
    assert load_table(path, as_text=True)["b"].values.tolist() == ["x \u2013 y", "„z“"]


def test_damaged_utf8_is_not_taken_for_text_of_windows(write, tmp_path):
    whole = "a;b\nGröße;Straße\nÄrger;Öde\n".encode()
    for content in (whole[:-4], whole.replace("ö".encode(), b"\xc3"), b"\xef\xbb\xbf\xff;a\n1;2\n"):
        (tmp_path / "t.csv").write_bytes(content)
        assert "not UTF-8" in refusal(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"a;b\n1;\xe4\x00\n")
    assert "not UTF-8" in refusal(tmp_path / "t.csv")


def test_marks_are_refused_by_name_where_they_are_unknown_or_of_no_use(write, tmp_path):
    path = write("a;b\n1;2\n")
    assert "--separator ':': give one of ',', ';', tab, '|'" in refusal(path, separator=":")
    assert "--decimal ';': give one of '.', ','" in refusal(path, decimal=";")
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match=r"are for \.csv, \.tsv"):
        load(tmp_path / "x.npy", separator=";")
    with pytest.raises(InputError, match=r"are for \.csv, \.tsv"):
        load("moons", decimal=",")


def test_numbers_between_semicolons_take_the_fast_way_once_they_show_their_points(
    write, monkeypatch
):
    path = write("a;b\n1.234;0.5\n2.345;3\n")
    monkeypatch.setattr("gedilearn.data.tables._parse_cells", lambda *_: pytest.fail("slow"))
    assert load(path).x.tolist() == [[1.234, 0.5], [2.345, 3]]


def test_the_mark_of_numbers_with_a_unit_is_found_in_all_rows(tmp_path):
    path = tmp_path / "x.csv"
    rows = [f"1.{k:03d},5 \u20ac;{k},25 %" for k in range(3 * decimals.ENOUGH)]
    path.write_text("\n".join(["price;share", *rows]), encoding="utf-8")
    look = decimals.Look.of(row.partition(";")[0] for row in rows)
    assert look.marks() == [","] and look.read[","] == len(rows)
    table = load_table(path)
    assert [column.typed().unit for column in table.columns] == ["\u20ac", "%"]
    assert table.columns[0].typed().values[:2].tolist() == [1000.5, 1001.5]
