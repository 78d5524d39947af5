"""What must hold of submissions: at most one without a definite refusal or a person's order, as the record has it."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bench.chaos.records import Audited, Found, Observed, by_message
from db.lifecycle import State
from db.outcomes import Outcome

ACCEPTED: Final = "accepted"
#: Answers that prove that nothing was taken. A server error doesn't: on the real wire it may come after the mail.
DEFINITE_REFUSALS: Final = frozenset({"throttled", "rejected"})
#: Attempts of which nobody can say that the provider has not taken them.
_UNCERTAIN: Final = frozenset({Outcome.ACCEPTED, Outcome.UNKNOWN})
_NO_REQUEST: Final = "no request"
#: Beside which of the simulator's answers an attempt's outcome may stand.
_AGREES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        Outcome.ACCEPTED: frozenset({ACCEPTED}),
        Outcome.REFUSED: frozenset({"throttled"}),
        Outcome.REJECTED: frozenset({"rejected"}),
        Outcome.UNKNOWN: frozenset({_NO_REQUEST, ACCEPTED, "throttled", "rejected", "failed"}),
        Outcome.NOT_SUBMITTED: frozenset({_NO_REQUEST}),
        Outcome.NOT_BEGUN: frozenset({_NO_REQUEST}),
        Outcome.RELEASED: frozenset({_NO_REQUEST}),
    }
)


def submitted_twice(observed: Observed) -> set[str]:
    """Give the messages that the simulator accepted more often than once and once for each audited resend."""
    accepted = Counter(request.message_id for request in observed.requests if request.answer == ACCEPTED)
    resends = _resends(observed)
    return {message_id for message_id, times in accepted.items() if times > 1 + len(resends[message_id])}


def lost(observed: Observed) -> set[str]:
    """Give the messages that the client was promised and that are gone, or that only Fencepost says were accepted."""
    promised = {str(answer.message["id"]) for answer in observed.answers if answer.message}
    gone = {message_id for message_id in promised if observed.messages.get(message_id) is None}
    taken = {request.message_id for request in observed.requests if request.answer == ACCEPTED}
    claimed = {attempt.message_id for attempt in observed.attempts if attempt.outcome == Outcome.ACCEPTED}
    return gone | (claimed - taken)


def requests_bounded(observed: Observed) -> Found:
    """I2: no more requests than one, one for each definite refusal, and one for each audited resend."""
    resends = _resends(observed)
    for message_id, requests in by_message(observed.requests).items():
        refusals = sum(request.answer in DEFINITE_REFUSALS for request in requests)
        allowed = 1 + refusals + len(resends[message_id])
        if len(requests) > allowed:
            yield message_id, f"{len(requests)} requests, where {allowed} were allowed"


def nothing_after_uncertainty(observed: Observed) -> Found:
    """I3: after anything but a definite refusal no further request, unless a person ordered it before."""
    resends, attempts = _resends(observed), by_message(observed.attempts)
    for message_id, requests in by_message(observed.requests).items():
        for place, request in enumerate(requests):
            earlier = {each.attempt for each in requests[:place] if each.answer not in DEFINITE_REFUSALS}
            earlier |= {
                each.number
                for each in attempts[message_id]
                if each.outcome in _UNCERTAIN and each.number < request.attempt
            }
            for number in sorted(earlier):
                ordered = any(row.attempt == number and row.at <= request.at for row in resends[message_id])
                # One attempt is one request. A later attempt's may well come first: a stopped worker wakes up late.
                if number == request.attempt or (number < request.attempt and not ordered):
                    yield message_id, f"a request of attempt {request.attempt} after the open end of attempt {number}"


def outcomes_agree(observed: Observed) -> Found:
    """I4: an accepted attempt has the record's message id, and no attempt says what the record denies."""
    requests = by_message(observed.requests)
    for attempt in observed.attempts:
        own = [request for request in requests[attempt.message_id] if request.attempt == attempt.number]
        answers = {request.answer for request in own} or {_NO_REQUEST}
        if attempt.outcome and not answers <= _AGREES[attempt.outcome]:
            said = ", ".join(sorted(answers))
            yield attempt.message_id, f"attempt {attempt.number} is {attempt.outcome}, the record has: {said}"
        elif attempt.outcome == Outcome.ACCEPTED and attempt.provider_message_id not in {
            request.ses_message_id for request in own
        }:
            yield attempt.message_id, f"attempt {attempt.number} has another provider message id than the record"
    known = {(attempt.message_id, attempt.number) for attempt in observed.attempts if attempt.begun}
    for request in observed.requests:
        if (request.message_id, request.attempt) not in known:
            yield request.message_id, f"a request of attempt {request.attempt}, which never began"


def suppressed_means_no_request(observed: Observed) -> Found:
    """I9: what waited while its sender was switched off is suppressed; a suppressed attempt has no request."""
    requests, attempts = by_message(observed.requests), by_message(observed.attempts)
    for message_id, message in observed.known():
        suppressed = message["state"] == State.SUPPRESSED
        made = len(requests[message_id])
        if message_id in observed.switched_off and (made or not suppressed):
            yield message_id, f"waited for a sender that was switched off; is {message['state']}, with {made} requests"
        elif suppressed and made > sum(attempt.begun for attempt in attempts[message_id]):
            yield message_id, f"suppressed, with {made} requests"


def _resends(observed: Observed) -> Mapping[str, list[Audited]]:
    return by_message(row for row in observed.audit if row.decision == "resend")
