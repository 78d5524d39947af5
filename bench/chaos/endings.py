"""What provider events must lead to: each is taken and kept once, and says where its message ends."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from bench.chaos.records import Found, Notification, Observed, Request, by_message
from bench.chaos.submissions import ACCEPTED
from db.lifecycle import RANKS, State
from db.outcomes import Outcome

#: Where mail to the simulator's recipients ends once it was accepted and its events have come (CONTRACT section 4);
#: any other is delivered.
_ENDS: Final = {
    "bounce": State.HARD_BOUNCED,
    "suppressionlist": State.HARD_BOUNCED,
    "late-bounce": State.HARD_BOUNCED,
    "disorder": State.HARD_BOUNCED,
    "complaint": State.COMPLAINED,
}
#: Nobody ever tells what became of these, and nobody even answers the first.
_LOST, _SILENT = "lost", "silent"
#: Where a person's decision may leave such a message.
_DECIDED: Final = {
    "accepted": {State.PROVIDER_ACCEPTED},
    "abandon": {State.DEAD},
    "resend": {State.AMBIGUOUS, State.DEAD},
}


def events_lead_to_the_end(observed: Observed) -> Found:
    """I13: every event is taken and kept once, and every message ends where its events, or a person, put it."""
    for notification in observed.notifications:
        if not notification.taken:
            yield notification.message_id, f"a {notification.type} event was not taken in {notification.tries} tries"
    yield from _kept_once(observed)
    requests = by_message(observed.requests)
    for message_id, message in observed.known():
        accepted = [request for request in requests[message_id] if request.answer == ACCEPTED]
        due = _due(observed, message_id, accepted)
        if due is not None and message["state"] not in due:
            yield message_id, f"is {message['state']}, due: {', '.join(sorted(due))}"


def _kept_once(observed: Observed) -> Found:
    """Compare what is kept with what was published; copies of one notification are one event."""
    published = Counter((each.message_id, each.attempt, each.type) for each in _distinct(observed))
    kept = Counter((each.message_id, each.attempt, each.type) for each in observed.events)
    for about in sorted(published.keys() | kept.keys()):
        if published[about] != kept[about]:
            message_id, attempt, word = about
            times = f"published {published[about]} times, kept {kept[about]} times"
            yield message_id, f"a {word} event of attempt {attempt} was {times}"


def _distinct(observed: Observed) -> Iterable[Notification]:
    return {notification.id: notification for notification in observed.notifications}.values()


def _due(observed: Observed, message_id: str, accepted: list[Request]) -> set[State] | None:
    """Give the states in which a message may be left; None where its events don't decide that.

    Nothing that the provider never took is known to be accepted, unless a person said so. Of what it took, only what
    nobody tells of may stay ambiguous: mail that was lost, and mail whose answer nobody could record.
    """
    decisions = {row.decision for row in by_message(observed.audit)[message_id] if row.decision}
    if not accepted:
        return None if "accepted" in decisions else set(State) - set(RANKS)
    recipient = accepted[0].recipient
    if recipient not in (_LOST, _SILENT):
        return {_ENDS.get(recipient or "", State.DELIVERED)}
    attempts = by_message(observed.attempts)[message_id]
    answered = recipient == _SILENT and any(attempt.outcome == Outcome.ACCEPTED for attempt in attempts)
    due = {State.PROVIDER_ACCEPTED if answered else State.AMBIGUOUS}
    return due.union(*(_DECIDED[decision] for decision in decisions))
