"""The tables of images and the page of results, from made-up rows."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from experiments.image_rows import made_up
from gedilearn.errors import InputError
from gedilearn.experiments import image_tables
from gedilearn.experiments.image_tables import Number, answer
from gedilearn.experiments.images import METHODS, NOTHING
from gedilearn.presets import CHOSEN, CHOSEN_FOR_IMAGES

# As printed: JEM, Barlow, SwAV, no gen, GEDI; "01" is taken for 0.1.
PRINTED = """
svhn NMI: 0.00 0.23 0.21 0.21 0.25
svhn FID: 201 353 584 454 218
svhn OOD CIFAR-10: 0.73 0.17 0.26 0.1 0.80
svhn OOD CIFAR-100: 0.72 0.24 0.32 0.15 0.80
svhn probe: 0.20 0.74 0.45 0.35 0.55
cifar10 NMI: 0.00 0.17 0.43 0.44 0.45
cifar10 FID: 263 392 415 424 197
cifar10 OOD SVHN: 0.44 0.32 0.62 0.11 0.57
cifar10 OOD CIFAR-100: 0.53 0.56 0.51 0.51 0.61
cifar10 probe: 0.23 0.65 0.46 0.54 0.53
cifar100 NMI: 0.00 0.58 0.65 0.86 0.87
cifar100 FID: 226 352 416 447 222
cifar100 OOD SVHN: 0.44 0.45 0.3 0.55 0.53
cifar100 OOD CIFAR-10: 0.49 0.43 0.47 0.46 0.48
cifar100 probe: 0.03 0.27 0.13 0.14 0.12
"""


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
    page = image_tables.page(root).text
    assert "## CIFAR-10, scaled down (small/cifar10)" in page
    assert "## SVHN, the paper's settings, training shortened to 9 iterations" in page
    assert (
        "    gedi reproduce images --data cifar10 --scale small --seeds 2 --methods gedi "
        "--samples 500 --steps 60 --probe fast --ood 'svhn, first 1083'=DATA --set weights.inv=2.0"
    ) in page
    assert "Seeds 0, 1; 50000 training images, 128 clusters" in page and "torch 2.0" in page
    assert "| CIFAR-10 | GEDI | 2 | 0.200 (0.100 to 0.300) | 0.100 |" in page
    assert "| CIFAR-10 | k-means, pixels | 1 | 0.080 |" in page
    assert "| SVHN (10000) | GEDI | 2 | 0.900 | 0.580 | 0.700 | 0.600 | 0.500 |" in page


def test_the_page_says_what_settings_were_chosen_on(root):
    page = image_tables.page(root).text
    assert CHOSEN["small/cifar10"] in page and CHOSEN["paper/svhn"] in page
    assert image_tables.chosen_on([made_up("default", data="mnist")]) == CHOSEN_FOR_IMAGES


def test_the_page_has_a_line_for_every_number_of_the_paper(root):
    page = image_tables.page(root).text
    numbers_part = page.split("## The paper's numbers")[1]
    lines = [line for line in numbers_part.splitlines() if line.startswith(("| ", "|-"))]
    assert len([line for line in lines if "---" not in line and "| paper |" not in line]) == 75
    assert "| NMI | GEDI | 0.45 | batch-wise 0.46 (chance 0.40); whole test NMI 0.20" in page
    assert "scaled down: not comparable" in page
    assert "shortened or changed: not comparable" in page
    assert "`gedi reproduce images --data cifar100 --scale paper --methods jem`" in page


def test_pictures_are_shown_under_names_of_their_own(root):
    page, figures = image_tables.page(root).text, image_tables.page(root).pictures
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
    text = image_tables.EXPERIMENT.markdown([made_up("small")])
    assert text.startswith("CIFAR-10, scaled down (small/cifar10).")
    assert text.count("not comparable") == 5 + 0 and "needs a GPU" in text


# --- the paper's numbers


def number(measure, method="gedi", other=None):
    (found,) = [
        n
        for n in image_tables.numbers("cifar10")
        if (n.measure, n.method, n.other) == (measure, method, other)
    ]
    return found


def test_every_number_of_the_papers_image_tables_is_there():
    found = {}
    for data in ("svhn", "cifar10", "cifar100"):
        for n in image_tables.numbers(data):
            found.setdefault(f"{data} {n.title}", []).append((n.method, n.paper))
    printed = {}
    for line in PRINTED.strip().splitlines():
        name, values = line.split(": ")
        printed[name] = list(zip(METHODS, map(float, values.split()), strict=True))
    assert found == printed
    assert sum(map(len, found.values())) == 75


def five(**others):
    return [made_up(seed=seed, **others) for seed in range(5)]


def test_a_number_that_was_not_run_has_the_exact_command():
    found = answer(number("NMI", "swav"), [made_up()])
    assert found == (
        "",
        "needs a GPU: `gedi reproduce images --data cifar10 --scale paper --methods swav`",
        "",
        "",
    )


def test_a_run_at_full_scale_is_judged_by_the_papers_protocol():
    # 0.46 batch-wise for 0.45, although 0.12 over the whole test
    assert answer(number("NMI"), five()) == (
        "batch-wise 0.46 (chance 0.40); whole test NMI 0.12, AMI 0.10",
        "reproduced",
        "5",
        "+0.005 to +0.015",  # and the half of a digit that the paper's rounding leaves
    )
    assert answer(number("NMI"), five(batchwise_nmi=0.56)).verdict == "better"
    assert answer(number("OOD", other="svhn"), five())[:2] == ("0.58", "reproduced")


def test_what_is_worse_says_what_was_found():
    rows = five()
    rows[0] |= {"modes": ["cluster collapse"], "recoveries": 2}
    found = "cluster collapse 1/5, recovered 1/5, uncertified 4/5: gap 1.500"
    assert answer(number("probe"), rows).verdict == f"worse: {found}"


def test_the_spread_of_our_seeds_does_not_help():
    seeds = [made_up(probe=p, seed=i) for i, p in enumerate((0.1, 0.3, 0.5, 0.7, 0.9))]
    assert answer(number("probe"), seeds)[:3] == ("0.50", "undecided", "5")
    few = answer(number("probe"), [made_up(probe=0.53)])
    assert few == ("0.53", "undecided: fewer than 5 seeds", "1", "")


def test_a_scaled_down_or_shortened_run_is_never_compared():
    small, short = made_up("small"), made_up(shortened_to=30)
    whole = "needs a GPU: `gedi reproduce images --data cifar10 --scale paper --methods gedi`"
    assert answer(number("NMI"), [small]).verdict == f"scaled down: not comparable; {whole}"
    other = f"shortened or changed: not comparable; {whole}"
    assert answer(number("NMI"), [short]).verdict == other
    changed = made_up(changes={"weights.inv": 2.0})
    assert answer(number("NMI"), [changed]).verdict == other
    assert answer(number("NMI"), [short, small, *five()]).verdict == "reproduced"


def test_another_frechet_distance_is_never_taken_for_fid():
    ours, verdict, *_ = answer(number("FID"), [made_up(frechet=197.0)])
    assert ours == "" and verdict.startswith("not measured: FID needs the Inception weights")
    assert answer(number("FID"), [made_up("small", frechet=197.0)]).ours == ""
    true = made_up(frechet_title="FID")

    def judged(frechet):  # beside 197, of which a tenth is allowed
        return answer(number("FID"), five(frechet_title="FID", frechet=frechet))

    assert judged(216.0) == ("216", "reproduced", "5", "+18.5 to +19.5")
    assert judged(217.0).verdict.startswith("worse: ") and judged(177.0).verdict == "better"
    assert "FID" in image_tables.space([made_up()])[0]
    assert "Not to be held against" not in image_tables.space([true])[0]


def test_a_part_of_a_set_outside_is_named_beside_the_number():
    areas = made_up()["ood"]["svhn"]
    row = made_up("small", ood={"svhn, first 1083": areas})
    assert answer(number("OOD", other="svhn"), [row]).ours == "0.58 (svhn, first 1083)"
    missing = answer(number("OOD", other="cifar100"), [made_up()])
    assert missing[:2] == ("", "not measured: `gedi data get cifar100`, or --ood cifar100=DATA")


def test_another_probe_is_not_taken_for_the_papers():
    found = answer(number("probe"), [made_up(probe=0.53, probe_protocol="fast")])
    assert found[:2] == ("", "not measured: --probe paper")


def test_a_number_is_told_by_its_measure_set_and_method():
    assert Number("svhn", "OOD", "cifar10", "gedi", 0.8).title == "OOD CIFAR-10"
