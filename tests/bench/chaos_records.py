"""Hand-made records of a chaos run, right in every point; each test bends one."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.chaos.checker import check
from bench.chaos.records import (
    Action,
    Answer,
    Asked,
    Attempt,
    Audited,
    KeptEvent,
    Notification,
    Observed,
    Request,
    Row,
)
from db.lifecycle import TRANSITIONS, Move

ID = "0192a1f0-0000-7000-8000-000000000001"
SES_ID = "ses-1"
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return _BEGAN + timedelta(seconds=seconds)


def line(seq: int, move: Move, source: str | None, goal: str) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": at(seq).isoformat(),
        "from": source,
        "to": goal,
        "move": str(move),
        "reason": None,
        "attempt": 1,
        "actor": str(TRANSITIONS[move].by),
    }


#: A message that was accepted at once, and of which nobody tells more.
ACCEPTED = (
    line(1, Move.INTAKE, None, "queued"),
    line(2, Move.CLAIM, "queued", "leased"),
    line(3, Move.ACCEPT, "leased", "provider_accepted"),
)
DELIVERED = (*ACCEPTED, line(4, Move.DELIVER, "provider_accepted", "delivered"))
#: Nobody knows whether the provider took it.
DOUBTED = (*ACCEPTED[:2], line(3, Move.QUARANTINE, "leased", "ambiguous"))


def message(*timeline: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "state": timeline[-1]["to"],
        "idempotent_replay": False,
        "timeline": list(timeline),
        "attempts": [{"number": 1, "outcome": "accepted", "begun_at": "2026-01-01T00:00:02Z"}],
        "delivered_at": None,
        **more,
    }


def attempt(number: int = 1, outcome: str | None = "accepted", **more: Any) -> Attempt:
    begun = outcome not in ("not_begun", "released")
    given = {"token": number, "claimed_at": at(10 * number), "begun": begun, "closed": outcome is not None, **more}
    if outcome == "accepted":
        given = {"provider_message_id": SES_ID, **given}
    return Attempt(message_id=ID, number=number, outcome=outcome, **given)


def request(
    number: int = 1, answer: str = "accepted", seconds: float | None = None, recipient: str | None = "silent"
) -> Request:
    return Request(
        message_id=ID,
        attempt=number,
        at=at(10 * number + 2 if seconds is None else seconds),
        answer=answer,
        ses_message_id=SES_ID if answer == "accepted" else None,
        recipient=recipient,
    )


def told(*types: str, number: int = 1, taken: bool = True) -> dict[str, Any]:
    """Give events about an attempt, as they were published and as they are kept."""
    return {
        "notifications": tuple(
            Notification(id=f"sns-{number}-{each}", message_id=ID, attempt=number, type=each, taken=taken)
            for each in types
        ),
        "events": tuple(KeptEvent(message_id=ID, attempt=number, type=each) for each in types),
    }


def ended(*timeline: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Give a message with this timeline, and its row."""
    return {"messages": {ID: message(*timeline, **more)}, "rows": (row(timeline[-1]["to"]),)}


def resend(number: int = 1, seconds: float = 15) -> Audited:
    return Audited(action="message_resolved", at=at(seconds), message_id=ID, attempt=number, decision="resend")


def ordered(number: int = 1, *, status: int | None = 200, due: int = 200) -> Action:
    return Action(
        action="message_resolved",
        status=status,
        message_id=ID,
        attempt=number,
        decision="resend",
        due=frozenset({due}),
    )


def decided(decision: str) -> dict[str, Any]:
    """Give a person's decision about attempt 1, done and audited."""
    done: dict[str, Any] = {"action": "message_resolved", "message_id": ID, "attempt": 1, "decision": decision}
    return {"audit": (Audited(at=at(15), **done),), "actions": (Action(status=200, **done),)}


def row(state: str = "provider_accepted", **more: str) -> Row:
    return Row(**{"id": ID, "tenant": "demo", "key": "k", "state": state, **more})


def answer(status: int = 202, asked: Asked = Asked.COMMAND, **more: Any) -> Answer:
    shown = message(*ACCEPTED[:1], attempts=[], idempotent_replay=status == 200)
    return Answer(key="k", asked=asked, status=status, message={**shown, **more} if status < 300 else None)


def observed(**bent: Any) -> Observed:
    """Give a run with one message, accepted, replayed and once asked for otherwise; with what is bent."""
    right: dict[str, Any] = {
        "answers": (answer(), answer(200, Asked.REPLAY), answer(409, Asked.CONFLICT)),
        "messages": {ID: message(*ACCEPTED)},
        "rows": (row(),),
        "attempts": (attempt(),),
        "requests": (request(),),
        "places": {"a log": "message_claimed"},
        "canaries": {"context value": "canary"},
    }
    return Observed(**{**right, **bent})


def breached(run: Observed) -> set[str]:
    """Give the invariants that a run breaks."""
    return {finding.invariant for finding in check(run)}


#: A provider that takes a message and never answers.
HANGS: dict[str, Any] = {"requests": (request(recipient="hang"),)}
