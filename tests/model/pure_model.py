"""What a message should be, written from DESIGN's table and its protocol alone; nothing of the product is called here.

Time is in words: a lease has the whole call budget left, or less, or is over; a message is due or not, too old or not.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final
from uuid import UUID

#: From where to where, by whom: the table of the design's fifth section, row by row.
EDGES: Final = frozenset(
    {
        *((source, goal, "machine") for source in ("queued", "retryable") for goal in ("leased", "suppressed", "dead")),
        *(
            ("leased", goal, "machine")
            for goal in ("provider_accepted", "dead", "retryable", "queued", "suppressed", "ambiguous")
        ),
        *(("ambiguous", goal, "operator") for goal in ("provider_accepted", "queued", "dead")),
        *(
            (source, "provider_accepted", "provider")
            for source in ("ambiguous", "queued", "retryable", "leased", "suppressed", "dead")
        ),
        *(("provider_accepted", goal, "provider") for goal in ("delivered", "hard_bounced", "complained", "dead")),
        *(("delivered", goal, "provider") for goal in ("hard_bounced", "complained")),
        ("hard_bounced", "complained", "provider"),
    }
)
#: Where a message goes by how far the best of its attempts got; the place in the list is the rank.
_TAKEN: Final = ("", "provider_accepted", "delivered", "hard_bounced", "complained")
#: Events of one attempt from weak to strong, with the rank that each is worth.
_EVENTS: Final = {"send": 1, "delay": 1, "reject": 0, "delivery": 2, "bounce": 3, "complaint": 4}
#: Refusals of the whole account use up no attempt.
_ACCOUNT: Final = ("quota_exceeded", "account_paused", "credentials_refused")
DEFINITE_NO: Final = ("refused", "rejected", "not_submitted")


class Left(IntEnum):
    """How much of a lease is left."""

    NOTHING = 0
    LITTLE = 1  #: less than a call may take
    ENOUGH = 2


@dataclass(slots=True, kw_only=True)
class Try:
    """One claim's attempt."""

    claim: str
    came_from: str
    left: Left = Left.ENOUGH
    begin: UUID | None = None
    outcome: str | None = None
    reason: str | None = None
    closed: bool = False
    vouched: bool = False  #: a person said that it was accepted
    events: list[str] = field(default_factory=list)

    def strongest(self) -> str | None:
        return max(self.events, key=list(_EVENTS).index, default=None)

    def rank(self) -> int:
        """Say how far it got; a rejected one counts nothing."""
        strongest = self.strongest()
        if strongest == "reject":
            return 0
        accepted = self.outcome == "accepted" or self.vouched
        return max(int(accepted), _EVENTS[strongest] if strongest else 0)


