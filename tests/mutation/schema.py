"""The guards that Postgres itself keeps, for everybody: the migration's triggers and unique indexes."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/migrations/versions/0001_the_whole_schema.py", "tests/db/test_guards.py")
_LIFECYCLE: Final = "tests/db/test_lifecycle.py::"

_PAIRS: Final = "  IF NEW.state IS DISTINCT FROM OLD.state AND (OLD.state, NEW.state) NOT IN (\n"
_PERMITTED: Final = _LIFECYCLE + "test_the_trigger_lets_a_superuser_make_permitted_moves_only"
_LIFE: Final = (
    _IN.changed(
        "pairs: checked",
        _PAIRS,
        "  IF false AND (OLD.state, NEW.state) NOT IN (\n",
        "anybody at a prompt moves a message from any state to any other",
        _PERMITTED,
    ),
    _IN.changed(
        "pairs: ambiguous to retryable",
        "      ('ambiguous', 'dead'),\n",
        "      ('ambiguous', 'dead'),\n      ('ambiguous', 'retryable'),\n",
        "anybody at a prompt has an ambiguous message tried again",
        f"{_PERMITTED}[ambiguous]",
    ),
    _IN.changed(
        "pairs: ambiguous to leased",
        "      ('ambiguous', 'dead'),\n",
        "      ('ambiguous', 'dead'),\n      ('ambiguous', 'leased'),\n",
        "anybody at a prompt leases an ambiguous message",
        f"{_PERMITTED}[ambiguous]",
        stands_in="the token's own rule lets it grow from queued and retryable only",
    ),
    *(
        _IN.changed(
            f"begins queued: {name}",
            "    IF NEW.state <> 'queued' OR NEW.token <> 0 OR NEW.attempts_used <> 0 THEN\n",
            f"    IF {condition} THEN\n",
            f"a message may begin {what}",
            _LIFECYCLE + "test_a_message_begins_queued",
        )
        for name, condition, what in (
            ("state", "NEW.token <> 0 OR NEW.attempts_used <> 0", "in any state"),
            ("token", "NEW.state <> 'queued' OR NEW.attempts_used <> 0", "with a token"),
            ("attempts", "NEW.state <> 'queued' OR NEW.token <> 0", "with attempts used up"),
        )
    ),
    _IN.changed(
        "message: fixed",
        "  IF current_user <> 'fencepost_purge' AND ROW(OLD.id, ",
        "  IF false AND ROW(OLD.id, ",
        "what a message is may change",
        "test_what_a_message_is_never_changes",
    ),
)

_TOKEN_WATCHED: Final = (
    "  IF NEW.token IS DISTINCT FROM OLD.token\n     OR (NEW.state = 'leased' AND OLD.state <> 'leased') THEN\n"
)
_TOKEN_RULE: Final = (
    "    IF NEW.token <> OLD.token + 1 OR NEW.state <> 'leased' OR OLD.state NOT IN ('queued', 'retryable') THEN\n"
)
_WITHOUT_A_CLAIM: Final = "test_the_token_does_not_change_without_a_claim"
_TOKEN: Final = (
    _IN.changed(
        "token: changes watched",
        _TOKEN_WATCHED,
        "  IF NEW.state = 'leased' AND OLD.state <> 'leased' THEN\n",
        "a token changes without a claim",
        f"{_WITHOUT_A_CLAIM}[queued]",
    ),
    _IN.changed(
        "token: claims watched",
        _TOKEN_WATCHED,
        "  IF NEW.token IS DISTINCT FROM OLD.token THEN\n",
        "a lease is taken without a new token",
        "test_the_token_grows_by_one_with_each_claim[0]",
    ),
    _IN.lacking(
        "token: by one",
        _TOKEN_RULE,
        "NEW.token <> OLD.token + 1 OR ",
        "a token grows by any number, or shrinks",
        "test_the_token_grows_by_one_with_each_claim",
    ),
    _IN.lacking(
        "token: to leased",
        _TOKEN_RULE,
        "NEW.state <> 'leased' OR ",
        "a token grows without a lease",
        f"{_WITHOUT_A_CLAIM}[queued]",
    ),
    _IN.lacking(
        "token: from free",
        _TOKEN_RULE,
        " OR OLD.state NOT IN ('queued', 'retryable')",
        "a token grows while the message is leased",
        f"{_WITHOUT_A_CLAIM}[leased]",
    ),
)

_AUDIT: Final = (
    "    WHERE o.message_id = NEW.id AND a.token = NEW.token AND o.decision = 'resend'\n"
    "      AND o.transaction_id = pg_current_xact_id()::text::bigint\n"
)
_AUDITED: Final = (
    _IN.changed(
        "audit: required",
        "  IF OLD.state = 'ambiguous' AND NEW.state = 'queued' AND NOT EXISTS (\n",
        "  IF false AND NOT EXISTS (\n",
        "an ambiguous message is sent again without a person's decision",
        "test_nobody_sends_an_ambiguous_message_again_without_an_audited_decision",
    ),
    _IN.lacking(
        "audit: this message",
        _AUDIT,
        "o.message_id = NEW.id AND ",
        "a decision about one message sends another again",
        "test_a_decision_about_another_message_does_not_count",
    ),
    _IN.lacking(
        "audit: this attempt",
        _AUDIT,
        "a.token = NEW.token AND ",
        "a decision about an older attempt sends the message again",
        "test_a_decision_about_an_older_attempt_does_not_count",
    ),
    _IN.lacking(
        "audit: resend",
        _AUDIT,
        " AND o.decision = 'resend'",
        "any decision sends the message again",
        "test_another_decision_does_not_send_it_again",
    ),
    _IN.lacking(
        "audit: same transaction",
        _AUDIT,
        "      AND o.transaction_id = pg_current_xact_id()::text::bigint\n",
        "one decision sends the message again and again",
        "test_a_decision_of_an_earlier_transaction_does_not_count",
    ),
)

_COLUMNS: Final = (
    "number",
    "token",
    "claim_id",
    "lease_owner",
    "claimed_at",
    "lease_expires_at",
    "begin_id",
    "begun_at",
    "outcome",
    "reason",
    "provider",
    "provider_message_id",
    "provider_request_id",
    "provider_code",
    "ended_at",
    "closed_at",
)
_WRITE_ONCE: Final = (
    _IN.changed(
        "write-once: message_id",
        "(OLD.message_id IS NOT NULL AND NEW.message_id IS DISTINCT FROM OLD.message_id)",
        "false",
        "an attempt goes over to another message",
        "test_an_attempt_is_written_once",
    ),
    *(
        _IN.changed(
            f"write-once: {column}",
            f"OR (OLD.{column} IS NOT NULL AND NEW.{column} IS DISTINCT FROM OLD.{column})",
            "OR false",
            f"an attempt's {column} is written twice",
            "test_an_attempt_is_written_once",
        )
        for column in _COLUMNS
    ),
)


def _trigger(name: str, timing: str) -> str:
    """Give the line that makes a trigger."""
    table = name.removesuffix("_insert_only").removesuffix("_never_deleted").removesuffix("_never_emptied")
    each = "STATEMENT" if timing == "TRUNCATE" else "ROW"
    body = f"CREATE TRIGGER {name} BEFORE {timing} ON {table} FOR EACH {each} EXECUTE FUNCTION fencepost_refuse()"
    return f'    r"""{body}""",\n'


_TAKEN_AWAY: Final = "test_no_row_of_a_record_is_taken_away"
_RECORDS: Final = (
    *(
        _IN.without(
            f"insert only: {table}",
            _trigger(f"{table}_insert_only", "UPDATE OR DELETE"),
            f"a row of {table} changes or goes away",
            f"{_TAKEN_AWAY}[{table}]",
            f"test_no_row_of_an_insert_only_record_changes[{table}]",
        )
        for table in ("timeline", "provider_events", "evidence", "template_versions", "operator_audit")
    ),
    *(
        _IN.without(
            f"never deleted: {table}",
            _trigger(f"{table}_never_deleted", "DELETE"),
            f"a row of {table} goes away",
            f"{_TAKEN_AWAY}[{table}]",
        )
        for table in ("messages", "attempts", "recipients", "message_contents")
    ),
    _IN.without(
        "never emptied: timeline",
        _trigger("timeline_never_emptied", "TRUNCATE"),
        "the timeline is emptied",
        f"{_TAKEN_AWAY}[timeline]",
    ),
    _IN.changed(
        "fixed: message_contents",
        "CREATE TRIGGER message_contents_fixed BEFORE UPDATE ON",
        "CREATE TRIGGER message_contents_fixed BEFORE DELETE ON",
        "the content of an accepted message changes",
        "test_content_and_recipients_stay_as_they_were_accepted",
    ),
    _IN.changed(
        "fixed: recipients",
        "  IF current_user <> 'fencepost_purge' AND ROW(OLD.message_id, ",
        "  IF false AND ROW(OLD.message_id, ",
        "the recipient of an accepted message changes",
        "test_content_and_recipients_stay_as_they_were_accepted",
    ),
)

_UNIQUE: Final = (
    _IN.changed(
        "unique: open attempt",
        '"uq_attempts_open", "attempts", ["message_id"], unique=True,',
        '"uq_attempts_open", "attempts", ["message_id"], unique=False,',
        "a message has two open attempts",
        "test_a_message_has_one_open_attempt_at_most",
    ),
    _IN.without(
        "unique: idempotency key",
        '        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_messages_tenant_id_idempotency_key"),\n',
        "a tenant's key makes two messages",
        "test_a_tenants_key_makes_one_message",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_LIFE, *_TOKEN, *_AUDITED, *_WRITE_ONCE, *_RECORDS, *_UNIQUE)
