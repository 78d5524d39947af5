"""What must hold of a message's story: one message a key, edges of the lifecycle only, attempts that only grow."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from bench.chaos.records import Answer, Asked, Found, Observed, by_message
from db.lifecycle import TRANSITIONS, Actor, Move, State
from db.outcomes import EventType

#: What only a provider event can tell, by the state that it leads to.
_TOLD_BY: Final = {
    State.DELIVERED: EventType.DELIVERY,
    State.HARD_BOUNCED: EventType.BOUNCE,
    State.COMPLAINED: EventType.COMPLAINT,
}
#: What the timeline tells though it moves nothing, with who makes it (CONTRACT section 2).
_NOTES: Final = {("late_result", Actor.MACHINE)} | {(f"event_{event}", Actor.PROVIDER) for event in EventType}


def one_message_a_key(observed: Observed) -> Found:
    """I1: one row a (tenant, key), every replay the same id, and no second command under a key."""
    ids: dict[str, set[str]] = defaultdict(set)
    new = Counter[str]()
    for answer in observed.answers:
        new[answer.key] += answer.status == 202  # noqa: PLR2004
        if fault := _wrong_answer(answer):
            yield answer.message_id, fault
        elif answer.message_id:
            ids[answer.key].add(answer.message_id)
    for key, found in ids.items():
        if len(found) > 1:
            yield min(found), f"one key gave {len(found)} different messages"
        if new[key] > 1:
            yield min(found), f"one key was accepted as new {new[key]} times"
    yield from _rows_fit(observed, ids)


def _rows_fit(observed: Observed, ids: Mapping[str, set[str]]) -> Found:
    rows = Counter((row.tenant, row.key) for row in observed.rows)
    for row in observed.rows:
        if rows[row.tenant, row.key] > 1:
            yield row.id, "one key has more than one row"
        if row.key in ids and row.id not in ids[row.key]:
            yield row.id, "a row is not the message that its key's client was given"
        if row.key not in ids and row.key not in observed.unanswered:
            yield row.id, "a row that no command asked for"


def _wrong_answer(answer: Answer) -> str | None:
    """Say how an answer breaks the rules of replay and conflict (CONTRACT section 2)."""
    match answer.asked:
        case Asked.CONFLICT if answer.status != 409:  # noqa: PLR2004
            return f"another command under a known key was answered {answer.status}"
        case Asked.REPLAY if answer.status != 200 or not (answer.message or {}).get("idempotent_replay"):  # noqa: PLR2004
            return f"a replay was answered {answer.status}, or not marked as one"
        case Asked.COMMAND if answer.status not in {200, 202}:
            return f"a command was answered {answer.status}"
        case _:
            return None


def delivery_has_its_event(observed: Observed) -> Found:
    """I5: delivered, bounced and complained only by an event that the simulator published and the API took and kept."""
    kept, taken = by_message(observed.events), by_message(each for each in observed.notifications if each.taken)
    for message_id, message in observed.known():
        been = {str(line["to"]) for line in message["timeline"]} | {str(message["state"])}
        told = {each.type for each in kept[message_id]} & {each.type for each in taken[message_id]}
        for state, event in _TOLD_BY.items():
            if state in been and event not in told:
                yield message_id, f"{state} without a {event} event"
        if message["delivered_at"] and EventType.DELIVERY not in told:
            yield message_id, "has a time of delivery without a delivery event"


def lifecycle_kept(observed: Observed) -> Found:
    """I6: every line of the timeline is an edge of the lifecycle, and the chain has no gap."""
    for message_id, message in observed.known():
        state: str | None = None
        for place, line in enumerate(message["timeline"], 1):
            if line["seq"] != place:
                yield message_id, f"line {place} of the timeline has the number {line['seq']}"
            if line["from"] is None and line["to"] is None:
                if not _is_note(line):
                    yield message_id, f"line {place}: {line['move']} by {line['actor']} tells of nothing that happens"
                continue
            if line["from"] != state:
                yield message_id, f"line {place} starts from {line['from']}, and the message was {state}"
            if not _is_edge(line):
                yield message_id, f"line {place}: no {line['move']} leads from {line['from']} to {line['to']}"
            state = line["to"]
        if state != message["state"]:
            yield message_id, f"is {message['state']}, and its timeline ends with {state}"


def _is_note(line: Mapping[str, Any]) -> bool:
    """Tell whether a line that moves nothing is of something that may happen so."""
    return (line["move"], line["actor"]) in _NOTES


def _is_edge(line: Mapping[str, Any]) -> bool:
    if line["move"] not in set(Move):
        return False
    transition = TRANSITIONS[Move(line["move"])]
    starts = line["from"] in transition.sources if transition.sources else line["from"] is None
    return starts and line["to"] in transition.targets and line["actor"] == transition.by


def attempts_append_only(observed: Observed) -> Found:
    """I7: attempts are numbered from 1, at most one is open, tokens grow, and nothing that was shown changes."""
    states = {row.id: row.state for row in observed.rows}
    for message_id, unsorted in by_message(observed.attempts).items():
        attempts = sorted(unsorted, key=lambda attempt: attempt.number)
        if [attempt.number for attempt in attempts] != list(range(1, len(attempts) + 1)):
            yield message_id, "its attempts are not numbered from 1"
        still_open = [attempt for attempt in attempts if not attempt.closed]
        if len(still_open) > 1 or (still_open and states.get(message_id) != State.LEASED):
            yield message_id, f"{len(still_open)} open attempts while {states.get(message_id)}"
        for before, after in pairwise(attempts):
            if before.token >= after.token or before.claimed_at > after.claimed_at:
                yield message_id, f"attempt {after.number} has no newer token than the one before"
    for answer in observed.answers:
        now = observed.messages.get(answer.message_id or "")
        if answer.message and now and not _continues(answer.message, now):
            yield answer.message_id, "what an answer showed of its attempts or timeline is told otherwise now"


def _continues(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tell whether the present attempts and timeline are the earlier ones, and what came to them."""
    lines, attempts = before["timeline"], before["attempts"]
    if now["timeline"][: len(lines)] != lines or len(now["attempts"]) < len(attempts):
        return False
    return all(
        value is None or later[name] == value
        for earlier, later in zip(attempts, now["attempts"], strict=False)
        for name, value in earlier.items()
    )
