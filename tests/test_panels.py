"""The parts that all figures are made of."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from gedilearn import panels


def test_a_figure_is_written_whole_into_a_new_folder(tmp_path: Path) -> None:
    path = panels.save(panels.new_figure(3, 2, "a $\\frac{ title"), tmp_path / "new" / "a.png")
    with Image.open(path) as picture:
        assert picture.format == "PNG"
    assert [file.name for file in path.parent.iterdir()] == ["a.png"]


def test_names_that_no_letter_can_show_are_drawn(tmp_path: Path) -> None:
    """A file's name that is not UTF-8 comes with halves of letters, which matplotlib refuses."""
    figure = panels.new_figure(3, 2, "\udcff title")
    panels.label_axes(figure.add_subplot(), "a\udcffb", "\x1b[31m", "two\nlines")
    assert figure.axes[0].get_title() == "a b" and figure.axes[0].get_ylabel() == "two\nlines"
    assert panels.save(figure, tmp_path / "a.png").stat().st_size
