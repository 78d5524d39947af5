"""Triggers that refuse what the lifecycle doesn't allow, also to somebody at a `psql` prompt.

The SQL is rendered from `db/lifecycle.py` and `db/schema.py`; a migration holds it as it was when written, and
`make check` compares what the migrations install with what this file renders.
"""

from typing import Final

import sqlalchemy as sa

from db.lifecycle import CLAIMABLE, State, pairs
from db.schema import attempts, messages

#: The one role that may take rows away: retention and erasure. No process of Fencepost's logs in as it by default.
PURGE_ROLE: Final = "fencepost_purge"

#: What a message keeps for ever: who sent it, what it says, and what a replay's hash needs.
_FIXED_MESSAGE_COLUMNS: Final = (
    "id",
    "tenant_id",
    "idempotency_key",
    "request_hash",
    "hash_version",
    "purpose",
    "template_key",
    "template_version",
    "template_purpose",
    "sender_key",
    "sender_address",
    "sender_name",
    "sender_reply_to",
    "credential_id",
    "provider",
    "tags",
    "created_at",
)
_FIXED_RECIPIENT_COLUMNS: Final = ("message_id", "role", "position", "tenant_id", "address", "name", "address_hash")

_INSERT_ONLY: Final = ("timeline", "provider_events", "evidence", "template_versions", "operator_audit")
_NEVER_DELETED: Final = ("messages", "attempts", "recipients", "message_contents")


def _list(values: tuple[State, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _message_moves() -> str:
    """Render the function that lets a message move along the lifecycle's pairs only."""
    permitted = ",\n      ".join(f"('{source}', '{goal}')" for source, goal in pairs())
    fixed = ", ".join(f"OLD.{name}" for name in _FIXED_MESSAGE_COLUMNS)
    now = ", ".join(f"NEW.{name}" for name in _FIXED_MESSAGE_COLUMNS)
    return f"""CREATE OR REPLACE FUNCTION fencepost_message_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> '{State.QUEUED}' OR NEW.token <> 0 OR NEW.attempts_used <> 0 THEN
      RAISE EXCEPTION 'fencepost: a message begins queued' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF current_user <> '{PURGE_ROLE}' AND ROW({fixed}) IS DISTINCT FROM ROW({now}) THEN
    RAISE EXCEPTION 'fencepost: what a message is never changes' USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.state IS DISTINCT FROM OLD.state AND (OLD.state, NEW.state) NOT IN (
      {permitted}
  ) THEN
    RAISE EXCEPTION 'fencepost: no way leads from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.token IS DISTINCT FROM OLD.token
     OR (NEW.state = '{State.LEASED}' AND OLD.state <> '{State.LEASED}') THEN
    IF NEW.token <> OLD.token + 1 OR NEW.state <> '{State.LEASED}' OR OLD.state NOT IN ({_list(CLAIMABLE)}) THEN
      RAISE EXCEPTION 'fencepost: the token grows by one, with each claim' USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  IF OLD.state = '{State.AMBIGUOUS}' AND NEW.state = '{State.QUEUED}' AND NOT EXISTS (
    SELECT FROM operator_audit AS o JOIN attempts AS a ON a.message_id = o.message_id AND a.number = o.attempt
    WHERE o.message_id = NEW.id AND a.token = NEW.token AND o.decision = 'resend'
      AND o.transaction_id = pg_current_xact_id()::text::bigint
  ) THEN
    RAISE EXCEPTION 'fencepost: only a person''s audited decision sends an ambiguous message again'
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$"""


def _write_once() -> str:
    """Render the function that lets a column of an attempt go from NULL to a value once, and never back."""
    changed = "\n     OR ".join(
        f"(OLD.{column.name} IS NOT NULL AND NEW.{column.name} IS DISTINCT FROM OLD.{column.name})"
        for column in attempts.columns
    )
    return f"""CREATE OR REPLACE FUNCTION fencepost_write_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF {changed} THEN
    RAISE EXCEPTION 'fencepost: an attempt is written once' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$"""


def _fixed_recipient() -> str:
    """Render the function that keeps a recipient who they are; only the outcome may change."""
    fixed = ", ".join(f"OLD.{name}" for name in _FIXED_RECIPIENT_COLUMNS)
    now = ", ".join(f"NEW.{name}" for name in _FIXED_RECIPIENT_COLUMNS)
    return f"""CREATE OR REPLACE FUNCTION fencepost_fixed_recipient() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> '{PURGE_ROLE}' AND ROW({fixed}) IS DISTINCT FROM ROW({now}) THEN
    RAISE EXCEPTION 'fencepost: a recipient never changes' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$"""


_REFUSE: Final = f"""CREATE OR REPLACE FUNCTION fencepost_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user = '{PURGE_ROLE}' THEN
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  END IF;
  RAISE EXCEPTION 'fencepost: % on % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END
$$"""


def _triggers() -> dict[str, str]:
    """Render the triggers by name."""
    rendered = {
        f"{messages.name}_moves": f"BEFORE INSERT OR UPDATE ON {messages.name}"
        " FOR EACH ROW EXECUTE FUNCTION fencepost_message_moves()",
        f"{attempts.name}_write_once": f"BEFORE UPDATE ON {attempts.name}"
        " FOR EACH ROW EXECUTE FUNCTION fencepost_write_once()",
        "recipients_fixed": "BEFORE UPDATE ON recipients FOR EACH ROW EXECUTE FUNCTION fencepost_fixed_recipient()",
        "message_contents_fixed": "BEFORE UPDATE ON message_contents FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()",
    }
    for table in _INSERT_ONLY:
        rendered[f"{table}_insert_only"] = (
            f"BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()"
        )
    for table in _NEVER_DELETED:
        rendered[f"{table}_never_deleted"] = (
            f"BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()"
        )
    for table in (*_INSERT_ONLY, *_NEVER_DELETED):
        rendered[f"{table}_never_emptied"] = (
            f"BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()"
        )
    return rendered


def render() -> tuple[str, ...]:
    """Give every statement that installs the guards, functions first."""
    triggers = (f"CREATE TRIGGER {name} {what}" for name, what in _triggers().items())
    return (_message_moves(), _write_once(), _fixed_recipient(), _REFUSE, *triggers)


def install(connection: sa.Connection) -> None:
    """Install the guards on a database that has the tables and no guards yet."""
    for statement in render():
        connection.exec_driver_sql(statement)
