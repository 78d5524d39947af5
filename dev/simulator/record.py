"""The record of everything the simulator was asked to mail: on disk before an answer leaves."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Self, TypeVar

from dev.simulator import publications
from dev.simulator.events import PlannedEvent
from dev.simulator.send_email import SendEmail

FILE_NAME: Final = "submissions.sqlite3"

# The ids go on after a reset (AUTOINCREMENT), so that an old link never shows another mail.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS submissions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    answer TEXT NOT NULL,
    ses_message_id TEXT UNIQUE,
    throttle_key TEXT,
    request TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS throttled ON submissions (throttle_key) WHERE throttle_key IS NOT NULL;
CREATE TABLE IF NOT EXISTS tags (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    submission_id INTEGER NOT NULL REFERENCES submissions,
    PRIMARY KEY (name, value, submission_id)
) WITHOUT ROWID;
"""
_SELECT_ALL: Final = "SELECT id, at, answer, ses_message_id, request FROM submissions ORDER BY id"
_SELECT_TAGGED: Final = """
SELECT id, at, answer, ses_message_id, request FROM submissions
WHERE id IN (SELECT submission_id FROM tags WHERE name = ? AND value = ?) ORDER BY id
"""
_SELECT_NEWEST: Final = "SELECT id, at, answer, ses_message_id, request FROM submissions ORDER BY id DESC LIMIT ?"
_SELECT_ACCEPTED: Final = "SELECT id, at, answer, ses_message_id, request FROM submissions WHERE ses_message_id = ?"
_SELECT_ONE: Final = "SELECT id, at, answer, ses_message_id, request FROM submissions WHERE id = ?"
_INSERT: Final = "INSERT INTO submissions (answer, ses_message_id, request) VALUES (?, ?, ?)"
# Counting and inserting are one statement, so that two requests at once cannot both be the second.
_INSERT_THROTTLED: Final = """
INSERT INTO submissions (answer, throttle_key, request)
SELECT 'throttled', :key, :request WHERE (SELECT count(*) FROM submissions WHERE throttle_key = :key) < :at_most
"""
_INSERT_TAG: Final = "INSERT INTO tags (name, value, submission_id) VALUES (?, ?, ?)"

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Answer(StrEnum):
    """What the simulator made of a request, whatever became of the answer on its way."""

    ACCEPTED = "accepted"  #: has an SES message id; in real life the mail would go out
    REJECTED = "rejected"  #: a final no: MessageRejected or a bad request
    THROTTLED = "throttled"  #: too many requests; nothing taken
    FAILED = "failed"  #: a server error; nothing taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One request whose body was read whole."""

    id: int  #: grows with each request
    at: str  #: when it was recorded, RFC 3339 in UTC
    answer: Answer
    ses_message_id: str | None  #: None unless accepted
    request: SendEmail


class Record:
    """The submissions in one folder, which belong to one simulator at a time.

    SQLite does the work in a thread of its own, one step after the other. Each write is in the file, and the file on
    the disk, before the call returns, so that neither a kill nor a power cut loses what a client was told.
    """

    def __init__(self, directory: Path) -> None:
        """Open the record, or begin it.

        Raises:
            OSError: the folder cannot be made.
            sqlite3.Error: the file cannot be opened or written, or another simulator has it.
        """
        directory.mkdir(parents=True, exist_ok=True)
        # The connection is made here and used in the one thread below, never by two at once. A simulator that is just
        # ending may hold the file for a moment, hence the second.
        self._database = sqlite3.connect(directory / FILE_NAME, timeout=1, check_same_thread=False)
        try:
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA + publications.SCHEMA)
        except sqlite3.Error:
            self._database.close()
            raise
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="record")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        self._database.close()

    async def add(
        self,
        request: SendEmail,
        answer: Answer,
        ses_message_id: str | None = None,
        events: Iterable[PlannedEvent] = (),
    ) -> None:
        """Record a request, what was made of it, and the events that are to follow, all or nothing."""
        await self._run(self._add, request, answer, ses_message_id, events)

    async def add_throttled(self, request: SendEmail, *, key: str, at_most: int) -> bool:
        """Record a request as throttled and return True, or return False where `at_most` under this key are already."""
        return await self._run(self._add_throttled, request, key, at_most)

    async def submissions(self, tag: tuple[str, str] | None = None) -> list[Submission]:
        """Return all submissions, or those with this tag (name, value), oldest first."""
        if tag is None:
            return await self._run(self._select, _SELECT_ALL)
        return await self._run(self._select, _SELECT_TAGGED, tag)

    async def newest(self, limit: int) -> list[Submission]:
        """Return the last submissions, newest first."""
        return await self._run(self._select, _SELECT_NEWEST, (limit,))

    async def find(self, submission_id: int) -> Submission | None:
        """Return one submission; None where there is none with this id."""
        found = await self._run(self._select, _SELECT_ONE, (submission_id,))
        return found[0] if found else None

    async def find_accepted(self, ses_message_id: str) -> Submission | None:
        """Return the submission that was given this id; None where there is none."""
        found = await self._run(self._select, _SELECT_ACCEPTED, (ses_message_id,))
        return found[0] if found else None

    async def clear(self) -> None:
        """Forget every submission with its events, and with them how often a message was throttled."""
        await self._run(self._clear)

    async def run(
        self,
        step: Callable[Concatenate[sqlite3.Connection, _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """Take a step on the database, with these arguments after it, in the record's thread."""
        return await self._run(step, self._database, *args, **kwargs)

    async def _run(
        self, step: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        # A request that was read belongs in the record even where its connection is closed meanwhile, hence the shield.
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(step, *args, **kwargs)))

    def _add(
        self, request: SendEmail, answer: Answer, ses_message_id: str | None, events: Iterable[PlannedEvent]
    ) -> None:
        with self._database:
            row = self._database.execute(_INSERT, (answer, ses_message_id, request.model_dump_json(by_alias=True)))
            self._add_tags(row.lastrowid, request)
            publications.insert_planned(self._database, row.lastrowid, events)

    def _add_throttled(self, request: SendEmail, key: str, at_most: int) -> bool:
        stored = request.model_dump_json(by_alias=True)
        with self._database:
            row = self._database.execute(_INSERT_THROTTLED, {"key": key, "request": stored, "at_most": at_most})
            if row.rowcount == 0:
                return False
            self._add_tags(row.lastrowid, request)
            return True

    def _add_tags(self, submission_id: int | None, request: SendEmail) -> None:
        self._database.executemany(_INSERT_TAG, [(name, value, submission_id) for name, value in request.tags.items()])

    def _select(self, query: str, parameters: tuple[object, ...] = ()) -> list[Submission]:
        return [
            Submission(
                id=submission_id,
                at=at,
                answer=Answer(answer),
                ses_message_id=ses_message_id,
                request=SendEmail.model_validate_json(request),
            )
            for submission_id, at, answer, ses_message_id, request in self._database.execute(query, parameters)
        ]

    def _clear(self) -> None:
        with self._database:
            publications.delete_all(self._database)
            self._database.execute("DELETE FROM tags")
            self._database.execute("DELETE FROM submissions")
