"""A provider that answers as a test says, and keeps the contract of the real one: it blocks, once a call."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from db.outcomes import Outcome
from db.records import CallResult, Submission

ACCEPTED = CallResult(outcome=Outcome.ACCEPTED, provider="ses", provider_message_id="ses-1")


@dataclass(slots=True)
class ScriptedProvider:
    """Gives the results of its script in turn, the last one for ever; counts its calls."""

    script: list[CallResult | Callable[[], CallResult]] = field(default_factory=lambda: [ACCEPTED])
    name: str = "ses"
    calls: list[Submission] = field(default_factory=list)
    #: Cleared by a test that wants to look around while a call is under way.
    may_answer: threading.Event = field(default_factory=threading.Event)
    called: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_answer.set()

    def prepare(self, submission: Submission) -> Submission:
        return submission

    def call(self, request: Submission, *, deadline: float) -> CallResult:  # noqa: ARG002
        turn = min(len(self.calls), len(self.script) - 1)
        self.calls.append(request)
        self.called.set()
        assert self.may_answer.wait(30)
        result = self.script[turn]
        return result() if callable(result) else result
