"""`make fuzz`: cases of every kind, from seeds that are printed, and a summary.

A fault is reported once. Its case is kept in a folder with what repeats it.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz import interruptions
from fuzz.play import Player, get_ready

get_ready()
from fuzz import cases  # noqa: E402  (reads the settings and commands of the library)

ROUND = 10  # cases; after ten, hypothesis varies those it has drawn, and new ones find more
KINDS: dict[str, tuple[Any, Any, int]] = {  # strategy, player, cases in a round
    "files": (cases.files, Player.faults, ROUND),
    "commands": (cases.commands, Player.faults, ROUND),
    "runs": (cases.runs, Player.faults, ROUND),
    "api": (cases.programs, Player.faults, ROUND),
    "interruptions": (lambda: interruptions.cases(1), interruptions.faults, 6),
    "ranks": (lambda: interruptions.cases(2), interruptions.faults, 3),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=10**9, help="at most so many of a kind")
    parser.add_argument("--seed", default="random", help="a number, or random")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these kinds only")
    parser.add_argument("--out", type=Path, default=Path("fuzz-found"), help="folder for faults")
    asked = parser.parse_args()
    number = random.SystemRandom().randrange(10**9) if asked.seed == "random" else int(asked.seed)
    print(f"seed {number}", flush=True)
    kinds = asked.kinds.split(",")
    hunt = Hunt(asked.out.resolve(), time.monotonic() + 60 * asked.minutes, asked.cases)
    try:
        cases.make_templates(hunt.player)
        while any(hunt.goes_on(kind) for kind in kinds):
            for kind in kinds:
                hunt.round(kind, number)
            number += 1
            print(f"{dict(hunt.played)} cases, {len(hunt.found)} distinct faults", flush=True)
    finally:
        shutil.rmtree(hunt.player.root, ignore_errors=True)
    print(f"{hunt.played.total()} cases, {len(hunt.found)} faults")
    return 1 if hunt.found else 0


class Hunt:
    """Plays rounds of cases and keeps the faults that were found."""

    def __init__(self, out: Path, end: float, most: int) -> None:
        self.player, self.out, self.end, self.most = Player(), out, end, most
        self.played: Counter[str] = Counter()  # by kind
        self.found: set[str] = set()  # kinds and words, without the numbers in them

    def goes_on(self, kind: str) -> bool:
        return time.monotonic() < self.end and self.played[kind] < self.most

    def round(self, kind: str, number: int) -> None:
        """Some cases of a kind, drawn from the seed `number`."""
        strategy, faults, size = KINDS[kind]

        @seed(number)
        @settings(
            max_examples=min(size, self.most),
            phases=[Phase.generate],  # making a case smaller takes long
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy())
        def one(case: Any) -> None:
            if self.goes_on(kind):
                self.played[kind] += 1
                for fault in faults(self.player, case):
                    self.keep(kind, number, case, fault)

        one()

    def keep(self, kind: str, number: int, case: Any, fault: str) -> None:
        """Report a fault and keep its case, if it is new."""
        words = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?|'[^']*'|\"[^\"]*\"", "#", f"{kind}: {fault}")
        if words in self.found:
            return
        self.found.add(words)
        folder = self.out / f"{kind}-{len(self.found)}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for entry in case.entries:
            entry.put(folder)
        text = f"{fault}\n\n{case.command()}\n\nkind {kind}, seed {number}\n{case}\n"
        (folder / "WHAT.txt").write_text(text, errors="backslashreplace")
        line = f"FAULT {folder}: {case.command()[:300]}\n    {fault}"
        print(line.encode(errors="replace").decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
