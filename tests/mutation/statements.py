"""The guards of what is written in db/statements.py: the conditions of each write."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/statements.py", "tests/db/test_statements.py")
_STORE: Final = "tests/db/test_store.py::"

_OWN_MESSAGE: Final = "test_each_write_touches_its_own_message_only"
_CLAIM_WHERE: Final = """\
        messages.c.id == _MESSAGE,
        messages.c.state.in_(written(sources(Move.CLAIM))),
        messages.c.token == _TOKEN,
        messages.c.due_at <= _NOW,
"""
_CLAIM: Final = (
    *(
        _IN.lacking(f"CLAIM: {name}", _CLAIM_WHERE, f"        {line},\n", f"CLAIM does not ask {what}", test)
        for name, line, what, test in (
            (
                "message",
                "messages.c.id == _MESSAGE",
                "which message it is about",
                f"{_OWN_MESSAGE}[CLAIM]",
            ),
            (
                "sources",
                "messages.c.state.in_(written(sources(Move.CLAIM)))",
                "whether the message is free to be claimed",
                "test_claim_takes_a_message_from_its_sources_only",
            ),
            (
                "token",
                "messages.c.token == _TOKEN",
                "whether the token is the one that was read",
                "test_claim_needs_the_token_that_was_read",
            ),
            (
                "due",
                "messages.c.due_at <= _NOW",
                "whether the message is due",
                "test_claim_leaves_a_message_that_is_not_due",
            ),
        )
    ),
    _IN.changed(
        "CLAIM: token raised",
        "token=messages.c.token + 1",
        "token=messages.c.token",
        "a claim keeps the old token",
        "test_claim_raises_the_token_by_one",
    ),
)

_BEGIN_WHERE: Final = """\
        attempts.c.message_id == _MESSAGE,
        attempts.c.token == _TOKEN,
        attempts.c.closed_at.is_(None),
        attempts.c.begun_at.is_(None),
        attempts.c.lease_expires_at > _NOW + sa.bindparam("needs", type_=sa.Interval),
"""
_REFUSES: Final = "test_begin_refuses_an_attempt_that_is"
_BEGIN: Final = tuple(
    _IN.lacking(f"BEGIN: {name}", _BEGIN_WHERE, f"        {line},\n", f"BEGIN does not ask {what}", test)
    for name, line, what, test in (
        (
            "message",
            "attempts.c.message_id == _MESSAGE",
            "which message it is about",
            f"{_OWN_MESSAGE}[BEGIN]",
        ),
        ("token", "attempts.c.token == _TOKEN", "whose attempt it is", f"{_REFUSES}[another token]"),
        ("open", "attempts.c.closed_at.is_(None)", "whether the attempt is open", f"{_REFUSES}[closed]"),
        ("unbegun", "attempts.c.begun_at.is_(None)", "whether the attempt has begun", f"{_REFUSES}[begun already]"),
        (
            "lease",
            'attempts.c.lease_expires_at > _NOW + sa.bindparam("needs", type_=sa.Interval)',
            "whether the lease has the call budget left",
            f"{_REFUSES}[too little lease]",
        ),
    )
)

_USE_WHERE: Final = (
    "    .where(messages.c.id == _MESSAGE, messages.c.state == State.LEASED, messages.c.token == _TOKEN)\n"
)
_USE_ATTEMPT: Final = (
    _IN.lacking(
        "USE_ATTEMPT: message",
        _USE_WHERE,
        "messages.c.id == _MESSAGE, ",
        "beginning one message counts an attempt of others",
        f"{_OWN_MESSAGE}[USE_ATTEMPT]",
    ),
    _IN.lacking(
        "USE_ATTEMPT: leased",
        _USE_WHERE,
        "messages.c.state == State.LEASED, ",
        "an attempt is counted on a message that is not leased",
        "test_an_attempt_is_counted_on_a_leased_message_only",
    ),
    _IN.lacking(
        "USE_ATTEMPT: token",
        _USE_WHERE,
        ", messages.c.token == _TOKEN",
        "a stale token counts an attempt",
        "test_a_stale_token_counts_no_attempt",
    ),
)

_RECORD_WHERE: Final = """\
        attempts.c.message_id == _MESSAGE,
        attempts.c.number == _ATTEMPT,
        attempts.c.begin_id == sa.bindparam("this_begin", type_=attempts.c.begin_id.type),
        attempts.c.closed_at.is_(None),
        attempts.c.outcome.is_(None),
