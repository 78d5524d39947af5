"""The table itself, and the trigger that holds everybody to it."""

from uuid import uuid4

import asyncpg
import pytest
from hypothesis import given, strategies as st

from db.lifecycle import CLAIMABLE, TRANSITIONS, Actor, Move, State, pairs
from tests.factories import make_message, make_tenant

#: As DESIGN.md, section 5, has them: (from, to).
DESIGNED = {
    *((source, goal) for source in ("queued", "retryable") for goal in ("leased", "suppressed", "dead")),
    *(("leased", goal) for goal in ("provider_accepted", "dead", "retryable", "queued", "suppressed", "ambiguous")),
    *(("ambiguous", goal) for goal in ("provider_accepted", "queued", "dead")),
    *((source, "provider_accepted") for source in ("queued", "retryable", "suppressed", "dead")),
    *(("provider_accepted", goal) for goal in ("delivered", "hard_bounced", "complained", "dead")),
    ("delivered", "hard_bounced"),
    ("delivered", "complained"),
    ("hard_bounced", "complained"),
}

moves = st.lists(
    st.sampled_from(
        [
            (source, goal, move)
            for move, transition in TRANSITIONS.items()
            for source in transition.sources
            for goal in transition.targets
        ]
    ),
    max_size=12,
)


def test_the_table_has_exactly_the_designed_pairs() -> None:
    assert {(str(source), str(goal)) for source, goal in pairs()} == DESIGNED


@given(moves)
def test_no_way_of_the_machine_leads_from_ambiguous_back_to_a_lease(path: list[tuple[State, State, Move]]) -> None:
    state = State.AMBIGUOUS
    for source, goal, move in path:
        if source is state and TRANSITIONS[move].by is not Actor.OPERATOR:
            state = goal

            assert state not in (State.LEASED, *CLAIMABLE)


def test_no_sequence_of_machine_moves_reaches_a_lease_from_ambiguous() -> None:
    reachable = {State.AMBIGUOUS}
    while True:
        wider = reachable | {
            goal
            for transition in TRANSITIONS.values()
            if transition.by is not Actor.OPERATOR
            for source in transition.sources
            if source in reachable
            for goal in transition.targets
        }
        if wider == reachable:
            break
        reachable = wider

    assert reachable.isdisjoint({State.LEASED, State.QUEUED, State.RETRYABLE})


def test_only_people_move_a_message_out_of_ambiguous_without_evidence() -> None:
    out = {move: transition.by for move, transition in TRANSITIONS.items() if State.AMBIGUOUS in transition.sources}

    assert out == {
        Move.PROVE: Actor.PROVIDER,
        Move.RESOLVE_ACCEPTED: Actor.OPERATOR,
        Move.RESOLVE_RESEND: Actor.OPERATOR,
        Move.RESOLVE_ABANDON: Actor.OPERATOR,
    }


@pytest.mark.parametrize("source", State)
async def test_the_trigger_lets_a_superuser_make_permitted_moves_only(
    superuser: asyncpg.Connection, source: State
) -> None:
    await make_tenant(superuser)
    permitted = set()
    for goal in State:
        message = await make_message(superuser, source)
        raised = "token = token + 1," if goal is State.LEASED and source is not State.LEASED else ""
        try:
            await superuser.execute(
                f"""UPDATE messages SET {raised} came_from = 'queued', provider_accepted_at = now(),
                delivered_at = now(), state = $2 WHERE id = $1""",
                message.id,
                goal.value,
            )
            permitted.add(goal)
        except asyncpg.CheckViolationError:
            pass

    expected = {goal for before, goal in pairs() if before is source} | {source}
    if source is State.AMBIGUOUS:
        expected.discard(State.QUEUED)  # that needs a person's audited decision, see test_guards
    assert permitted == expected


@pytest.mark.parametrize(
    "change", [{"state": "leased", "came_from": "queued"}, {"state": "retryable"}, {"token": 1}, {"attempts_used": 1}]
)
async def test_a_message_begins_queued(superuser: asyncpg.Connection, change: dict[str, object]) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser)
    stored = await superuser.fetchrow("SELECT * FROM messages WHERE id = $1", message.id)
    assert stored is not None
    row = dict(stored) | {"idempotency_key": "another", "id": uuid4()} | change
    names = ", ".join(row)
    places = ", ".join(f"${index}" for index in range(1, len(row) + 1))

    with pytest.raises(asyncpg.CheckViolationError, match="begins queued"):
        await superuser.execute(f"INSERT INTO messages ({names}) VALUES ({places})", *row.values())
