"""The whole schema: tables, guards, grants."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# As db/guards.py rendered it for this revision.
GUARDS = (
    r"""CREATE OR REPLACE FUNCTION fencepost_message_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'queued' OR NEW.token <> 0 OR NEW.attempts_used <> 0 THEN
      RAISE EXCEPTION 'fencepost: a message begins queued' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
  END IF;
  IF current_user <> 'fencepost_purge' AND ROW(OLD.id, OLD.tenant_id, OLD.idempotency_key, OLD.request_hash, OLD.hash_version, OLD.purpose, OLD.template_key, OLD.template_version, OLD.template_purpose, OLD.sender_key, OLD.sender_address, OLD.sender_name, OLD.sender_reply_to, OLD.credential_id, OLD.provider, OLD.tags, OLD.created_at) IS DISTINCT FROM ROW(NEW.id, NEW.tenant_id, NEW.idempotency_key, NEW.request_hash, NEW.hash_version, NEW.purpose, NEW.template_key, NEW.template_version, NEW.template_purpose, NEW.sender_key, NEW.sender_address, NEW.sender_name, NEW.sender_reply_to, NEW.credential_id, NEW.provider, NEW.tags, NEW.created_at) THEN
    RAISE EXCEPTION 'fencepost: what a message is never changes' USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.state IS DISTINCT FROM OLD.state AND (OLD.state, NEW.state) NOT IN (
      ('ambiguous', 'dead'),
      ('ambiguous', 'provider_accepted'),
      ('ambiguous', 'queued'),
      ('dead', 'provider_accepted'),
      ('delivered', 'complained'),
      ('delivered', 'hard_bounced'),
      ('hard_bounced', 'complained'),
      ('leased', 'ambiguous'),
      ('leased', 'dead'),
      ('leased', 'provider_accepted'),
      ('leased', 'queued'),
      ('leased', 'retryable'),
      ('leased', 'suppressed'),
      ('provider_accepted', 'complained'),
      ('provider_accepted', 'dead'),
      ('provider_accepted', 'delivered'),
      ('provider_accepted', 'hard_bounced'),
      ('queued', 'dead'),
      ('queued', 'leased'),
      ('queued', 'provider_accepted'),
      ('queued', 'suppressed'),
      ('retryable', 'dead'),
      ('retryable', 'leased'),
      ('retryable', 'provider_accepted'),
      ('retryable', 'suppressed'),
      ('suppressed', 'provider_accepted')
  ) THEN
    RAISE EXCEPTION 'fencepost: no way leads from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.token IS DISTINCT FROM OLD.token
     OR (NEW.state = 'leased' AND OLD.state <> 'leased') THEN
    IF NEW.token <> OLD.token + 1 OR NEW.state <> 'leased' OR OLD.state NOT IN ('queued', 'retryable') THEN
      RAISE EXCEPTION 'fencepost: the token grows by one, with each claim' USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  IF OLD.state = 'ambiguous' AND NEW.state = 'queued' AND NOT EXISTS (
    SELECT FROM operator_audit AS o JOIN attempts AS a ON a.message_id = o.message_id AND a.number = o.attempt
    WHERE o.message_id = NEW.id AND a.token = NEW.token AND o.decision = 'resend'
      AND o.transaction_id = pg_current_xact_id()::text::bigint
  ) THEN
    RAISE EXCEPTION 'fencepost: only a person''s audited decision sends an ambiguous message again'
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$""",
    r"""CREATE OR REPLACE FUNCTION fencepost_write_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (OLD.message_id IS NOT NULL AND NEW.message_id IS DISTINCT FROM OLD.message_id)
     OR (OLD.number IS NOT NULL AND NEW.number IS DISTINCT FROM OLD.number)
     OR (OLD.token IS NOT NULL AND NEW.token IS DISTINCT FROM OLD.token)
     OR (OLD.claim_id IS NOT NULL AND NEW.claim_id IS DISTINCT FROM OLD.claim_id)
     OR (OLD.lease_owner IS NOT NULL AND NEW.lease_owner IS DISTINCT FROM OLD.lease_owner)
     OR (OLD.claimed_at IS NOT NULL AND NEW.claimed_at IS DISTINCT FROM OLD.claimed_at)
     OR (OLD.lease_expires_at IS NOT NULL AND NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at)
     OR (OLD.begin_id IS NOT NULL AND NEW.begin_id IS DISTINCT FROM OLD.begin_id)
     OR (OLD.begun_at IS NOT NULL AND NEW.begun_at IS DISTINCT FROM OLD.begun_at)
     OR (OLD.outcome IS NOT NULL AND NEW.outcome IS DISTINCT FROM OLD.outcome)
     OR (OLD.reason IS NOT NULL AND NEW.reason IS DISTINCT FROM OLD.reason)
     OR (OLD.provider IS NOT NULL AND NEW.provider IS DISTINCT FROM OLD.provider)
     OR (OLD.provider_message_id IS NOT NULL AND NEW.provider_message_id IS DISTINCT FROM OLD.provider_message_id)
     OR (OLD.provider_request_id IS NOT NULL AND NEW.provider_request_id IS DISTINCT FROM OLD.provider_request_id)
     OR (OLD.provider_code IS NOT NULL AND NEW.provider_code IS DISTINCT FROM OLD.provider_code)
     OR (OLD.ended_at IS NOT NULL AND NEW.ended_at IS DISTINCT FROM OLD.ended_at)
     OR (OLD.closed_at IS NOT NULL AND NEW.closed_at IS DISTINCT FROM OLD.closed_at) THEN
    RAISE EXCEPTION 'fencepost: an attempt is written once' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$""",
    r"""CREATE OR REPLACE FUNCTION fencepost_fixed_recipient() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'fencepost_purge' AND ROW(OLD.message_id, OLD.role, OLD.position, OLD.tenant_id, OLD.address, OLD.name, OLD.address_hash) IS DISTINCT FROM ROW(NEW.message_id, NEW.role, NEW.position, NEW.tenant_id, NEW.address, NEW.name, NEW.address_hash) THEN
    RAISE EXCEPTION 'fencepost: a recipient never changes' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$""",
    r"""CREATE OR REPLACE FUNCTION fencepost_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user = 'fencepost_purge' THEN
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  END IF;
  RAISE EXCEPTION 'fencepost: % on % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END
