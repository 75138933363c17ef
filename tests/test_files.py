"""What is read of a file, and how much; damage is one line that names it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
import yaml
from pydantic import BaseModel
from safetensors.torch import load_file, save_file

from gedilearn.errors import InputError
from gedilearn.io import (
    TensorFile,
    check_file,
    check_size,
    forms,
    most_bytes,
    read_bytes,
    read_json,
    read_json_lines,
    read_yaml,
    reading,
    yaml_value,
)


def refusal(function: object, *arguments: object) -> str:
    with pytest.raises(InputError) as caught:
        function(*arguments)  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    return str(caught.value)


# --- kinds and sizes ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_read_and_nothing_waits_for_others(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    for read in (check_file, read_bytes, read_json, read_yaml, TensorFile.open, read_json_lines):
        assert refusal(read, path) == f"{path}: not a regular file; copy its content into one"


def test_the_limit_is_two_gigabytes_or_what_the_environment_says(monkeypatch) -> None:
    monkeypatch.delenv("GEDI_MAX_GB", raising=False)
    assert most_bytes() == 2e9
    monkeypatch.setenv("GEDI_MAX_GB", "0.5")
    assert most_bytes(0.1) == pytest.approx(5e7)
    for text in ("much", "0", "-1", "nan", "inf"):
        monkeypatch.setenv("GEDI_MAX_GB", text)
        assert refusal(most_bytes).startswith(f"GEDI_MAX_GB={text}: give a number")


def test_what_is_too_large_is_refused_with_its_size_and_the_limit_that_allows_it(
    monkeypatch,
) -> None:
    monkeypatch.delenv("GEDI_MAX_GB", raising=False)
    assert "x: 2.5 GB, more than the 2 GB" in refusal(check_size, 2.5e9, "x")
    assert refusal(check_size, 2.5e9, "x").endswith("set GEDI_MAX_GB=3")
    assert refusal(check_size, 150e6, "x", 1 / 20).endswith("set GEDI_MAX_GB=3")
    monkeypatch.setenv("GEDI_MAX_GB", "3")
    check_size(2.5e9, "x")
    check_size(150e6, "x", 1 / 20)
    assert "GB" in refusal(check_size, 10**400, "x")  # a header may claim anything


def test_a_sparse_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"{}")
    os.truncate(path, 3 * 10**9)
    for read in (read_bytes, read_json, read_yaml, TensorFile.open, read_json_lines):
        assert "file: 3 GB, more than" in refusal(read, path)


# --- damage -------------------------------------------------------------------------------------


class Shape(BaseModel):
    number: int


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda: {}["missing"], "no 'missing'"),
        (lambda: b"\xff".decode(), "not UTF-8 text"),
        (lambda: Shape.model_validate({"number": "x"}), "number: input should be a valid integer"),
        (lambda: (_ for _ in ()).throw(RuntimeError("first line\nsecond " + "x" * 9000)), "first"),
        (lambda: json.loads("[" * 100_000), "nested too deep"),
        (lambda: [][0], "index out of range"),
        (lambda: None.shape, "no attribute 'shape'"),  # type: ignore[attr-defined]
        (lambda: (_ for _ in ()).throw(AssertionError), "AssertionError"),
    ],
)
def test_whatever_goes_wrong_while_reading_is_one_line_that_names_the_file(fault, words) -> None:
    def read() -> None:
        with reading("run/file", "fit anew"):
            result = fault()
            if hasattr(result, "send"):
                next(result)

    message = refusal(read)
    assert message.startswith("run/file is damaged (") and message.endswith("): fit anew")
    assert words in message


def test_errors_that_are_clear_already_and_interruptions_pass() -> None:
    with pytest.raises(InputError, match=r"^clear$"), reading("file"):
        raise InputError("clear")
    words = r"^file is damaged \(clear\): x$"
    with pytest.raises(InputError, match=words), reading("file", "x", ours=True):
        raise InputError("clear")
    with pytest.raises(KeyboardInterrupt), reading("file"):
        raise KeyboardInterrupt
    with pytest.raises(InputError, match="does not fit into the memory"), reading("file"):
        raise MemoryError


# --- text ---------------------------------------------------------------------------------------


def test_yaml_aliases_are_refused_before_they_are_expanded(tmp_path: Path) -> None:
    levels = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 10)]
    path = tmp_path / "config.yaml"
    path.write_text("\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]", *levels]))
    assert "alias" in refusal(read_yaml, path)


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 400, "- " * 400, "? " * 400])
def test_yaml_nested_deeply_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert "is damaged" in refusal(read_yaml, tmp_path / "config.yaml")


@pytest.mark.parametrize(
    "text",
    ["!!int ''", "!!bool x", "!!python/name:os.system ''", "!!binary AA==", "!!set {a}"],
)
def test_yaml_that_names_no_value_is_a_yaml_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        yaml_value(text)


def test_yaml_says_what_the_safe_loader_says() -> None:
    values = {"a": [1, 2.5, None, True, "x"], "b": {"c": [[0.0, 1.0]], "d": "2"}, "e": []}
    assert yaml_value(yaml.safe_dump(values)) == values


@pytest.mark.parametrize("text", ["2024-01-02", "2024-99-99", "2024-01-02 12:00:00"])
def test_a_date_in_yaml_is_text_as_it_is_in_json(text: str) -> None:
    assert yaml_value(text) == text


@pytest.mark.parametrize(
    "text, words",
    [
        ("[" + "0," * 300 + "]", "more than 200 values"),
        ("{" + "a," * 300 + "}", "more than 200 values"),
        ("1" + ":1" * 2000, "a number of more than 1000 characters"),
        ("0x" + "1" * 2000, "a number of more than 1000 characters"),
    ],
)
def test_yaml_that_is_short_for_what_it_says_is_refused(
    tmp_path: Path, monkeypatch, text: str, words: str
) -> None:
    monkeypatch.setenv("GEDI_MAX_GB", "0.002" if "number" not in words else "2")
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert f"{path} is damaged (it has {words})" in refusal(read_yaml, path)
    assert len(yaml_value("[" + "0," * 199 + "]")) == 199
    assert yaml_value(f"1{'0' * 400}") == 10**400


@pytest.mark.parametrize(
    "read, content, words",
    [
        (read_json, b"[" + b"[]," * 6_000, "12001 values, more than the 10000"),
        (read_json, b"[" + b"{}," * 6_000, "12001 values, more than the 10000"),
        (read_json_lines, b"{}\n" * 300, "300 lines, more than the 200"),
        (read_json_lines, b"\n" * 300, "300 lines, more than the 200"),
        (read_json_lines, (b"[" + b"[]," * 60 + b"\n") * 100, "12100 values, more than"),
        (TensorFile.open, b"[" + b"[]," * 6_000, "12001 values, more than the 10000"),
    ],
)
def test_json_that_is_short_for_what_it_says_is_refused_unread(
    tmp_path: Path, monkeypatch, read: object, content: bytes, words: str
) -> None:
    monkeypatch.setenv("GEDI_MAX_GB", "0.002")  # of which text may take 100 KB
    path = tmp_path / "file"
    length = len(content).to_bytes(8, "little") if read == TensorFile.open else b""
    path.write_bytes(length + content)
    message = refusal(read, path)
    assert message.startswith(f"{path}: {words}") and message.endswith("set GEDI_MAX_GB=1")


def test_long_yaml_is_refused_unread(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("GEDI_MAX_GB", raising=False)
    path = tmp_path / "config.yaml"
    path.write_text("a: 1\n" * 500_000)
    assert "more than the 2 MB" in refusal(read_yaml, path)


def test_whole_lines_are_kept_around_those_that_are_cut_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read_json_lines(path) == []
    deep = b"[" * 100_000
    lines = [b'{"a": 1}', b'{"a": \xff}', b"5", b"", deep, b'{"a": 2}', b'{"a": 3, "b']
    path.write_bytes(b"\n".join(lines))
    assert read_json_lines(path) == [{"a": 1}, {"a": 2}]


# --- tensors ------------------------------------------------------------------------------------

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "b": torch.tensor([1, 2]),
    "c": torch.zeros(0, dtype=torch.float64),
    "d": torch.tensor(True),
    "e": torch.zeros(3, dtype=torch.bfloat16),
    "f": torch.zeros(3, dtype=torch.uint8),
}


def test_tensors_are_those_that_safetensors_reads(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    save_file(TENSORS, path, {"key": "value"})
    file = TensorFile.open(path)
    assert file.metadata == {"key": "value"}
    assert file.forms == forms(TENSORS)
    found, expected = file.read(), load_file(path)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_name_that_is_not_utf_8_is_a_name(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "t")
    path = tmp_path / os.fsdecode(b"\xff")
    (tmp_path / "t").rename(path)
    assert TensorFile.open(path).read().keys() == TENSORS.keys()


@pytest.mark.parametrize("keep", [0, 7, 8, 100, -1])
def test_a_cut_file_of_tensors_is_refused_by_its_header(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "t"
    save_file(TENSORS, path)
    path.write_bytes(path.read_bytes()[:keep])
    assert "is damaged" in refusal(TensorFile.open, path)


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "null",
        "{",
        '{"a": 5}',
        '{"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 0]}}',
        '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}',
        '{"a": {"dtype": "F32", "shape": [1000000000], "data_offsets": [0, 4000000000]}}',
        '{"__metadata__": 5}',
        '{"__metadata__": {"a": 5}}',
    ],
)
def test_a_header_that_is_none_is_damage(tmp_path: Path, header: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    assert "is damaged" in refusal(TensorFile.open, path)


def test_other_names_types_or_shapes_are_told_before_reading(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save_file({"a": TENSORS["a"]}, path)
    file = TensorFile.open(path)
    file.check({"a": ("F32", (2, 3))})
    for expected, words in (
        ({}, "unknown tensor a"),
        ({"a": ("F32", (3, 2))}, "tensor a is"),
        ({"a": ("F64", (2, 3))}, "tensor a is"),
        ({"a": ("F32", (2, 3)), "b": ("F32", ())}, "no tensor b"),
    ):
        with pytest.raises(ValueError, match=words):
            file.check(expected)
