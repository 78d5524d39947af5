"""Named points at which a process kills or stops itself, where the environment says so: for tests, and nothing else.

They stand in the lowest layer, so that every layer can pass one. What each leaves behind, and the test that shows it,
stands in ARCHITECTURE.md.
"""

import os
import signal
from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class CrashPoint(StrEnum):
    """Where a process may end itself: before a step, in its transaction, or once that is committed."""

    INTAKE_UNCOMMITTED = "intake_uncommitted"  #: all is ready, and the one statement is not sent
    INTAKE_COMMITTED = "intake_committed"  #: nobody was asked for a run yet
    RUN_STARTED = "run_started"  #: Temporal took the request for a run; the client may have no answer
    CLAIM_TAKEN_UP = "claim_taken_up"  #: a worker has the activity, and asked Postgres nothing
    CLAIM_COMMITTED = "claim_committed"
    SUBMIT_TAKEN_UP = "submit_taken_up"  #: before begin
    BEGIN_COMMITTED = "begin_committed"  #: before the first byte to the provider
    HEADERS_SENT = "headers_sent"  #: of the provider's request; its body was not
    REQUEST_SENT = "request_sent"  #: every byte of it; no answer was read
    ANSWER_READ = "answer_read"  #: and not recorded
    RECORD_COMMITTED = "record_committed"  #: and not finalized
    FINALIZE_UNCOMMITTED = "finalize_uncommitted"
    FINALIZE_COMMITTED = "finalize_committed"  #: Temporal does not know of it
    SWEEP_SETTLED = "sweep_settled"  #: one lease, with others to go
    SWEEP_RUN_STARTED = "sweep_run_started"  #: and not written down
    RESOLUTION_UNCOMMITTED = "resolution_uncommitted"
    RESOLUTION_COMMITTED = "resolution_committed"  #: the operator has no answer, and a resend no run
    EVENT_UNCOMMITTED = "event_uncommitted"  #: a provider event is stored and applied, and not committed
    EVENT_COMMITTED = "event_committed"  #: the provider has no answer, and will send it again
    MIGRATION_UNCOMMITTED = "migration_uncommitted"  #: the statements of one migration are through


class CrashSettings(BaseSettings):
    """At which point this process ends itself; only where the deployment is one for tests."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_", hide_input_in_errors=True, env_ignore_empty=True)

    environment: Literal["live", "test"] = "live"
    crash_point: CrashPoint | None = Field(
        default=None, description="For tests: the process kills itself at this point. Refused in a live environment."
    )
    crash_signal: Literal["kill", "stop"] = Field(
        default="kill", description="For tests: `stop` holds it at that point, each time, until it gets SIGCONT."
    )

    @model_validator(mode="after")
    def _for_tests_only(self) -> Self:
        if self.crash_point is not None and self.environment != "test":
            raise ValueError("FENCEPOST_CRASH_POINT is refused unless FENCEPOST_ENVIRONMENT is test; unset it")
        return self


_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_armed: CrashPoint | None = None
_signal: signal.Signals = signal.SIGKILL


def arm() -> None:
    """Take the crash point from the environment, at the start of a process. Raises ValidationError."""
    global _armed, _signal  # one a process, set once, before anything runs
    settings = CrashSettings()
    _armed, _signal = settings.crash_point, _SIGNALS[settings.crash_signal]


def passing(point: CrashPoint) -> None:
    """End this process at once, or hold it, if it is armed for this point; nothing otherwise."""
    if point is _armed:
        os.kill(os.getpid(), _signal)
