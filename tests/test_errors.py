"""The hint that ends messages about unknown names."""

from __future__ import annotations

from gedilearn.errors import closest, suggestion


def test_the_nearest_known_name_is_found_or_none():
    assert closest("moon", ["circles", "moons"]) == "moons"
    assert closest("xyz", ["circles", "moons"]) is None
    assert closest("moon", []) is None


def test_the_hint_names_the_nearest_or_else_all():
    assert suggestion("moon", iter(["circles", "moons"])) == " (did you mean 'moons'?)"
    assert suggestion("xyz", iter(["circles", "moons"])) == " (known: circles, moons)"
