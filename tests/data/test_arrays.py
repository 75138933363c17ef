"""Checks and scaling of arrays."""

from __future__ import annotations

import fractions
import hashlib

import numpy as np
import pytest

from gedilearn.data.arrays import Scaling, as_labels, as_numbers, check_finite, row_chunks
from gedilearn.data.dataset import fingerprint
from gedilearn.errors import InputError
from gedilearn.estimator import GEDI

RNG = np.random.default_rng(0)


def test_non_finite_values_are_counted_and_their_rows_named():
    x = np.zeros((30, 2))
    for row in (3, 17, 20, 21, 22, 23, 29):
        x[row, 0] = np.nan
    x[3, 1] = np.inf
    with pytest.raises(InputError, match=r"^mine: 8 .* in rows 3, 17, 20 and 4 more \(counted"):
        check_finite(x, "mine")


def test_rows_are_named_by_their_place_in_the_whole_array_when_it_is_read_in_chunks():
    x = np.zeros((3, 2**21), dtype=np.float32)
    assert len(list(row_chunks(x))) == 2
    x[2, 5] = np.nan
    with pytest.raises(InputError, match="in row 2 "):
        check_finite(x, "x")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("?", "f4"), ("u1", "f4"), ("i2", "f4"), ("f2", "f4"), ("f4", "f4"),
        ("i4", "f8"), ("i8", "f8"), ("u8", "f8"), ("f8", "f8"), (">f8", "f8"), ("g", "f8"),
    ],
)  # fmt: skip
def test_numbers_become_the_smallest_native_float_that_holds_them(given, kept):
    x = as_numbers(np.array([[0, 1], [1, 0]]).astype(given), "x")
    assert x.dtype == np.dtype(kept)
    assert x.dtype.isnative
    assert x.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([[None]]), "object is not numbers"),
        (np.array([[1j]]), "complex"),
        (np.array([["a"]]), "not numbers"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "not numbers"),
        (np.zeros(3), r"reshape\(-1, 1\)"),
        (np.zeros(()), r"shape \(\)"),
        (np.zeros((2, 8, 8)), r"x\[:, None\]"),
        (np.zeros((2, 1, 1, 1, 1)), "expected vectors"),
        (np.zeros((0, 3)), "no values"),
        (np.zeros((3, 0)), "no values"),
        (np.zeros((3, 1, 0, 2)), "no values"),
        (np.zeros((2, 8, 8, 3)), r"if channels are last, use x.transpose\(0, 3, 1, 2\)"),
        (np.zeros((2, 2, 8, 8)), "has 2 channels"),
    ],
)
def test_other_data_than_vectors_and_images_is_refused_in_one_line(x, message):
    with pytest.raises(InputError, match=message) as caught:
        as_numbers(x, "x")
    assert "\n" not in str(caught.value)


def test_whole_labels_become_integers_and_other_text_stays():
    assert as_labels(["1", "2.0"], "y").tolist() == [1, 2]
    assert as_labels(["1", "2.0"], "y").dtype == np.int64
    assert as_labels(["cat", "1"], "y").tolist() == ["cat", "1"]
    assert as_labels(["nan", "1"], "y").tolist() == ["nan", "1"]
    assert as_labels(np.array([0.5, 1.0]), "y").tolist() == [0.5, 1.0]
    with pytest.raises(InputError, match="labels"):
        as_labels(np.array([np.nan, 1.0]), "y")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_statistics_agree_with_exact_fractions_under_a_huge_offset(dtype):
    x = (1e6 + RNG.normal(size=(50, 1))).astype(dtype)
    exact = [fractions.Fraction(float(value)) for value in x[:, 0]]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    scaling = Scaling.fit(x)
    assert scaling.offset[0] == pytest.approx(float(mean), rel=1e-15)
    assert scaling.scale[0] == pytest.approx(float(variance) ** 0.5, rel=1e-12)