$$""",
    r"""CREATE TRIGGER messages_moves BEFORE INSERT OR UPDATE ON messages FOR EACH ROW EXECUTE FUNCTION fencepost_message_moves()""",
    r"""CREATE TRIGGER attempts_write_once BEFORE UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION fencepost_write_once()""",
    r"""CREATE TRIGGER recipients_fixed BEFORE UPDATE ON recipients FOR EACH ROW EXECUTE FUNCTION fencepost_fixed_recipient()""",
    r"""CREATE TRIGGER message_contents_fixed BEFORE UPDATE ON message_contents FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER timeline_insert_only BEFORE UPDATE OR DELETE ON timeline FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER provider_events_insert_only BEFORE UPDATE OR DELETE ON provider_events FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER evidence_insert_only BEFORE UPDATE OR DELETE ON evidence FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER template_versions_insert_only BEFORE UPDATE OR DELETE ON template_versions FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER operator_audit_insert_only BEFORE UPDATE OR DELETE ON operator_audit FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER messages_never_deleted BEFORE DELETE ON messages FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER attempts_never_deleted BEFORE DELETE ON attempts FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER recipients_never_deleted BEFORE DELETE ON recipients FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER message_contents_never_deleted BEFORE DELETE ON message_contents FOR EACH ROW EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER timeline_never_emptied BEFORE TRUNCATE ON timeline FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER provider_events_never_emptied BEFORE TRUNCATE ON provider_events FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER evidence_never_emptied BEFORE TRUNCATE ON evidence FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER template_versions_never_emptied BEFORE TRUNCATE ON template_versions FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER operator_audit_never_emptied BEFORE TRUNCATE ON operator_audit FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER messages_never_emptied BEFORE TRUNCATE ON messages FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER attempts_never_emptied BEFORE TRUNCATE ON attempts FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER recipients_never_emptied BEFORE TRUNCATE ON recipients FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
    r"""CREATE TRIGGER message_contents_never_emptied BEFORE TRUNCATE ON message_contents FOR EACH STATEMENT EXECUTE FUNCTION fencepost_refuse()""",
)