"""
_LEAVES: Final = "test_record_leaves_an_attempt_alone_that_is"
_RECORD: Final = (
    _IN.changed(
        "RECORD: open",
        _RECORD_WHERE,
        _RECORD_WHERE.replace("        attempts.c.closed_at.is_(None),\n", ""),
        "RECORD does not ask whether the attempt is open",
        f"{_LEAVES}[closed]",
        stands_in="a CHECK gives every closed attempt an outcome, and RECORD writes over none",
    ),
    *(
        _IN.lacking(f"RECORD: {name}", _RECORD_WHERE, f"        {line},\n", f"RECORD does not ask {what}", test)
        for name, line, what, test in (
            ("message", "attempts.c.message_id == _MESSAGE", "which message it is about", f"{_OWN_MESSAGE}[RECORD]"),
            ("number", "attempts.c.number == _ATTEMPT", "which attempt it is about", f"{_LEAVES}[another number's]"),
            (
                "begin id",
                'attempts.c.begin_id == sa.bindparam("this_begin", type_=attempts.c.begin_id.type)',
                "who began the attempt",
                f"{_LEAVES}[begun by another body]",
            ),
            (
                "once",
                "attempts.c.outcome.is_(None)",
                "whether an outcome is recorded already",
                f"{_LEAVES}[recorded already]",
            ),
        )
    ),
)

_CLOSE_WHERE: Final = (
    "    .where(attempts.c.message_id == _MESSAGE, attempts.c.token == _TOKEN, attempts.c.closed_at.is_(None))\n"
)
_CLOSES: Final = "test_close_closes_the_open_attempt_of_its_token"
_CLOSE: Final = (
    _IN.lacking(
        "CLOSE: message",
        _CLOSE_WHERE,
        "attempts.c.message_id == _MESSAGE, ",
        "closing an attempt closes those of other messages",
        f"{_OWN_MESSAGE}[CLOSE]",
    ),
    _IN.lacking(
        "CLOSE: token", _CLOSE_WHERE, "attempts.c.token == _TOKEN, ", "a stale token closes an attempt", _CLOSES
    ),
    _IN.lacking("CLOSE: open", _CLOSE_WHERE, ", attempts.c.closed_at.is_(None)", "an attempt is closed twice", _CLOSES),
    _IN.changed(
        "CLOSE: recorded outcome kept",
        'outcome=sa.func.coalesce(attempts.c.outcome, sa.bindparam("closes_as", type_=sa.Text))',
        'outcome=sa.bindparam("closes_as", type_=sa.Text)',
        "closing an attempt overwrites its recorded outcome",
        _STORE + "test_a_message_goes_from_queued_to_provider_accepted",
    ),
)

_MOVE_WHERE: Final = (
    "        .where(messages.c.id == _MESSAGE, "
    "messages.c.state.in_(written(sources(move))), messages.c.token == _TOKEN)\n"
)
_MOVES: Final = (
    _IN.lacking(
        "a move: message",
        _MOVE_WHERE,
        "messages.c.id == _MESSAGE, ",
        "a move is made by other messages too",
        "test_each_move_moves_its_own_message_only",
    ),
    _IN.lacking(
        "a move: sources",
        _MOVE_WHERE,
        "messages.c.state.in_(written(sources(move))), ",
        "a move starts from any state",
        "test_each_move_starts_from_its_sources_only",
    ),
    _IN.lacking(
        "a move: token",
        _MOVE_WHERE,
        ", messages.c.token == _TOKEN",
        "a stale token moves the message",
        "test_no_move_is_made_under_a_stale_token",
    ),
    _IN.changed(
        "a move: release goes back",
        "messages.c.came_from if back else TRANSITIONS[move].targets[0]",
        "TRANSITIONS[move].targets[0]",
        "a release makes every message queued",
        "test_a_release_goes_back_to_where_the_claim_came_from",
    ),
    _IN.changed(
        "a move: attempt given back",
        'messages.c.attempts_used - sa.bindparam("gives_back", type_=sa.Integer)',
        'messages.c.attempts_used - 0 * sa.bindparam("gives_back", type_=sa.Integer)',
        "a refusal of the whole account uses up an attempt",
        _STORE + "test_an_account_wide_refusal_uses_up_no_attempt",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_CLAIM, *_BEGIN, *_USE_ATTEMPT, *_RECORD, *_CLOSE, *_MOVES)