def test_values_up_to_1e150_keep_finite_statistics():
    x = np.array([[1e150, 2e-150], [-1e150, 6e-150], [1e150, 2e-150], [-1e150, 6e-150]])
    with np.errstate(all="raise", under="ignore"):
        scaling = Scaling.fit(x)
    np.testing.assert_allclose(scaling.scale, [1e150, 2e-150], rtol=1e-12)
    np.testing.assert_allclose(scaling.apply(x), [[1, -1], [-1, 1]] * 2, rtol=1e-6)


def test_a_constant_column_maps_to_zero():
    x = np.column_stack([np.full(5, 0.1), np.arange(5.0), np.full(5, 1e150)])
    scaling = Scaling.fit(x)
    assert scaling.scale[[0, 2]].tolist() == [1, 1]
    assert scaling.apply(x)[:, [0, 2]].tolist() == [[0, 0]] * 5


def test_images_of_bytes_stay_bytes_and_vectors_of_bytes_do_not():
    x = RNG.integers(0, 256, size=(4, 3, 5, 6)).astype(np.uint8)
    kept = as_numbers(x, "x")
    assert kept.dtype == np.uint8
    assert np.shares_memory(kept, x)
    turned = as_numbers(x.transpose(0, 1, 3, 2), "x")
    assert turned.flags.c_contiguous
    np.testing.assert_array_equal(turned, x.transpose(0, 1, 3, 2))
    assert as_numbers(x.reshape(4, -1), "x").dtype == np.float32
    assert as_numbers(x.astype(np.uint16), "x").dtype == np.float32


def test_a_memory_map_of_images_passes_the_estimators_checks_uncopied(tmp_path):
    np.save(tmp_path / "x.npy", RNG.integers(0, 256, size=(20, 1, 4, 4)).astype(np.uint8))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    checked = GEDI().validate(mapped, reset=True)
    assert checked.dtype == np.uint8
    assert np.shares_memory(checked, mapped)
    assert fingerprint(checked) == fingerprint(np.load(tmp_path / "x.npy"))


@pytest.mark.parametrize("top", [1, 16, 127])
def test_bytes_of_few_levels_are_scaled_by_their_own_range(top):
    x = RNG.integers(0, top + 1, size=(4, 1, 16, 16)).astype(np.uint8)
    x[0, 0, 0, :2] = 0, top
    z = Scaling.fit(x).apply(x)
    np.testing.assert_allclose(z, x / (top / 2) - 1, atol=1e-6)


def test_images_map_the_range_of_the_data_to_plus_minus_one():
    x = RNG.integers(10, 200, size=(4, 3, 5, 5)).astype(np.float32)
    scaling = Scaling.fit(x)
    z = scaling.apply(x)
    assert (z.min(), z.max()) == (-1, 1)
    expected = 2 * (x - float(x.min())) / (float(x.max()) - float(x.min())) - 1
    np.testing.assert_allclose(z, expected, atol=1e-6)
    np.testing.assert_array_equal(scaling.apply(x[0]), z[0])


@pytest.mark.parametrize("shape", [(20, 3), (6, 1, 4, 4)])
def test_undo_returns_to_the_units_of_the_user(shape):
    x = 100 + RNG.normal(size=shape)
    scaling = Scaling.fit(x)
    back = scaling.undo(scaling.apply(x))
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, x, atol=1e-5)


def test_a_point_too_far_for_single_precision_is_refused_not_infinite():
    scaling = Scaling.fit(np.array([[0.0], [1.0]]))
    with pytest.raises(InputError, match="units"):
        scaling.apply(np.array([[1e300]]))


def test_fingerprint_is_the_hash_of_dtype_shape_and_bytes():
    x = RNG.normal(size=(7, 3))
    direct = hashlib.sha256(b"<f8 (7, 3)" + x.tobytes()).hexdigest()
    assert fingerprint(x) == direct
    assert fingerprint(np.asfortranarray(x)) == direct
    assert fingerprint(np.repeat(x, 2, axis=0)[::2]) == direct


def test_fingerprint_in_chunks_equals_fingerprint_at_once(monkeypatch):
    x = RNG.normal(size=(10, 4))
    whole = fingerprint(x)
    monkeypatch.setattr("gedilearn.data.arrays._CHUNK_VALUES", 12)
    assert len(list(row_chunks(x))) == 4
    assert fingerprint(x) == whole