# What each process may do. The API never reads content, the worker never reads secrets, nobody takes anything away.
_MESSAGE_MOVES = "state, token, came_from, due_at, attempts_used, provider_accepted_at, delivered_at, updated_at"
GRANTS = {
    "fencepost_api": {
        "SELECT": (
            "alembic_version, tenants, credentials, senders, template_versions, providers, messages, attempts,"
            " timeline, evidence"
        ),
        "SELECT (message_id, role, position, tenant_id, redacted, outcome, outcome_at)": "recipients",
        "INSERT": "messages, message_contents, recipients, timeline",
    },
    "fencepost_worker": {
        "SELECT": (
            "alembic_version, tenants, senders, providers, messages, message_contents, recipients, attempts, timeline,"
            " evidence"
        ),
        "SELECT (id, tenant_id, scopes, revoked_at)": "credentials",
        "SELECT (id, tenant_id, address_hash, scope, removed_at)": "suppressions",
        f"UPDATE ({_MESSAGE_MOVES}, run_requested_at)": "messages",
        "UPDATE (begin_id, begun_at, outcome, reason, provider, provider_message_id, provider_request_id,"
        " provider_code, ended_at, closed_at)": "attempts",
        "UPDATE (outcome, outcome_at)": "recipients",
        "INSERT": "attempts, timeline, evidence",
    },
    "fencepost_events": {
        "SELECT": "alembic_version, messages, recipients, attempts, timeline, evidence, provider_events, suppressions",
        f"UPDATE ({_MESSAGE_MOVES})": "messages",
        "UPDATE (outcome, reason, ended_at, closed_at)": "attempts",
        "UPDATE (outcome, outcome_at)": "recipients",
        "INSERT": "provider_events, evidence, timeline, suppressions",
    },
}


