"""The guards of what only a person settles: which decision counts, what it does, who may, and the provider's switch."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_STORE: Final = Source("db/resolutions.py", "tests/db/test_resolutions.py")
_MOVES: Final = Source("db/statements.py", "tests/db/test_resolutions.py")
_GRANTS: Final = Source("db/migrations/versions/0003_operators.py", "tests/db/test_guards.py")
_PROVIDERS: Final = Source("db/providers.py", "tests/db/test_providers.py")
_LIST: Final = Source("db/reading.py", "tests/api/test_operators.py")
_API: Final = Source("api/operators.py", "tests/api/test_operators.py")
_SWITCHES: Final = Source("api/providers.py", "tests/api/test_operators.py")

_ANOTHER: Final = "test_a_decision_about_another_attempt_than_the_present_one_is_none"
_FRESH: Final = "test_a_resend_can_be_claimed_at_once_with_a_fresh_count_and_age"
_LOST: Final = "test_a_decision_whose_commit_got_no_reply_can_be_asked_for"
_NO_OPERATOR: Final = "test_a_tenants_key_decides_nothing_not_even_about_its_own"

_DECIDE: Final = "if facts.state != State.AMBIGUOUS or not facts.attempt_is_present:"
_LOCKED: Final = "            async with locked(self._engine, message_id) as message:\n"
_REREAD: Final = (
    "        async with locked(self._engine, message_id) as message:\n"
    "            facts = await message.one(FACTS, in_attempt=resolution.attempt)\n"
    "            if await"
)
_UNLOCKED: Final = "locked(self._engine, message_id, by=sa.select(messages.c.id).where(messages.c.id == _MESSAGE))"
_LINE: Final = "                await message.connection.execute(sa.insert(operator_audit), _line(ref, resolution))\n"

_RESOLVE: Final = (
    _STORE.changed(
        "resolve: row lock",
        _LOCKED + "                facts",
        _LOCKED.replace("locked(self._engine, message_id)", _UNLOCKED) + "                facts",
        "a decision rests on what stood before another one was made",
        "test_a_decision_that_waited_for_the_row_sees_what_came_meanwhile",
    ),
    _STORE.changed(
        "resolve: ambiguous",
        _DECIDE,
        "if not facts.attempt_is_present:",
        "a decision about a message that is not ambiguous is made, and fails",
        "test_a_message_that_is_not_ambiguous_is_left_alone",
    ),
    _STORE.changed(
        "resolve: present attempt",
        _DECIDE,
        "if facts.state != State.AMBIGUOUS:",
        "a decision about an attempt that is over counts for the one after it",
        _ANOTHER,
    ),
    _STORE.without(
        "resolve: the message's attempt",
        "        attempts.c.message_id == messages.c.id,\n",
        "an attempt of another message is taken for this one's",
        _ANOTHER,
    ),
    _STORE.without(
        "resolve: this attempt",
        '        attempts.c.number == sa.bindparam("in_attempt", type_=sa.Integer),\n',
        "a decision counts whichever attempt it is about",
        _ANOTHER,
    ),
    _STORE.without(
        "resolve: its token",
        "        attempts.c.token == messages.c.token,\n",
        "a decision about any attempt that there was counts",
        _ANOTHER,
    ),
    _STORE.without(
        "resolve: audit",
        _LINE,
        "a decision leaves no line in the audit",
        "test_a_decision_moves_an_ambiguous_message_and_stands_in_timeline_and_audit",
    ),
    _STORE.changed(
        "reread: row lock",
        _REREAD,
        _REREAD.replace("locked(self._engine, message_id)", _UNLOCKED),
        "a decision that is about to be committed is said not to have been made",
        "test_a_decision_is_not_asked_for_before_its_transaction_has_ended",
    ),
    _STORE.changed(
        "reread: this decision",
        'operator_audit.c.id == sa.bindparam("this_resolution", type_=operator_audit.c.id.type)',
        "operator_audit.c.message_id == _MESSAGE",
        "somebody else's decision is taken for one's own",
        _LOST,
    ),
)

_MOVE: Final = (
    _MOVES.without("a resend: count", '"attempts_used": 0, ', "a resend has only the attempts that were left", _FRESH),
    _MOVES.without("a resend: age", '"age_from": _NOW, ', "a resend is as old as its message", _FRESH),
    _MOVES.without("a resend: due", '"due_at": _NOW, ', "a resend waits for what an earlier refusal asked for", _FRESH),
    _MOVES.without(
        "a resend: run", ', "run_requested_at": None', "a sweep takes the run of before the resend for its own", _FRESH
    ),
    _MOVES.changed(
        "accepted: its time",
        "(Move.ACCEPT, Move.PROVE, Move.RESOLVE_ACCEPTED)",
        "(Move.ACCEPT, Move.PROVE)",
        "nobody can say that the provider accepted a message",
        "test_only_what_was_accepted_has_the_time_of_acceptance",
    ),
)

_RIGHTS: Final = (
    _GRANTS.changed(
        "0003: who looks for decisions",
        "fencepost_api, fencepost_worker, fencepost_events",
        "fencepost_api",
        "no worker moves a message, once Postgres plans the trigger's look for any states at all",
        "test_who_may_move_messages_may_look_for_decisions_however_postgres_plans_that",
    ),
)

_DOOR: Final = (
    _API.without(
        "ambiguous: operators only",
        '    await cast("Authenticator", request.app.state.authenticator).operator(request)\n',
        "anybody may list what waits for a person",
        _NO_OPERATOR,
    ),
    _API.without(
        "resolve: the risk",
        "    if decision is Decision.RESEND and not acknowledged:\n"
        "        raise Problem(Code.DUPLICATE_RISK_NOT_ACKNOWLEDGED)\n",
        "a resend needs no acknowledgement of its risk",
        "test_a_resend_needs_the_risk_acknowledged",
    ),
    _API.changed(
        "resolve: reread",
        "        happened = await store.reread(message_id, resolution)\n",
        "        happened = None\n",
        "a decision that was made is answered with 503",
        "test_a_decision_whose_commit_got_no_reply_is_looked_up",
    ),
    _API.without(
        "resolve: nothing happened",
        "        if happened is None:\n            raise\n",
        "a decision that was never made is taken for one that was",
        "test_a_decision_whose_commit_got_no_reply_is_looked_up",
    ),
    _API.without(
        "resolve: run",
        "    if resolution.decision is Decision.RESEND:\n"
        '        cast("Starter", request.app.state.starter).want(message)\n',
        "a resend waits for a sweep",
        "test_a_resend_asks_for_a_run_and_no_other_decision_does",
    ),
    _SWITCHES.without(
        "providers: operators only",
        '    await cast("Authenticator", request.app.state.authenticator).operator(request)\n',
        "anybody may list the providers",
        _NO_OPERATOR,
    ),
    _LIST.changed(
        "ambiguous: page",
        "sa.tuple_(*order) > sa.tuple_(*after)",
        "messages.c.updated_at > after[0]",
        "of messages that came into doubt at one moment, a page ends with one and the next leaves out the others",
        "test_the_list_has_every_tenants_ambiguous_messages_oldest_first_with_what_is_known",
    ),
)

_SWITCH_WHERE: Final = "    .where(providers.c.name == _NAME, providers.c.paused != _PAUSED)\n"
_SWITCH: Final = (
    _PROVIDERS.lacking(
        "provider SWITCH: provider",
        _SWITCH_WHERE,
        "providers.c.name == _NAME, ",
        "all providers are switched",
        "test_one_provider_is_switched_and_no_other",
    ),
    _PROVIDERS.lacking(
        "provider SWITCH: differs",
        _SWITCH_WHERE,
        ", providers.c.paused != _PAUSED",
        "a switch that switches nothing is audited",
        "test_a_switch_that_switches_nothing_leaves_everything_as_it_is",
    ),
    _PROVIDERS.changed(
        "switch: the audit's transaction",
        "self._engine.begin() as connection:\n",
        'self._engine.execution_options(isolation_level="AUTOCOMMIT").begin() as connection:\n',
        "a provider is switched without its line in the audit",
        "test_nothing_is_switched_without_its_line_in_the_audit",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_RESOLVE, *_MOVE, *_RIGHTS, *_DOOR, *_SWITCH)