@dataclass(slots=True, kw_only=True)
class PureModel:
    """A message, and what each step makes of it and answers."""

    limit: int
    path: list[str] = field(default_factory=lambda: ["queued"])  #: every state that it was in
    tries: list[Try] = field(default_factory=list)
    used: int = 0
    due: bool = True
    old: bool = False
    paused: bool = False
    against: set[str] = field(default_factory=set)  #: what of policy says no
    late: int = 0  #: results that came too late

    @property
    def state(self) -> str:
        return self.path[-1]

    def claim(self, claim: str) -> str:
        own = next((one for one in self.tries if one.claim == claim), None)
        if own is not None:
            return "lost" if own.closed else "leased"
        if self.state == "leased":
            return "busy"
        if self.state not in ("queued", "retryable"):
            return "settled"
        if not self.due:
            return "not_due"
        if self.paused:
            return "paused"
        if self.against:
            self.path.append("suppressed")
        elif self.used >= self.limit or self.old:
            self.path.append("dead")
        else:
            self.tries.append(Try(claim=claim, came_from=self.state))
            self.path.append("leased")
        return self.state

    def begin(self, number: int, begin: UUID) -> str:
        one = self._held(number)
        if one is None or one.begin is not None or one.left is not Left.ENOUGH:
            return "refused"
        if self.against:
            self._close(one, "not_begun")
            self.path.append("suppressed")
            return "suppressed"
        if self.paused:
            self._close(one, "released")
            self.path.append(one.came_from)
            return "released"
        one.begin = begin
        self.used += 1
        return "begun"

    def reread(self, number: int, begin: UUID) -> str:
        """Say what a body may do that got no reply to its begin."""
        if number > len(self.tries) or self.tries[number - 1].begin != begin:
            return "stop"
        one = self._held(number)
        return "call" if one is not None and one.left is Left.ENOUGH else "unsent"

    def record(self, number: int, begin: UUID, outcome: str, reason: str | None) -> str:
        if number > len(self.tries) or self.tries[number - 1].begin != begin:
            return "not_ours"
        one = self.tries[number - 1]
        if not one.closed and one.outcome is None:
            one.outcome, one.reason = outcome, reason
        elif one.outcome != outcome:
            self.late += 1
            return "late"
        return "recorded"

    def finalize(self, number: int) -> str:
        if self._settle(number) == "wait":
            return "wait"
        return "again" if self.state in ("leased", "queued", "retryable") else "settled"

    def sweep(self, number: int) -> bool:
        one = self._held(number)
        return one is not None and one.left is Left.NOTHING and self._settle(number) == "moved"

    def expired(self) -> list[int]:
        return [number for number, one in enumerate(self.tries, 1) if not one.closed and one.left is Left.NOTHING]

    def event(self, number: int, kind: str) -> None:
        """Keep an event, and go where all events lead; while the present attempt is begun they wait for settle."""
        self.tries[number - 1].events.append(kind)
        best = max(one.rank() for one in self.tries)
        now = self.tries[-1]
        if self.state == "leased":
            if now.begin is None and best:
                self._close(now, "not_begun")
                self._taken(best)
        elif best and self.state in _TAKEN:
            if _TAKEN.index(self.state) < best:
                self.path.append(_TAKEN[best])
        elif best:
            self._taken(best)
        elif self.tries[number - 1].strongest() == "reject":
            if self.state == "ambiguous" and number == len(self.tries):
                self.path += ["provider_accepted", "dead"]
            elif self.state == "provider_accepted":
                self.path.append("dead")

    def resolve(self, number: int, decision: str) -> bool:
        if self.state != "ambiguous" or number != len(self.tries):  # about another attempt than the one in doubt
            return False
        self.path.append({"accepted": "provider_accepted", "resend": "queued", "abandon": "dead"}[decision])
        self.tries[-1].vouched = decision == "accepted"
        if decision == "resend":
            self.used, self.due, self.old = 0, True, False
        return True

    def _held(self, number: int) -> Try | None:
        """Give an attempt whose token is the message's, while its lease is not settled."""
        one = self.tries[number - 1] if number == len(self.tries) and number else None
        return one if one is not None and self.state == "leased" and not one.closed else None

    def _settle(self, number: int) -> str:
        one = self._held(number)
        if one is None:
            return "stale"
        best = max(other.rank() for other in self.tries)
        over = one.left is Left.NOTHING
        if best and (one.outcome or one.events or one.begin is None or over):
            self._taken(best)
        elif one.strongest() == "reject":
            self.path += ["provider_accepted", "dead"]
        elif one.outcome == "rejected":
            self.path.append("dead")
        elif one.outcome in DEFINITE_NO:
            self._refused(one)
        elif one.begin is None:
            self._again()
        elif one.outcome == "unknown" or over:
            self.path.append("ambiguous")
        else:
            return "wait"
        self._close(one, "not_begun" if one.begin is None else "unknown")
        return "moved"

    def _refused(self, one: Try) -> None:
        if one.reason in _ACCOUNT:
            self.used -= 1
            self._again()
        elif self.used >= self.limit:
            self.path.append("dead")
        else:
            self._again()

    def _again(self) -> None:
        self.path.append("retryable")
        self.due = False

    def _taken(self, rank: int) -> None:
        self.path.append("provider_accepted")
        if rank > 1:
            self.path.append(_TAKEN[rank])

    def _close(self, one: Try, closes_as: str) -> None:
        one.closed = True
        one.outcome = one.outcome or closes_as
