"""The events in the record: when each is due, and what became of each try to publish it.

Each function is a step on the record's database, to be taken in the record's thread.
"""

import json
import sqlite3
import time
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from dev.simulator.events import Event, PlannedEvent

# Times are in seconds since 1970. An event that is over, taken or given up, is due no more.
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS publications (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    submission_id INTEGER NOT NULL REFERENCES submissions,
    sns_message_id TEXT NOT NULL,
    event TEXT NOT NULL,
    happened_at REAL NOT NULL,
    due_at REAL,
    published_at REAL,
    tries INTEGER NOT NULL DEFAULT 0,
    status INTEGER
);
CREATE INDEX IF NOT EXISTS publications_due ON publications (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS publications_of_submission ON publications (submission_id);
CREATE INDEX IF NOT EXISTS publications_by_sns_message ON publications (sns_message_id);
"""
_INSERT: Final = """
INSERT INTO publications (submission_id, sns_message_id, event, happened_at, due_at) VALUES (?, ?, ?, ?, ?)
"""
_SELECT_DUE: Final = """
SELECT * FROM publications
WHERE due_at <= ? AND submission_id NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at, id LIMIT ?
"""
_SELECT_NEXT: Final = """
SELECT min(due_at) FROM publications
WHERE due_at IS NOT NULL AND submission_id NOT IN (SELECT value FROM json_each(?))
"""
_SELECT_OF_SUBMISSION: Final = "SELECT * FROM publications WHERE submission_id = ? ORDER BY id"
_SELECT_BY_SNS_MESSAGE: Final = "SELECT * FROM publications WHERE sns_message_id = ? ORDER BY id LIMIT 1"
_SETTLE: Final = "UPDATE publications SET due_at = ?, tries = tries + 1, status = ? WHERE id = ?"
# Copies share the time of the first try, which is in the envelope, so that they are the same to the byte.
_SET_PUBLISHED_AT: Final = "UPDATE publications SET published_at = ? WHERE sns_message_id = ? AND published_at IS NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One notification: an event on its way to the subscriber."""

    id: int
    submission_id: int
    sns_message_id: str
    event: Event
    happened_at: float  #: the event's own time
    due_at: float | None  #: of the next try; None where there is none to come
    published_at: float | None  #: of the first try; None before it
    tries: int
    status: int | None  #: what the last try was answered; None where it was not

    @property
    def state(self) -> str:
        """Say in a word or two what became of it, for the page."""
        if self.status is not None and is_taken(self.status):
            return "taken"
        if self.due_at is None:
            return "given up"
        return "tried again" if self.tries else "planned"


def is_taken(status: int) -> bool:
    """Say whether this HTTP status means that the subscriber has the notification."""
    return 200 <= status < 300  # noqa: PLR2004 - the class of success (RFC 9110, section 15.3)


def insert_planned(database: sqlite3.Connection, submission_id: int | None, events: Iterable[PlannedEvent]) -> None:
    """Plan these events, counted from now, within the transaction that is open."""
    now = time.time()
    for planned in events:
        sns_message_id = str(uuid.uuid4())
        row = (submission_id, sns_message_id, planned.event.model_dump_json(), now + planned.happens_after)
        database.executemany(_INSERT, planned.copies * [(*row, now + planned.due_after)])


def find_or_add(database: sqlite3.Connection, submission_id: int, sns_message_id: str, event: Event) -> Publication:
    """Return the publication with this id (the first where it has copies); without one, add it as happening now.

    Nobody but the caller publishes what is added.
    """
    with database:
        if not (found := _select(database, _SELECT_BY_SNS_MESSAGE, sns_message_id)):
            database.execute(_INSERT, (submission_id, sns_message_id, event.model_dump_json(), time.time(), None))
            found = _select(database, _SELECT_BY_SNS_MESSAGE, sns_message_id)
    return found[0]


def due(database: sqlite3.Connection, *, busy: Collection[int], at_most: int) -> tuple[list[Publication], float | None]:
    """Return what is due now, the longest due first, and when the first of all that is to come is due.

    Whatever belongs to one of the `busy` submissions is left out, and so is all but the first of one submission.
    """
    skipped = json.dumps(list(busy))
    found = _select(database, _SELECT_DUE, time.time(), skipped, at_most)
    firsts = {each.submission_id: each for each in reversed(found)}
    [(next_due,)] = database.execute(_SELECT_NEXT, (skipped,))
    return sorted(firsts.values(), key=found.index), next_due


def of_submission(database: sqlite3.Connection, submission_id: int) -> list[Publication]:
    """Return the publications about one submission, in the order in which they were planned."""
    return _select(database, _SELECT_OF_SUBMISSION, submission_id)


def settle(
    database: sqlite3.Connection,
    publication: Publication,
    *,
    published_at: float,
    status: int | None,
    due_at: float | None,
) -> None:
    """Write down a try and its outcome; nothing happens where the publication was forgotten meanwhile."""
    # Losing this to a power cut only repeats a notification, so that submissions need not wait for the disk with it.
    database.execute("PRAGMA synchronous = NORMAL")
    try:
        with database:
            database.execute(_SETTLE, (due_at, status, publication.id))
            database.execute(_SET_PUBLISHED_AT, (published_at, publication.sns_message_id))
    finally:
        database.execute("PRAGMA synchronous = FULL")


def delete_all(database: sqlite3.Connection) -> None:
    """Forget every publication, within the transaction that is open."""
    database.execute("DELETE FROM publications")


def _select(database: sqlite3.Connection, query: str, *parameters: object) -> list[Publication]:
    return [
        Publication(
            id=publication_id,
            submission_id=submission_id,
            sns_message_id=sns_message_id,
            event=Event.model_validate_json(event),
            happened_at=happened_at,
            due_at=due_at,
            published_at=published_at,
            tries=tries,
            status=status,
        )
        for (
            publication_id,
            submission_id,
            sns_message_id,
            event,
            happened_at,
            due_at,
            published_at,
            tries,
            status,
        ) in database.execute(query, parameters)
    ]
