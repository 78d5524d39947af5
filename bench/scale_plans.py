"""How Postgres would run the statements that an operation has run: whether any of them reads a growing table whole."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

#: The tables with a row or more for each message, event or address; all others stay as small as the tenants are few.
GROWING: Final = frozenset(
    {
        "messages",
        "message_contents",
        "recipients",
        "attempts",
        "timeline",
        "provider_events",
        "evidence",
        "unmatched_events",
        "suppressions",
        "operator_audit",
    }
)
#: Indexes of what is under way or waits only: to read one of them whole costs what the load is, and not what was sent.
_OF_WHAT_IS_UNDER_WAY: Final = frozenset(
    {
        "ix_messages_due",
        "ix_messages_ambiguous",
        "uq_attempts_open",
        "ix_attempts_lease",
        "ix_unmatched_events_look_at",
    }
)
#: After five plans for its own parameters, Postgres decides whether a prepared statement has one plan for all (Postgres
#: documentation: PREPARE).
_UNTIL_DECIDED: Final = 6
#: An index that is read without a condition is read whole, but for where a LIMIT above it stops it early.
_INDEX_CONDITIONS: Final = ("Index Cond", "Recheck Cond")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A statement as it went to Postgres, with its parameters as they were bound; these may be protected."""

    statement: str
    parameters: tuple[object, ...]


@contextmanager
def collecting(engines: Sequence[AsyncEngine]) -> Iterator[dict[str, Ran]]:
    """Collect the different statements that run through these engines, by their text."""
    ran: dict[str, Ran] = {}

    def keep(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:  # noqa: ANN401 (a driver's)
        if statement.lstrip().startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")):
            ran.setdefault(statement, Ran(statement=statement, parameters=tuple(parameters)))

    for engine in engines:
        sa.event.listen(engine.sync_engine, "before_cursor_execute", keep)
    try:
        yield ran
    finally:
        for engine in engines:
            sa.event.remove(engine.sync_engine, "before_cursor_execute", keep)


async def whole_reads(connection: asyncpg.Connection, ran: Ran) -> list[str]:
    """Name the growing tables that a statement reads whole, and how: planned for its own parameters, and in the end.

    Args:
        connection: To the database that it ran on. A superuser's, with the driver's own codecs.
        ran: The statement. It is planned, and not run again.

    """
    await connection.execute(f"PREPARE planned AS {ran.statement}")
    try:
        literals = ", ".join([await _literal(connection, each) for each in ran.parameters])
        given = f"({literals})" if literals else ""
        plans = [
            await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned{given}") for _ in range(_UNTIL_DECIDED)
        ]
    finally:
        await connection.execute("DEALLOCATE planned")
    decided = [json.loads(plan)[0]["Plan"] for plan in (plans[0], plans[-1])]
    return sorted({read for plan in decided for read in _found(plan, limited=False)})


async def _literal(connection: asyncpg.Connection, value: object) -> str:
    """Write a bound value as Postgres would read it back, in whichever type the statement gives it."""
    if value is None:
        return "NULL"
    if isinstance(value, (list, tuple)):
        # An untyped literal, which an ARRAY[...] is not; quoted elements may hold anything.
        elements = ["NULL" if each is None else json.dumps(_text(each)) for each in value]
        return await _quoted(connection, f"{{{','.join(elements)}}}")
    return await _quoted(connection, _text(value))


def _text(value: object) -> str:
    """Write a bound value as Postgres reads it in text."""
    if isinstance(value, bytes):
        # JSON is bound as bytes, too.
        return value.decode() if value[:1] in (b"{", b"[") else f"\\x{value.hex()}"
    return str(value)


async def _quoted(connection: asyncpg.Connection, text: str) -> str:
    return str(await connection.fetchval("SELECT quote_literal($1::text)", text))


def _found(plan: Mapping[str, Any], *, limited: bool) -> Iterator[str]:
    """Walk a plan (Postgres documentation: Using EXPLAIN).

    An ordered index is what a page of a list or a sweep is read from, so that a LIMIT with nothing but joins and
    filters below ends the read. A sort reads all that comes from below before it gives anything.
    """
    kind = plan["Node Type"]
    table = plan.get("Relation Name")
    if table in GROWING and kind.endswith("Seq Scan"):
        yield f"{kind} on {table}"
    elif table in GROWING and "Index" in kind and not (limited or _is_narrow(plan)):
        yield f"{kind} without a condition on {table}"
    below = kind == "Limit" or (limited and kind not in ("Sort", "Incremental Sort", "Aggregate", "Hash"))
    for child in plan.get("Plans", ()):
        yield from _found(child, limited=below)


def _is_narrow(plan: Mapping[str, Any]) -> bool:
    has_condition = any(name in plan for name in _INDEX_CONDITIONS)
    return has_condition or plan.get("Index Name") in _OF_WHAT_IS_UNDER_WAY
