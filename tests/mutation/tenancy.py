"""The guards of tenants, keys and senders: whose they are, what may still be done to them, and the audit of it."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_AUDIT: Final = Source("db/audit.py", "tests/api/test_tenants.py")
_TENANTS: Final = Source("db/tenants.py", "tests/api/test_tenants.py")
_KEYS: Final = Source("db/tenant_keys.py", "tests/api/test_tenant_keys.py")
_OPERATORS: Final = Source("db/operator_keys.py", "tests/commands/test_operator_keys.py")
_SENDERS: Final = Source("db/senders.py", "tests/api/test_senders.py")
_API: Final = Source("api/senders.py", "tests/api/test_senders.py")

_STATEMENT: Final = "tests/db/test_credentials.py::test_the_statement_itself_lets_no_key_follow_one_that_is_not_active"
_ONCE: Final = "tests/db/test_credentials.py::test_the_statements_themselves_write_once"
_UNAUDITED: Final = "test_nothing_is_done_to_a_key_without_its_row_in_the_audit"
_SAME: Final = "test_a_change_that_changes_nothing_is_not_audited"

_DISABLED: Final = "test_a_disabled_tenant_reads_its_senders_and_changes_none"

_BEGIN: Final = "self._engine.begin() as connection:\n"
#: Each statement is a transaction of its own.
_APART: Final = 'self._engine.execution_options(isolation_level="AUTOCOMMIT").begin() as connection:\n'
_CREATE: Final = "                row = (await connection.execute(CREATE"
_LOCK: Final = "                if (await connection.execute(LOCK, values)).one_or_none() is None:\n"
_ISSUE: Final = "                if (await connection.execute(TENANT, values)).one_or_none() is None:\n"

_TENANT: Final = (
    _AUDIT.changed(
        "audit: the deed's transaction",
        "    await connection.execute(sa.insert(operator_audit), row)\n",
        "    async with connection.engine.begin() as apart:\n"
        "        await apart.execute(sa.insert(operator_audit), row)\n",
        "the audit tells what did not happen",
        "test_nothing_stands_in_the_audit_that_did_not_happen",
    ),
    _TENANTS.changed(
        "create tenant: the audit's transaction",
        _BEGIN + _CREATE,
        _APART + _CREATE,
        "a tenant is made without its row in the audit",
        "test_nothing_happens_without_its_row_in_the_audit",
    ),
    _TENANTS.changed(
        "change tenant: the audit's transaction",
        _BEGIN + _LOCK,
        _APART + _LOCK,
        "a tenant is switched without its row in the audit",
        "test_nothing_happens_without_its_row_in_the_audit",
    ),
    _TENANTS.without(
        "SWITCH: differs",
        ', tenants.c.state != sa.bindparam("state_after", type_=sa.Text)',
        "a switch that switches nothing is audited",
        _SAME,
    ),
    _TENANTS.without(
        "RENAME: differs",
        ', tenants.c.name != sa.bindparam("name_after", type_=sa.Text)',
        "a new name that is the old one is audited",
        _SAME,
    ),
)

_KEY: Final = (
    _KEYS.changed(
        "key: tenant",
        "(credentials.c.id == _ID, credentials.c.tenant_id == _TENANT)",
        "(credentials.c.id == _ID,)",
        "a key is changed under any tenant's path",
        "test_a_key_opens_nothing_of_another_tenant",
    ),
    _KEYS.without(
        "keys: tenant",
        "    .where(credentials.c.tenant_id == _TENANT)\n",
        "all tenants' keys are listed",
        "test_keys_are_listed_newest_first_with_their_states_and_without_their_secrets",
    ),
    _KEYS.without(
        "ISSUE: expiry",
        ", sa.or_(_EXPIRES_AT.is_(None), _EXPIRES_AT > _NOW)",
        "a key is made that has expired already",
        "test_a_key_that_would_have_expired_already_is_refused",
    ),
    _KEYS.changed(
        "issue: the audit's transaction",
        _BEGIN + _ISSUE,
        _APART + _ISSUE,
        "a key is made without its row in the audit",
        _UNAUDITED,
    ),
    _KEYS.changed(
        "CHANGE_SCOPES: revoked",
        "        credentials.c.revoked_at.is_(None),\n        sa.not_(",
        "        sa.not_(",
        "a revoked key's scopes are changed",
        "test_the_scopes_of_a_revoked_key_stay_and_those_of_another_may_change",
    ),
    _KEYS.changed(
        "CHANGE_SCOPES: differs",
        "sa.not_(sa.and_(",
        "sa.or_(sa.true(), sa.and_(",
        "a change to the same scopes is audited",
        "test_a_keys_scopes_change_at_once",
    ),
    _KEYS.without(
        "SUCCEED: tenant",
        "            _old.c.tenant_id == _TENANT,\n",
        "a key follows another tenant's",
        "tests/db/test_credentials.py::test_the_statement_itself_lets_no_key_follow_somebody_elses",
    ),
    _KEYS.without(
        "SUCCEED: revoked",
        "            _old.c.revoked_at.is_(None),\n",
        "a revoked key gets a successor",
        _STATEMENT,
    ),
    _KEYS.without(
        "SUCCEED: rotated",
        "            _old.c.replaced_by.is_(None),\n",
        "a key gets two successors",
        _STATEMENT,
    ),
    _KEYS.without(
        "SUCCEED: expired",
        "            sa.or_(_old.c.expires_at.is_(None), _old.c.expires_at > _NOW),\n",
        "an expired key gets a successor",
        _STATEMENT,
    ),
    _KEYS.changed(
        "RETIRE: rotated",
        ".where(*_THIS, credentials.c.replaced_by.is_(None))",
        ".where(*_THIS)",
        "a key's successor is replaced by another one",
        _ONCE,
    ),
    _KEYS.changed(
        "RETIRE: never longer",
        'sa.func.least(credentials.c.expires_at, _NOW + sa.bindparam("overlap", type_=sa.Interval))',
        '_NOW + sa.bindparam("overlap", type_=sa.Interval)',
        "a rotation makes a key live longer",
        "test_an_overlap_never_makes_a_key_live_longer",
    ),
    _KEYS.changed(
        "REVOKE: once",
        ".where(*_THIS, credentials.c.revoked_at.is_(None))",
        ".where(*_THIS)",
        "a second revocation writes over the time of the first",
        "test_a_key_is_revoked_at_once_and_for_ever",
    ),
    _KEYS.changed(
        "revoke: the audit's transaction",
        _BEGIN + _LOCK + "                    return False\n",
        _APART + _LOCK + "                    return False\n",
        "a key is revoked without its row in the audit",
        _UNAUDITED,
    ),
)

_OPERATOR: Final = (
    _OPERATORS.changed(
        "operator's key: no tenant's",
        "(credentials.c.id == _ID, credentials.c.tenant_id.is_(None))",
        "(credentials.c.id == _ID,)",
        "the command revokes a tenant's key, as an operator's",
        "test_a_tenants_key_is_neither_listed_nor_revoked",
    ),
    _OPERATORS.without(
        "operators' keys: no tenant's",
        ".where(credentials.c.tenant_id.is_(None))",
        "tenants' keys are listed as operators'",
        "test_a_tenants_key_is_neither_listed_nor_revoked",
    ),
    _OPERATORS.without(
        "operator's ISSUE: expiry",
        ".where(sa.or_(_EXPIRY.is_(None), _EXPIRY > _NOW))",
        "an operator's key is made that has expired already",
        "test_a_key_that_would_have_expired_is_not_made",
    ),
    _OPERATORS.without(
        "operator's REVOKE: once",
        ", credentials.c.revoked_at.is_(None)",
        "a second revocation is audited like the first",
        "test_a_revoked_operators_key_is_listed_as_such_and_audited_once",
    ),
    _OPERATORS.changed(
        "operator's key: the audit's transaction",
        "async with engine.begin() as connection:",
        'async with engine.execution_options(isolation_level="AUTOCOMMIT").begin() as connection:',
        "an operator's key is made and revoked without its row in the audit",
        "test_nothing_is_done_to_an_operators_key_without_its_row_in_the_audit",
    ),
)

_SENDER: Final = (
    _SENDERS.changed(
        "sender: tenant",
        "(senders.c.tenant_id == _TENANT, senders.c.key == _KEY)",
        "(senders.c.key == _KEY,)",
        "a sender is looked up among all tenants",
        "test_one_key_of_two_tenants_is_two_senders",
    ),
    _SENDERS.changed(
        "senders: tenant",
        ".where(senders.c.tenant_id == _TENANT, senders.c.key >",
        ".where(senders.c.key >",
        "all tenants' senders are listed",
        "test_senders_are_listed_by_key_and_each_once",
    ),
    _SENDERS.changed(
        "create sender: at once",
        "insert(senders).on_conflict_do_nothing()",
        "insert(senders)",
        "of two who make one sender, one fails",
        "test_the_same_sender_again_is_the_one_that_there_is",
    ),
    _SENDERS.changed(
        "change sender: differs",
        ".where(*_THIS, differs)",
        ".where(*_THIS)",
        "a change that changes nothing changes the time",
        "test_a_change_that_changes_nothing_leaves_even_the_time",
    ),
    _SENDERS.changed(
        "change sender: null",
        "senders.c[name].is_distinct_from(value)",
        "(senders.c[name] != value)",
        "a name can't be taken away",
        "test_only_what_is_named_changes",
    ),
    _API.changed(
        "create sender: identical",
        "if sender.defaults != defaults:",
        "if False:",
        "another sender under a key that is taken is told to be made",
        "test_another_sender_under_a_key_that_is_taken_is_a_conflict_and_changes_nothing",
    ),
    _API.changed(
        "create sender: again",
        "if sender.defaults != defaults:",
        "if not made:",
        "asking again, after a lost answer, is a conflict",
        "test_the_same_sender_again_is_the_one_that_there_is",
    ),
    _API.changed(
        "create sender: active",
        "    caller.require_active()\n    sender, made",
        "    sender, made",
        "a disabled tenant makes senders",
        _DISABLED,
    ),
    _API.changed(
        "change sender: active",
        "    caller.require_active()\n    return _found",
        "    return _found",
        "a disabled tenant changes its senders",
        _DISABLED,
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_TENANT, *_KEY, *_OPERATOR, *_SENDER)
