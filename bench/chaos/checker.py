"""What must hold whatever was killed: the invariants I1 to I13, as pure functions over what a run has seen.

The simulator's record is the witness of how often a message was submitted, and of what was published about it;
Fencepost's own tables are what is judged.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bench.chaos.endings import events_lead_to_the_end
from bench.chaos.records import Found, Observed, Subject
from bench.chaos.stories import attempts_append_only, delivery_has_its_event, lifecycle_kept, one_message_a_key
from bench.chaos.submissions import (
    nothing_after_uncertainty,
    outcomes_agree,
    requests_bounded,
    suppressed_means_no_request,
)
from db.lifecycle import State

#: States that the machine must lead out of by itself.
PASSING: Final = frozenset({State.QUEUED, State.LEASED, State.RETRYABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A breach of an invariant; the text holds ids, numbers and codes only."""

    invariant: str
    what: str
    message_id: str | None = None


def check(observed: Observed) -> list[Finding]:
    """Try every invariant, and give every breach."""
    return [
        Finding(invariant=name, message_id=message_id, what=what)
        for name, invariant in INVARIANTS.items()
        for message_id, what in invariant(observed)
    ]


def _nothing_stuck(observed: Observed) -> Found:
    """I8: every command has its answer, and every message left the passing states once the faults were over."""
    for _ in observed.unanswered:
        yield None, "a command had no answer to the end"
    for row in observed.rows:
        if row.state in PASSING:
            yield row.id, f"is {row.state} still"


def _nothing_leaks(observed: Observed) -> Found:
    """I10: nothing protected stands in a log, a Temporal history or an answer."""
    for place, text in observed.places.items():
        lowered = text.lower()
        for what, canary in observed.canaries.items():
            if canary.lower() in lowered:
                yield None, f"{what} in {place}"


def _actions_audited(observed: Observed) -> Found:
    """I11: one audit row for each action that was done, none for one that was refused."""
    done, unknown, rows = Counter[Subject](), Counter[Subject](), Counter[Subject]()
    for call in observed.actions:
        done[call.subject] += call.done
        unknown[call.subject] += call.status is None
        if call.status is not None and call.status not in call.due:
            yield call.message_id, f"{call.action} {call.decision} was answered {call.status}, due: {sorted(call.due)}"
    rows.update(row.subject for row in observed.audit)
    for subject in done.keys() | rows.keys():
        if not done[subject] <= rows[subject] <= done[subject] + unknown[subject]:
            action, message_id, attempt, decision = subject
            about = f" {decision} about attempt {attempt}" if decision else ""
            yield (
                message_id,
                f"{action}{about}: done {done[subject]} times, unanswered {unknown[subject]}, audited {rows[subject]}",
            )


def _tenants_apart(observed: Observed) -> Found:
    """I12: another tenant's key reads none of these messages."""
    for message_id in sorted(observed.read_by_others):
        yield message_id, "another tenant's key reads it"


INVARIANTS: Final[Mapping[str, Callable[[Observed], Found]]] = MappingProxyType(
    {
        "I1": one_message_a_key,
        "I2": requests_bounded,
        "I3": nothing_after_uncertainty,
        "I4": outcomes_agree,
        "I5": delivery_has_its_event,
        "I6": lifecycle_kept,
        "I7": attempts_append_only,
        "I8": _nothing_stuck,
        "I9": suppressed_means_no_request,
        "I10": _nothing_leaks,
        "I11": _actions_audited,
        "I12": _tenants_apart,
        "I13": events_lead_to_the_end,
    }
)
