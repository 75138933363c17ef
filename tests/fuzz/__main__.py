"""`make fuzz`: cases of every kind, for as long as asked, from seeds that are printed; a summary.

A fault is reported once and its case kept, in a folder with what repeats it; the hunt goes on.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.kinds import KINDS, play_round
from fuzz.player import Player
from fuzz.tiny import make_templates


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=0, help="at most so many; 0 sets no limit")
    parser.add_argument("--seed", default="random", help="a number, or random")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these kinds only")
    parser.add_argument("--out", type=Path, default=Path("fuzz-found"), help="folder for faults")
    asked = parser.parse_args()
    number = random.SystemRandom().randrange(10**9) if asked.seed == "random" else int(asked.seed)
    print(f"seed {number}", flush=True)
    hunt, began = Hunt(Player.start(), asked.out.resolve()), time.monotonic()
    try:
        make_templates(hunt.player)
        while time.monotonic() - began < 60 * asked.minutes:
            for kind in asked.kinds.split(","):
                hunt.round(kind, number)
            number += 1
            print(f"{hunt.cases} cases, {len(hunt.found)} distinct faults", flush=True)
            if asked.cases and hunt.cases >= asked.cases:
                break
    finally:
        hunt.player.stop()
        print(hunt.summary(time.monotonic() - began))
    return 1 if hunt.found else 0


class Hunt:
    """Plays rounds of cases and keeps what was found."""

    def __init__(self, player: Player, out: Path) -> None:
        self.player, self.out = player, out
        self.found: Counter[str] = Counter()  # by kind and words, without the numbers in them
        self.sorts: Counter[str] = Counter()  # by the first word

    @property
    def cases(self) -> int:
        return sum(self.player.counts.values())

    def round(self, kind: str, number: int) -> None:
        """Some cases of a kind, drawn from a seed."""
        play_round(self.player, kind, number, partial(self.keep, kind, number))

    def keep(self, kind: str, number: int, case: Any, faults: list[str]) -> None:
        """Count faults; report those that are new, and keep their case."""
        for fault in faults:
            self.keep_fault(kind, number, case, fault)

    def keep_fault(self, kind: str, number: int, case: Any, fault: str) -> None:
        words = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?|'[^']*'|\"[^\"]*\"", "#", fault)
        self.found[f"{kind}: {words}"] += 1
        self.sorts[fault.partition(":")[0]] += 1
        if self.found[f"{kind}: {words}"] > 1:
            return
        folder = self.out / f"{kind}-{len(self.found)}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for entry in case.entries:
            entry.put(folder)
        command = case.command()
        text = f"{fault}\n\n{command}\n\nkind {kind}, seed {number}\n{case}\n"
        (folder / "WHAT.txt").write_text(text, errors="backslashreplace")
        print(f"FAULT {folder}: {command[:300]}\n    {fault}".encode(errors="replace").decode())
        sys.stdout.flush()

    def summary(self, seconds: float) -> str:
        counts = ", ".join(f"{n} {kind}" for kind, n in self.player.counts.items())
        codes = ", ".join(f"{n} with {code}" for code, n in self.player.codes.most_common())
        sorts = ", ".join(f"{n} {sort}" for sort, n in self.sorts.items()) or "none"
        return (
            f"{self.cases} cases in {seconds / 60:.0f} minutes: {counts}\n"
            f"faults: {sorts}; {len(self.found)} distinct, kept in {self.out}\n"
            f"processes by exit code: {codes}\n"
            f"longest {self.player.seconds:.1f} s, most memory {self.player.memory / 2**20:.0f} MB"
        )


if __name__ == "__main__":
    sys.exit(main())
