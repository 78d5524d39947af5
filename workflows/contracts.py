"""What a message's workflow is started with, and what it ends with."""

from dataclasses import dataclass

from db.lifecycle import State


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageInput:
    """Which message."""

    message_id: str
    tenant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageResult:
    """The first state in which the machine has nothing more to do."""

    state: State
