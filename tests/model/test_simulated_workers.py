"""Thousands of simulated stories of one message and its workers, each from a seed, through the product's decisions.

FENCEPOST_MODEL_SEEDS says how many (3,000 by default). A seed that fails is printed with its whole trace; it is played
alone, again and the same, with FENCEPOST_MODEL_SEED=<seed> and `-k the_promises_hold`.
"""

import os

import pytest

from db.lifecycle import Move, State
from tests.model.actors import simulate
from tests.model.memory_store import MemoryStore
from tests.model.simulation import BreachError
from tests.model.weakened_stores import (
    BeginsWithoutAnyGuard,
    BeginsWithoutPolicy,
    ClaimsWhatIsLeased,
    HeedsOnlyTheAttemptOfNow,
    IsNeverSwept,
    RecordsOverWhatStands,
    TakesBegunForNeverBegun,
    TakesUnknownForAccepted,
)


def _seeds() -> range:
    if alone := os.environ.get("FENCEPOST_MODEL_SEED"):
        return range(int(alone), int(alone) + 1)
    return range(int(os.environ.get("FENCEPOST_MODEL_SEEDS", "3000")))


def test_the_promises_hold_whatever_goes_wrong_between_workers() -> None:
    for seed in _seeds():
        simulate(seed)


def test_a_seed_tells_the_same_story_each_time() -> None:
    assert simulate(7).trace == simulate(7).trace


def test_the_stories_go_through_every_move_and_every_end() -> None:
    stories = [simulate(seed).store.message for seed in range(400)]

    moves = {line.move for message in stories for line in message.timeline}
    assert moves == set(Move)
    ends = {message.state for message in stories}
    assert ends == set(State) - {State.QUEUED, State.RETRYABLE, State.LEASED}
    assert any(attempt.late for message in stories for attempt in message.attempts)


@pytest.mark.parametrize(
    ("weakened", "breaks"),
    [
        (BeginsWithoutAnyGuard, "I2 more requests"),
        (BeginsWithoutAnyGuard, "I3 a request"),
        (BeginsWithoutAnyGuard, "I7"),
        (BeginsWithoutPolicy, "I9"),
        (TakesBegunForNeverBegun, "I2 a request although the provider has one"),
        (TakesBegunForNeverBegun, "I3 free to be claimed"),
        (TakesUnknownForAccepted, "I5"),
        (ClaimsWhatIsLeased, "I2 more requests"),
        (ClaimsWhatIsLeased, "I6"),
        (RecordsOverWhatStands, "I7"),
        (IsNeverSwept, "I8"),
        (HeedsOnlyTheAttemptOfNow, "I5"),
    ],
)
def test_a_guard_that_is_taken_away_is_missed(weakened: type[MemoryStore], breaks: str) -> None:
    assert any(_breaks(seed, weakened, breaks) for seed in range(500))


def _breaks(seed: int, weakened: type[MemoryStore], invariant: str) -> bool:
    try:
        simulate(seed, weakened, only=invariant)
    except BreachError as breach:
        return any(name.startswith(invariant) for name in breach.names)
    return False
