"""The kinds of cases, and how a number of them are drawn and played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from fuzz import api, commands, files, interruptions, run_folders, settings_values
from fuzz.player import Player

# Hypothesis varies what it has drawn before once there were ten cases; new ones find more.
ROUND = 10


@dataclass(frozen=True)
class Kind:
    """What is drawn, how it is played (the faults of a case), and how many in a round."""

    cases: Callable[[], SearchStrategy[Any]]
    play: Callable[[Player, Any], list[str]] = Player.faults
    number: int = ROUND


KINDS = {
    "files": Kind(files.cases),
    "commands": Kind(commands.cases),
    "settings": Kind(settings_values.cases),
    "runs": Kind(run_folders.cases),
    "api": Kind(api.cases),
    "interruptions": Kind(partial(interruptions.cases, 1), interruptions.play, 6),
    "ranks": Kind(partial(interruptions.cases, 2), interruptions.play, 3),
}


def play_round(
    player: Player,
    kind: str,
    number: int,
    tell: Callable[[Any, list[str]], None],
    most: int | None = None,
) -> None:
    """Play cases of a kind, drawn from the seed `number`; `tell` is given those that have faults.

    Every round begins with the simplest case of all: what was played before is left out.
    """
    drawn = settings(
        max_examples=most or KINDS[kind].number,
        phases=[Phase.generate],  # a case is small, and making it smaller takes long
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )

    @seed(number)
    @drawn
    @given(KINDS[kind].cases())
    def one(case: Any) -> None:
        if repr(case) not in player.sound:
            player.counts[kind] += 1
            if faults := KINDS[kind].play(player, case):
                tell(case, faults)
            else:
                player.sound.add(repr(case))

    one()
