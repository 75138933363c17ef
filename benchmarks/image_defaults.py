"""The defaults for images on three sets, one change at a time.

    python benchmarks/image_defaults.py                        the defaults
    python benchmarks/image_defaults.py weights.prior=1 views.noise=0.1,optimizer.batch_size=256
    python benchmarks/image_defaults.py --method gedi density.inv=10,density.prior=20

Each word is a line of the table: changes of settings, joined by commas. Trained on the first 10,000
training images of MNIST and of CIFAR-10 (`gedi data get` first) and on the digits: AMI on the test
images, seed by seed, the median bound gap, of GEDI also the median Frechet distance of 200 samples,
and seconds. Seeds are those of choices, 300 and 301.
"""

from __future__ import annotations

import argparse
from math import nan
from statistics import median

from gedilearn import GEDI, evaluation
from gedilearn.cli.data import changes as parsed
from gedilearn.data.dataset import Dataset
from gedilearn.paper.images import TITLES, load_sets

PART, SAMPLES = 10_000, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("changes", nargs="*", help="NAME=VALUE,NAME=VALUE")
    parser.add_argument("--method", default="no-gen")
    parser.add_argument("--sets", default="digits,mnist,cifar10")
    parser.add_argument("--seeds", default="300,301")
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    print("| changes | set | AMI | bound gap | Frechet | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for words in given.changes or [""]:
        settings = parsed([word for word in words.split(",") if word])
        for name in given.sets.split(","):
            sets = load_sets(name)
            found = [fitted(*sets, given.method, seed, settings) for seed in seeds]
            ami, gap, distance, seconds = zip(*found, strict=True)
            cells = [words or "none", TITLES[name], " ".join(f"{one:.3f}" for one in ami)]
            far = f"{median(distance):.1f}" if given.method == "gedi" else ""
            cells += [f"{median(gap):.3f}", far, f"{median(seconds):.0f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


def fitted(
    train: Dataset, test: Dataset, method: str, seed: int, settings: dict[str, object]
) -> tuple[float, ...]:
    """AMI, bound gap, Frechet distance (nan without GEN) and seconds of one fit."""
    model = GEDI(10, method=method, random_state=seed, settings=settings).fit(train.x[:PART])
    samples = SAMPLES if method == "gedi" else 0
    measuring = {"n_samples": samples, "probe": "none", "certificate": False}
    found = evaluation.evaluate(model, train, test, **measuring)
    distance = found["frechet"].get("distance", nan)
    return found["clustering"]["ami"], model.bound_gap_, distance, model.seconds_


if __name__ == "__main__":
    main()
