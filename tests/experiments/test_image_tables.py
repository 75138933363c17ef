"""The tables of images and the page of results, from made-up rows."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from experiments.image_rows import made_up
from gedilearn.errors import InputError
from gedilearn.experiments import image_tables
from gedilearn.experiments.images import METHODS, NOTHING


@pytest.fixture
def root(tmp_path):
    """Two runs: one at small scale with two seeds and k-means, one shortened."""
    kmeans = {"method": "k-means", "batchwise_nmi": 0.3, "batchwise_chance": 0.2}
    runs = {
        "cifar10-small": [
            made_up("small") | NOTHING | kmeans | {"nmi": 0.08, "n_clusters": 10, "seconds": 3.0},
            made_up("small", nmi=0.1, iterations=2000),
            made_up("small", nmi=0.3, iterations=2000, seed=1),
        ],
        "svhn-paper-9-iterations": [made_up(data="svhn", shortened_to=9)],
    }
    for name, rows in runs.items():
        folder = tmp_path / name
        pictures = folder / "evaluations" / f"{rows[0]['data']}-gedi-0"
        pictures.mkdir(parents=True)
        (pictures / "samples.png").touch()
        (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        settings = {"iterations": rows[0]["shortened_to"], "samples": 500, "steps": 60}
        settings |= {"probe": "fast", "changes": {"weights.inv": 2.0}}
        settings |= {"others": {"svhn, first 1083": [1083, "abc"], "shuffled patches": [9, "d"]}}
        config = {"n": 50_000, "settings": settings, "versions": {"torch": "2.0"}}
        (folder / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_the_page_says_how_each_run_was_made_and_names_its_scale(root):
    page = image_tables.page(root)
    assert "## CIFAR-10, scaled down (small/cifar10)" in page
    assert "## SVHN, the paper's settings, training shortened to 9 iterations" in page
    assert (
        "    gedi reproduce images --data cifar10 --scale small --seeds 2 --methods gedi "
        "--samples 500 --steps 60 --probe fast --ood 'svhn, first 1083'=DATA --set weights.inv=2.0"
    ) in page
    assert "Seeds 0, 1; 50000 training images, 128 clusters" in page and "torch 2.0" in page
    assert "| CIFAR-10 | GEDI | 0.200 (0.100 to 0.300) | 0.100 |" in page
    assert "| CIFAR-10 | k-means, pixels | 0.080 |" in page
    assert "| SVHN (10000) | GEDI | 0.900 | 0.580 | 0.700 | 0.600 | 0.500 |" in page


def test_the_page_has_a_line_for_every_number_of_the_paper(root):
    page = image_tables.page(root)
    numbers_part = page.split("## The paper's numbers")[1]
    lines = [line for line in numbers_part.splitlines() if line.startswith(("| ", "|-"))]
    assert len([line for line in lines if "---" not in line and "| paper |" not in line]) == 75
    assert "| NMI | GEDI | 0.45 | batch-wise 0.46 (chance 0.40); whole test NMI 0.20" in page
    assert "scaled down: not comparable" in page and "shortened: not comparable" in page
    assert "`gedi reproduce images --data cifar100 --scale paper --methods jem`" in page


def test_pictures_are_shown_under_names_of_their_own(root):
    page, figures = image_tables.page(root), image_tables.figures(root)
    assert set(figures) == {
        "samples-cifar10-small-gedi.png",
        "samples-svhn-paper-9-iterations-gedi.png",
    }
    for name, path in figures.items():
        assert f"![gedi: samples]({name})" in page and path.exists()


def test_a_folder_without_rows_says_how_to_make_some(tmp_path):
    with pytest.raises(InputError, match="gedi reproduce images --data mnist"):
        image_tables.page(tmp_path)


def test_the_tables_of_a_run_fit_a_terminal(root, capsys):
    rows = [
        made_up("small", method=m, ood={"cifar-100, first": made_up()["ood"]["svhn"]})
        for m in METHODS
    ]
    image_tables.EXPERIMENT.show(rows, Console(width=80, no_color=True))
    shown = capsys.readouterr().out
    table = [line for line in shown.splitlines() if len(line) <= 80]
    assert any("GEDI" in line and "0.120" in line and "50.0" in line for line in table)
    assert any("cifar-100, first" in line and "0.900" in line and "0.500" in line for line in table)
    assert "…" not in shown and "scaled down" in shown


def test_the_markdown_of_a_run_holds_tables_and_the_papers_numbers():
    text = image_tables.markdown([made_up("small")])
    assert text.startswith("CIFAR-10, scaled down (small/cifar10).")
    assert text.count("not comparable") == 5 + 0 and "needs a GPU" in text
