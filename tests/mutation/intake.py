"""The guards of api/intake.py and db/intake_statements.py: one command, one message."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("api/intake.py", "tests/api/test_messages.py")
_DB: Final = Source("db/intake_statements.py", "tests/api/test_intake_outages.py")
_OUTAGES: Final = "tests/api/test_intake_outages.py::"

_LOOK_UP: Final = """\
        if found.original is not None:
            return _compare(found.original, key, command)
"""
_AS_KEPT: Final = "test_what_was_taken_from_the_sender_at_intake_is_what_a_replay_is_compared_with"
_OTHERS: Final = (
    _OUTAGES + "test_a_command_whose_commit_never_arrived_is_judged_against_the_one_that_took_its_key_meanwhile"
)

_REPLAY: Final = (
    _IN.changed(
        "intake: replay first",
        _LOOK_UP,
        "        _referred(caller, found)\n" + _LOOK_UP,
        "a replay is answered only while its sender and template may be used",
        _AS_KEPT,
        "test_a_disabled_tenant_may_read_and_replay_but_send_nothing_new",
    ),
    _IN.changed(
        "intake: kept defaults",
        "sender_address=original.sender_address,",
        'sender_address="today@example.com",',
        "a replay is compared with another sender's address than the one that was kept",
        _AS_KEPT,
    ),
    _IN.changed(
        "intake: kept reply-to",
        "sender_reply_to=_addresses(original.sender_reply_to),",
        "sender_reply_to=(),",
        "a replay is compared without the reply-to that was kept",
        _AS_KEPT,
    ),
    _IN.without(
        "intake: conflict",
        "    if request_hash(tenant_id, key, command, defaults) != original.ref.request_hash:\n"
        "        raise Problem(Code.IDEMPOTENCY_CONFLICT)\n",
        "another command under a used key is taken for a replay",
        "test_the_same_key_with_another_command_is_a_conflict_and_writes_nothing",
    ),
    _IN.changed(
        "intake: the loser compares",
        "            raise UnavailableError\n        return _compare(original, key, command)\n\n    async def _after",
        "            raise UnavailableError\n"
        "        return Accepted(message_id=original.ref.id, verdict=Verdict.REPLAY)\n\n"
        "    async def _after",
        "of two commands at once under one key, the loser is taken for a replay",
        _OUTAGES + "test_of_two_commands_under_one_key_one_wins",
    ),
)

_LOST: Final = (
    _IN.changed(
        "intake: lost commit",
        "            return await self._after_lost_commit(message, key, command)\n",
        "            raise\n",
        "a commit whose reply was lost is not looked up",
        _OUTAGES + "test_a_commit_whose_reply_was_lost_is_found_to_have_happened",
    ),
    _IN.changed(
        "intake: lost commit did not happen",
        "        if original is None:\n            raise UnavailableError\n        self._starter.want(original.ref)\n",
        "        if original is None:\n"
        "            return Accepted(message_id=message.ref.id, verdict=Verdict.NEW)\n"
        "        self._starter.want(original.ref)\n",
        "a commit that never arrived is answered as if it had",
        _OUTAGES + "test_a_commit_that_never_arrived_is_unavailable_and_a_replay_is_the_first",
    ),
    _IN.without(
        "intake: lost commit is ours",
        "        if original.ref.id == message.ref.id:\n"
        "            return Accepted(message_id=message.ref.id, verdict=Verdict.NEW)\n",
        "a first command whose commit's reply was lost is told as a replay",
        _OUTAGES + "test_a_commit_whose_reply_was_lost_is_found_to_have_happened",
    ),
    _IN.changed(
        "intake: lost commit is somebody else's",
        "        if original.ref.id == message.ref.id:\n",
        "        if True:\n",
        "a command that took the key meanwhile is taken for ours",
        _OTHERS,
    ),
)

_REFERRED: Final = (
    _IN.changed(
        "intake: sender active",
        "    if not found.sender.active:\n",
        "    if False:\n",
        "a switched-off sender takes new commands",
        _AS_KEPT,
    ),
    _IN.changed(
        "intake: tenant active",
        "    caller.require_active()\n",
        "",
        "a disabled tenant sends new commands",
        "test_a_disabled_tenant_may_read_and_replay_but_send_nothing_new",
    ),
)

_INSERT: Final = (
    _DB.without(
        "ACCEPT: on conflict",
        '    .on_conflict_do_nothing(index_elements=["tenant_id", "idempotency_key"])\n',
        "of two first commands at once, the loser is an error",
        "test_a_command_that_waited_for_anothers_insert_is_judged_against_it",
    ),
    _DB.without(
        "ORIGINAL: tenant",
        "messages.c.tenant_id == _TENANT, ",
        "a key is looked up among all tenants",
        "tests/api/test_messages.py::test_one_key_of_two_tenants_is_two_messages",
    ),
    _DB.without(
        "LOOK_UP: the sender's tenant",
        "    senders.c.tenant_id == _TENANT,\n",
        "a tenant sends in another one's name",
        "tests/api/test_messages.py::test_what_is_another_tenants_is_not_found",
    ),
    _DB.without(
        "LOOK_UP: the template's tenant",
        "    template_versions.c.tenant_id == _TENANT,\n",
        "a tenant sends another one's template",
        "tests/api/test_messages.py::test_what_is_another_tenants_is_not_found",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_REPLAY, *_LOST, *_REFERRED, *_INSERT)
