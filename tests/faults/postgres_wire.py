"""The messages of a Postgres client, as far as a proxy must read them: which statements a transaction contains."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

#: Codes of first messages, which have no type byte, after which another of that kind follows
#: (PostgreSQL documentation, Message Formats: SSLRequest, GSSENCRequest).
_QUESTIONS: Final = {80877103, 80877104}
_READY_FOR_QUERY: Final = b"Z"


@dataclass(slots=True)
class Frames:
    """Cuts a stream into whole messages, however it was split over reads."""

    typed: bool  #: False for a client's first message, which is a length and a code only
    _rest: bytes = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what was read, and give each message that is whole by now."""
        self._rest += data
        while (whole := self._whole()) and len(self._rest) >= whole:
            message, self._rest = self._rest[:whole], self._rest[whole:]
            if not self.typed:
                self.typed = struct.unpack_from("!I", message, 4)[0] not in _QUESTIONS
            yield message

    def _whole(self) -> int:
        """Give the length of the message that begins here; 0 while that isn't known."""
        at = 1 if self.typed else 0
        if len(self._rest) < at + 4:
            return 0
        length: int = struct.unpack_from("!I", self._rest, at)[0]
        return at + length


@dataclass(slots=True)
class ClientSide:
    """Follows what a client asks for, over simple and prepared statements."""

    frames: Frames = field(default_factory=lambda: Frames(typed=False))
    transaction: list[str] = field(default_factory=list)  #: the statements since the last BEGIN, or the one alone
    _begun: bool = False  #: with a BEGIN, so that only a COMMIT ends it
    _written: bool = False  #: by a statement without a BEGIN, and not ended yet
    _prepared: dict[bytes, str] = field(default_factory=dict)
    _portals: dict[bytes, str] = field(default_factory=dict)

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Give each whole message, and whether it commits.

        That is a COMMIT, which stands alone in its Query, as asyncpg sends it; or what ends a statement that writes
        without a BEGIN before it: a transaction by itself (PostgreSQL documentation, Extended Query: Sync).
        """
        for message in self.frames.feed(data):
            statement = self._runs(message)
            word = "" if statement is None else statement.strip().rstrip(";").split(" ", 1)[0].upper()
            if word == "BEGIN" or (word and not self._begun):
                self.transaction.clear()
            if statement is not None:
                self.transaction.append(statement)
            ends = message[:1] == b"S" and self._written
            if word in ("BEGIN", "COMMIT", "ROLLBACK"):
                self._begun = word == "BEGIN"
            if message[:1] in (b"E", b"S"):
                self._written = not self._begun and word in ("INSERT", "UPDATE", "DELETE", "WITH")
            yield message, word == "COMMIT" or ends

    def _runs(self, message: bytes) -> str | None:
        """Give the statement that a message runs, if it runs one."""
        kind, body = message[:1], message[5:]
        match kind:
            case b"Q":
                return body.rstrip(b"\0").decode()
            case b"P":
                name, statement, _ = body.split(b"\0", 2)
                self._prepared[name] = statement.decode()
            case b"B":
                portal, name, _ = body.split(b"\0", 2)
                self._portals[portal] = self._prepared[name]
            case b"E":
                return self._portals[body.split(b"\0", 1)[0]]
            case _:
                pass
        return None


def is_ready_for_query(message: bytes) -> bool:
    """Tell whether a server's message ends its reply."""
    return message[:1] == _READY_FOR_QUERY