def upgrade() -> None:
    op.create_table(
        "provider_events",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column(
            "notification_id", sa.Text(), nullable=False, comment="SNS's MessageId: one notification counts once."
        ),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("provider_message_id", sa.Text(), nullable=True),
        sa.Column("message_tag", sa.Text(), nullable=True),
        sa.Column("attempt_tag", sa.Text(), nullable=True),
        sa.Column(
            "detail",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="Codes and classes only; addresses as keyed hashes.",
        ),
        sa.Column("occurred_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "received_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_events")),
        sa.UniqueConstraint("provider", "notification_id", name="uq_provider_events_notification"),
    )
    op.create_index(
        "ix_provider_events_provider_message_id", "provider_events", ["provider", "provider_message_id"], unique=False
    )
    op.create_index("ix_provider_events_received_at", "provider_events", ["received_at"], unique=False)
    op.create_table(
        "providers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "changed_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_providers")),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("id ~ '^[a-z0-9-]{1,64}$'", name=op.f("ck_tenants_id_shape")),
        sa.CheckConstraint("state IN ('active', 'disabled')", name=op.f("ck_tenants_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
    )
    op.create_table(
        "credentials",
        sa.Column("id", sa.Text(), nullable=False, comment="The public half of the key; safe to log."),
        sa.Column("tenant_id", sa.Text(), nullable=True, comment="Null for an operator's key."),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False, comment="HMAC-SHA-256 of the secret half."),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint(
            "tenant_id IS NOT NULL OR scopes = ARRAY['operator']", name=op.f("ck_credentials_operator_has_no_tenant")
        ),
        sa.CheckConstraint(
            "tenant_id IS NULL OR NOT 'operator' = ANY (scopes)", name=op.f("ck_credentials_tenant_is_no_operator")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_credentials_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credentials")),
    )
    op.create_index("ix_credentials_tenant_id", "credentials", ["tenant_id"], unique=False)
    op.create_table(
        "senders",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column(
            "reply_to", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'::jsonb"), nullable=False
        ),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("state IN ('active', 'disabled')", name=op.f("ck_senders_state")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_senders_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "key", name=op.f("pk_senders")),
    )
    op.create_table(
        "suppressions",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("address_hash", sa.LargeBinary(), nullable=False, comment="Keyed hash of the folded address."),
        sa.Column("scope", sa.Text(), nullable=False, comment="'all', or a purpose."),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("removed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("removed_reason", sa.Text(), nullable=True),
        sa.CheckConstraint("reason IN ('hard_bounce', 'complaint', 'manual')", name=op.f("ck_suppressions_reason")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_suppressions_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suppressions")),
    )
    op.create_index(
        "uq_suppressions_active",
        "suppressions",
        ["tenant_id", "address_hash", "scope"],
        unique=True,
        postgresql_where=sa.text("removed_at IS NULL"),
    )
    op.create_table(
        "template_versions",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("html", sa.Text(), nullable=True),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("context_schema", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("version >= 1", name=op.f("ck_template_versions_version_from_one")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_template_versions_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "key", "version", name=op.f("pk_template_versions")),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("hash_version", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column(
            "token", sa.BigInteger(), server_default="0", nullable=False, comment="Fencing token; each claim adds one."
        ),
        sa.Column(
            "came_from", sa.Text(), nullable=True, comment="The state before the claim; where a release goes back to."
        ),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column(
            "age_from",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
            comment="Intake, or the last resend.",
        ),
        sa.Column("attempts_used", sa.Integer(), server_default="0", nullable=False, comment="Begun since age_from."),
        sa.Column(
            "run_requested_at",
            sa.TIMESTAMP(timezone=True),
            nullable=True,
            comment="When the sweep last asked Temporal for a run.",
        ),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("template_key", sa.Text(), nullable=False),
        sa.Column("template_version", sa.Integer(), nullable=False),
        sa.Column("template_purpose", sa.Text(), nullable=False, comment="The default taken at intake."),
        sa.Column("sender_key", sa.Text(), nullable=False),
        sa.Column("sender_address", sa.Text(), nullable=False, comment="Taken from the sender at intake."),
        sa.Column("sender_name", sa.Text(), nullable=True, comment="Taken from the sender at intake."),
        sa.Column(
            "sender_reply_to",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="The sender's default at intake, used or not.",
        ),
        sa.Column("credential_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("tags", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("provider_accepted_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("delivered_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("came_from IN ('queued', 'retryable')", name=op.f("ck_messages_came_from")),
        sa.CheckConstraint("request_hash ~ '^v[0-9]+:[0-9a-f]{64}$'", name=op.f("ck_messages_request_hash_shape")),
        sa.CheckConstraint(
            "state <> 'delivered' OR delivered_at IS NOT NULL", name=op.f("ck_messages_delivered_has_its_time")
        ),
        sa.CheckConstraint("state <> 'leased' OR came_from IS NOT NULL", name=op.f("ck_messages_leased_came_from")),
        sa.CheckConstraint(
            "state IN ('queued', 'leased', 'retryable', 'ambiguous', 'provider_accepted', 'delivered', 'hard_bounced', 'complained', 'suppressed', 'dead')",
            name=op.f("ck_messages_state"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('provider_accepted', 'delivered', 'hard_bounced', 'complained') OR provider_accepted_at IS NOT NULL",
            name=op.f("ck_messages_accepted_has_its_time"),
        ),
        sa.CheckConstraint(
            "octet_length(idempotency_key) BETWEEN 1 AND 255", name=op.f("ck_messages_idempotency_key_length")
        ),
        sa.CheckConstraint("token >= 0 AND attempts_used >= 0", name=op.f("ck_messages_counters")),
        sa.ForeignKeyConstraint(["credential_id"], ["credentials.id"], name=op.f("fk_messages_credential_id")),
        sa.ForeignKeyConstraint(["provider"], ["providers.name"], name=op.f("fk_messages_provider")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "sender_key"], ["senders.tenant_id", "senders.key"], name="fk_messages_sender"
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "template_key", "template_version"],
            ["template_versions.tenant_id", "template_versions.key", "template_versions.version"],
            name="fk_messages_template",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_messages_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_messages_tenant_id_idempotency_key"),
    )
    op.create_index(
        "ix_messages_ambiguous",
        "messages",
        ["updated_at", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'ambiguous'"),
    )
    op.create_index(
        "ix_messages_due",
        "messages",
        ["due_at", "id"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'retryable')"),
    )
    op.create_index("ix_messages_list", "messages", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index("ix_messages_list_purpose", "messages", ["tenant_id", "purpose", "created_at", "id"], unique=False)
    op.create_index("ix_messages_list_state", "messages", ["tenant_id", "state", "created_at", "id"], unique=False)
    op.create_index(
        "ix_messages_tags",
        "messages",
        ["tags"],
        unique=False,
        postgresql_using="gin",
        postgresql_ops={"tags": "jsonb_path_ops"},
    )
    op.create_table(
        "attempts",
        sa.Column("message_id", sa.UUID(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="From 1; what people and provider tags see."),
        sa.Column("token", sa.BigInteger(), nullable=False, comment="The fencing token of its claim; shown to nobody."),
        sa.Column("claim_id", sa.Text(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=False),
        sa.Column(
            "claimed_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("lease_expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("begin_id", sa.UUID(), nullable=True),
        sa.Column("begun_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("provider", sa.Text(), nullable=True),
        sa.Column("provider_message_id", sa.Text(), nullable=True),
        sa.Column("provider_request_id", sa.Text(), nullable=True),
        sa.Column("provider_code", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("closed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('accepted', 'refused', 'rejected', 'unknown', 'not_submitted', 'not_begun', 'released')",
            name=op.f("ck_attempts_outcome"),
        ),
        sa.CheckConstraint(
            "outcome IS DISTINCT FROM 'accepted' OR provider_message_id IS NOT NULL",
            name=op.f("ck_attempts_accepted_has_its_id"),
        ),
        sa.CheckConstraint(
            "outcome IS NULL OR (begun_at IS NULL) = (outcome IN ('not_begun', 'released'))",
            name=op.f("ck_attempts_outcome_fits_begin"),
        ),
        sa.CheckConstraint(
            "reason IN ('provider_timeout', 'connection_lost', 'provider_error', 'response_unreadable', 'throttled', 'quota_exceeded', 'account_paused', 'credentials_refused', 'rejected', 'request_invalid', 'provider_unreachable', 'call_too_late', 'recipient_suppressed', 'provider_suppression_list', 'tenant_disabled', 'sender_disabled', 'credential_revoked', 'scope_missing', 'provider_paused', 'expired', 'attempts_exhausted', 'lease_expired', 'operator')",
            name=op.f("ck_attempts_reason"),
        ),
        sa.CheckConstraint("(begun_at IS NULL) = (begin_id IS NULL)", name=op.f("ck_attempts_begin_has_its_id")),
        sa.CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name=op.f("ck_attempts_outcome_has_its_time")),
        sa.CheckConstraint("closed_at IS NULL OR outcome IS NOT NULL", name=op.f("ck_attempts_closed_has_its_outcome")),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=op.f("fk_attempts_message_id")),
        sa.PrimaryKeyConstraint("message_id", "number", name=op.f("pk_attempts")),
        sa.UniqueConstraint("message_id", "claim_id", name="uq_attempts_message_id_claim_id"),
        sa.UniqueConstraint("message_id", "token", name="uq_attempts_message_id_token"),
    )
    op.create_index(
        "ix_attempts_lease",
        "attempts",
        ["lease_expires_at"],
        unique=False,
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_index("ix_attempts_provider_message_id", "attempts", ["provider", "provider_message_id"], unique=False)
    op.create_index(
        "uq_attempts_open", "attempts", ["message_id"], unique=True, postgresql_where=sa.text("closed_at IS NULL")
    )
    op.create_table(
        "message_contents",
        sa.Column("message_id", sa.UUID(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("html", sa.Text(), nullable=True),
        sa.Column(
            "headers",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="[[name, value], ...] in the order given.",
        ),
        sa.Column(
            "reply_to", postgresql.JSONB(astext_type=sa.Text()), nullable=False, comment="Resolved: what goes out."
        ),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=op.f("fk_message_contents_message_id")),
        sa.PrimaryKeyConstraint("message_id", name=op.f("pk_message_contents")),
    )
    op.create_table(
        "operator_audit",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("credential_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("message_id", sa.UUID(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("provider_message_id", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "transaction_id",
            sa.BigInteger(),
            server_default=sa.text("pg_current_xact_id()::text::bigint"),
            nullable=False,
            comment="Ties a decision to the move that it orders.",
        ),
        sa.CheckConstraint("decision IN ('accepted', 'resend', 'abandon')", name=op.f("ck_operator_audit_decision")),
        sa.CheckConstraint(
            "decision IS NULL OR (message_id IS NOT NULL AND attempt IS NOT NULL)",
            name=op.f("ck_operator_audit_decision_is_about"),
        ),
        sa.ForeignKeyConstraint(["credential_id"], ["credentials.id"], name=op.f("fk_operator_audit_credential_id")),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=op.f("fk_operator_audit_message_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_operator_audit_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operator_audit")),
    )
    op.create_index("ix_operator_audit_message_id", "operator_audit", ["message_id"], unique=False)
    op.create_table(
        "recipients",
        sa.Column("message_id", sa.UUID(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False, comment="As given: where the mail goes."),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("address_hash", sa.LargeBinary(), nullable=False, comment="Keyed hash of the folded address."),
        sa.Column("redacted", sa.Text(), nullable=False, comment="What may be shown."),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("outcome_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('delivered', 'bounced', 'complained', 'suppressed', 'rejected')",
            name=op.f("ck_recipients_outcome"),
        ),
        sa.CheckConstraint("role <> 'to' OR position = 0", name=op.f("ck_recipients_one_primary")),
        sa.CheckConstraint("role IN ('to', 'cc', 'bcc')", name=op.f("ck_recipients_role")),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=op.f("fk_recipients_message_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_recipients_tenant_id")),
        sa.PrimaryKeyConstraint("message_id", "role", "position", name=op.f("pk_recipients")),
    )
    op.create_index("ix_recipients_tenant_id_address_hash", "recipients", ["tenant_id", "address_hash"], unique=False)
    op.create_table(
        "timeline",
        sa.Column("message_id", sa.UUID(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("from_state", sa.Text(), nullable=True),
        sa.Column("to_state", sa.Text(), nullable=True),
        sa.Column("move", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.CheckConstraint("actor IN ('client', 'machine', 'provider', 'operator')", name=op.f("ck_timeline_actor")),
        sa.CheckConstraint(
            "reason IN ('provider_timeout', 'connection_lost', 'provider_error', 'response_unreadable', 'throttled', 'quota_exceeded', 'account_paused', 'credentials_refused', 'rejected', 'request_invalid', 'provider_unreachable', 'call_too_late', 'recipient_suppressed', 'provider_suppression_list', 'tenant_disabled', 'sender_disabled', 'credential_revoked', 'scope_missing', 'provider_paused', 'expired', 'attempts_exhausted', 'lease_expired', 'operator')",
            name=op.f("ck_timeline_reason"),
        ),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_timeline_seq_from_one")),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=op.f("fk_timeline_message_id")),
        sa.PrimaryKeyConstraint("message_id", "seq", name=op.f("pk_timeline")),
    )
    op.create_table(
        "evidence",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("message_id", sa.UUID(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=True),
        sa.Column("provider_event_id", sa.UUID(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("provider_message_id", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.CheckConstraint("(kind = 'event') = (event_type IS NOT NULL)", name=op.f("ck_evidence_event_has_its_type")),
        sa.CheckConstraint(
            "(kind = 'late_result') = (outcome IS NOT NULL)", name=op.f("ck_evidence_result_has_its_outcome")
        ),
        sa.CheckConstraint(
            "event_type IN ('send', 'reject', 'delivery', 'bounce', 'complaint', 'delay', 'soft_bounce', 'other')",
            name=op.f("ck_evidence_event_type"),
        ),
        sa.CheckConstraint("kind IN ('event', 'late_result')", name=op.f("ck_evidence_kind")),
        sa.CheckConstraint(
            "outcome IN ('accepted', 'refused', 'rejected', 'unknown', 'not_submitted', 'not_begun', 'released')",
            name=op.f("ck_evidence_outcome"),
        ),
        sa.CheckConstraint(
            "reason IN ('provider_timeout', 'connection_lost', 'provider_error', 'response_unreadable', 'throttled', 'quota_exceeded', 'account_paused', 'credentials_refused', 'rejected', 'request_invalid', 'provider_unreachable', 'call_too_late', 'recipient_suppressed', 'provider_suppression_list', 'tenant_disabled', 'sender_disabled', 'credential_revoked', 'scope_missing', 'provider_paused', 'expired', 'attempts_exhausted', 'lease_expired', 'operator')",
            name=op.f("ck_evidence_reason"),
        ),
        sa.ForeignKeyConstraint(
            ["message_id", "attempt"], ["attempts.message_id", "attempts.number"], name="fk_evidence_attempt"
        ),
        sa.ForeignKeyConstraint(
            ["provider_event_id"], ["provider_events.id"], name=op.f("fk_evidence_provider_event_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
    )
    op.create_index("ix_evidence_message_id_attempt", "evidence", ["message_id", "attempt"], unique=False)
    op.create_index("uq_evidence_provider_event_id", "evidence", ["provider_event_id"], unique=True)
    for statement in GUARDS:
        op.get_bind().exec_driver_sql(statement)
    for role, privileges in GRANTS.items():
        op.execute(f"GRANT USAGE ON SCHEMA public TO {role}")
        for privilege, tables in privileges.items():
            op.execute(f"GRANT {privilege} ON {tables} TO {role}")
    op.execute("INSERT INTO providers (name) VALUES ('ses')")
