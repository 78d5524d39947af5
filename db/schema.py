"""Tables, constraints and indexes. Each constraint has a name; triggers are in `db/guards.py`."""

from collections.abc import Iterable
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from db.lifecycle import CLAIMABLE, Actor, State
from db.outcomes import EventType, EvidenceKind, Outcome, Reason, RecipientOutcome, SuppressionReason

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

TIME = sa.TIMESTAMP(timezone=True)


def _now() -> sa.TextClause:
    return sa.text("clock_timestamp()")


def _one_of(column: str, values: type[StrEnum] | Iterable[str], name: str) -> sa.CheckConstraint:
    """Build the CHECK that a column holds one of a closed list (SQLAlchemy's own Enum makes none)."""
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=name)


tenants = sa.Table(
    "tenants",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="active"),
    sa.Column("created_at", TIME, nullable=False, server_default=_now()),
    sa.CheckConstraint("id ~ '^[a-z0-9-]{1,64}$'", name="id_shape"),
    _one_of("state", ("active", "disabled"), "state"),
)

credentials = sa.Table(
    "credentials",
    metadata,
    sa.Column("id", sa.Text, primary_key=True, comment="The public half of the key; safe to log."),
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id"), comment="Null for an operator's key."),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, comment="HMAC-SHA-256 of the secret half."),
    sa.Column("scopes", ARRAY(sa.Text), nullable=False),
    sa.Column("expires_at", TIME),
    sa.Column("revoked_at", TIME),
    sa.Column("last_used_at", TIME, comment="To the minute."),
    sa.Column("created_at", TIME, nullable=False, server_default=_now()),
    sa.Column("replaced_by", sa.Text, sa.ForeignKey("credentials.id"), comment="The key that it was rotated to."),
    sa.CheckConstraint("tenant_id IS NOT NULL OR scopes = ARRAY['operator']", name="operator_has_no_tenant"),
    sa.CheckConstraint("tenant_id IS NULL OR NOT 'operator' = ANY (scopes)", name="tenant_is_no_operator"),
    sa.Index("ix_credentials_tenant_id", "tenant_id"),
)

senders = sa.Table(
    "senders",
    metadata,
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id"), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("name", sa.Text),
    sa.Column("reply_to", JSONB, nullable=False, server_default=sa.text("'[]'::jsonb")),
    sa.Column("state", sa.Text, nullable=False, server_default="active"),
    sa.Column("created_at", TIME, nullable=False, server_default=_now()),
    sa.Column("updated_at", TIME, nullable=False, server_default=_now()),
    _one_of("state", ("active", "disabled"), "state"),
)

template_versions = sa.Table(
    "template_versions",
    metadata,
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id"), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("text", sa.Text, comment="Null: derived from the HTML, once that is rendered."),
    sa.Column("html", sa.Text),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("context_schema", JSONB, nullable=False),
    sa.Column("created_at", TIME, nullable=False, server_default=_now()),
    sa.CheckConstraint("text IS NOT NULL OR html IS NOT NULL", name="has_content"),
    sa.CheckConstraint("version >= 1", name="version_from_one"),
)

rate_limits = sa.Table(
    "rate_limits",
    metadata,
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id"), primary_key=True),
    sa.Column("full_until", TIME, nullable=False, comment="GCRA: when all that was admitted has drained."),
    # What is lost in a crash is one burst's worth of counting.
    prefixes=["UNLOGGED"],
)

providers = sa.Table(
    "providers",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("changed_at", TIME, nullable=False, server_default=_now()),
)

messages = sa.Table(
    "messages",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("idempotency_key", sa.Text, nullable=False),
    sa.Column("request_hash", sa.Text, nullable=False),
    sa.Column("hash_version", sa.SmallInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default=State.QUEUED.value),
    sa.Column(
        "token", sa.BigInteger, nullable=False, server_default="0", comment="Fencing token; each claim adds one."
    ),
    sa.Column("came_from", sa.Text, comment="The state before the claim; where a release goes back to."),
    sa.Column("due_at", TIME, nullable=False, server_default=_now()),
    sa.Column("age_from", TIME, nullable=False, server_default=_now(), comment="Intake, or the last resend."),
    sa.Column("attempts_used", sa.Integer, nullable=False, server_default="0", comment="Begun since age_from."),
    sa.Column("run_requested_at", TIME, comment="When the sweep last asked Temporal for a run."),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("template_key", sa.Text, nullable=False),
    sa.Column("template_version", sa.Integer, nullable=False),
    sa.Column("template_purpose", sa.Text, nullable=False, comment="The default taken at intake."),
    sa.Column("sender_key", sa.Text, nullable=False),
    sa.Column("sender_address", sa.Text, nullable=False, comment="Taken from the sender at intake."),
    sa.Column("sender_name", sa.Text, comment="Taken from the sender at intake."),
    sa.Column("sender_reply_to", JSONB, nullable=False, comment="The sender's default at intake, used or not."),
    sa.Column("credential_id", sa.Text, sa.ForeignKey("credentials.id"), nullable=False),
    sa.Column("provider", sa.Text, sa.ForeignKey("providers.name"), nullable=False),
    sa.Column("tags", JSONB, nullable=False),
    sa.Column("provider_accepted_at", TIME),
    sa.Column("delivered_at", TIME),
    sa.Column("created_at", TIME, nullable=False, server_default=_now()),
    sa.Column("updated_at", TIME, nullable=False, server_default=_now()),
    sa.UniqueConstraint("tenant_id", "idempotency_key", name="uq_messages_tenant_id_idempotency_key"),
    sa.ForeignKeyConstraint(
        ["tenant_id", "template_key", "template_version"],
        ["template_versions.tenant_id", "template_versions.key", "template_versions.version"],
        name="fk_messages_template",
    ),
    sa.ForeignKeyConstraint(
        ["tenant_id", "sender_key"], ["senders.tenant_id", "senders.key"], name="fk_messages_sender"
    ),
    _one_of("state", State, "state"),
    sa.CheckConstraint("request_hash ~ '^v[0-9]+:[0-9a-f]{64}$'", name="request_hash_shape"),
    sa.CheckConstraint("octet_length(idempotency_key) BETWEEN 1 AND 255", name="idempotency_key_length"),
    sa.CheckConstraint("token >= 0 AND attempts_used >= 0", name="counters"),
    _one_of("came_from", CLAIMABLE, "came_from"),
    sa.CheckConstraint("state <> 'leased' OR came_from IS NOT NULL", name="leased_came_from"),
    sa.CheckConstraint(
        "state NOT IN ('provider_accepted', 'delivered', 'hard_bounced', 'complained')"
        " OR provider_accepted_at IS NOT NULL",
        name="accepted_has_its_time",
    ),
    sa.CheckConstraint("state <> 'delivered' OR delivered_at IS NOT NULL", name="delivered_has_its_time"),
    # The list, newest first, and with each of its filters.
    sa.Index("ix_messages_list", "tenant_id", "created_at", "id"),
    sa.Index("ix_messages_list_state", "tenant_id", "state", "created_at", "id"),
    sa.Index("ix_messages_list_purpose", "tenant_id", "purpose", "created_at", "id"),
    sa.Index("ix_messages_tags", "tags", postgresql_using="gin", postgresql_ops={"tags": "jsonb_path_ops"}),
    # What the sweep starts, and what waits for a person.
    sa.Index("ix_messages_due", "due_at", "id", postgresql_where=sa.text("state IN ('queued', 'retryable')")),
    sa.Index("ix_messages_ambiguous", "updated_at", "id", postgresql_where=sa.text("state = 'ambiguous'")),
)

message_contents = sa.Table(
    "message_contents",
    metadata,
    sa.Column("message_id", UUID(as_uuid=True), sa.ForeignKey("messages.id"), primary_key=True),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("html", sa.Text),
    sa.Column("headers", JSONB, nullable=False, comment="[[name, value], ...] in the order given."),
    sa.Column("reply_to", JSONB, nullable=False, comment="Resolved: what goes out."),
)

recipients = sa.Table(
    "recipients",
    metadata,
    sa.Column("message_id", UUID(as_uuid=True), sa.ForeignKey("messages.id"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("position", sa.SmallInteger, primary_key=True),
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("address", sa.Text, nullable=False, comment="As given: where the mail goes."),
    sa.Column("name", sa.Text),
    sa.Column("address_hash", sa.LargeBinary, nullable=False, comment="Keyed hash of the folded address."),
    sa.Column("redacted", sa.Text, nullable=False, comment="What may be shown."),
    sa.Column("outcome", sa.Text),
    sa.Column("outcome_at", TIME),
    _one_of("role", ("to", "cc", "bcc"), "role"),
    _one_of("outcome", RecipientOutcome, "outcome"),
    sa.CheckConstraint("role <> 'to' OR position = 0", name="one_primary"),
    sa.Index("ix_recipients_tenant_id_address_hash", "tenant_id", "address_hash"),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("message_id", UUID(as_uuid=True), sa.ForeignKey("messages.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, comment="From 1; what people and provider tags see."),
    sa.Column("token", sa.BigInteger, nullable=False, comment="The fencing token of its claim; shown to nobody."),
    sa.Column("claim_id", sa.Text, nullable=False),
    sa.Column("lease_owner", sa.Text, nullable=False),
    sa.Column("claimed_at", TIME, nullable=False, server_default=_now()),
    sa.Column("lease_expires_at", TIME, nullable=False),
    sa.Column("begin_id", UUID(as_uuid=True)),
    sa.Column("begun_at", TIME),
    sa.Column("outcome", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("provider", sa.Text),
    sa.Column("provider_message_id", sa.Text),
    sa.Column("provider_request_id", sa.Text),
    sa.Column("provider_code", sa.Text),
    sa.Column("ended_at", TIME),
    sa.Column("closed_at", TIME),
    sa.UniqueConstraint("message_id", "token", name="uq_attempts_message_id_token"),
    sa.UniqueConstraint("message_id", "claim_id", name="uq_attempts_message_id_claim_id"),
    _one_of("outcome", Outcome, "outcome"),
    _one_of("reason", Reason, "reason"),
    sa.CheckConstraint("(begun_at IS NULL) = (begin_id IS NULL)", name="begin_has_its_id"),
    sa.CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name="outcome_has_its_time"),
    sa.CheckConstraint("closed_at IS NULL OR outcome IS NOT NULL", name="closed_has_its_outcome"),
    sa.CheckConstraint(
        "outcome IS NULL OR (begun_at IS NULL) = (outcome IN ('not_begun', 'released'))", name="outcome_fits_begin"
    ),
    sa.CheckConstraint(
        "outcome IS DISTINCT FROM 'accepted' OR provider_message_id IS NOT NULL", name="accepted_has_its_id"
    ),
    sa.Index("uq_attempts_open", "message_id", unique=True, postgresql_where=sa.text("closed_at IS NULL")),
    sa.Index("ix_attempts_lease", "lease_expires_at", postgresql_where=sa.text("closed_at IS NULL")),
    sa.Index("ix_attempts_provider_message_id", "provider", "provider_message_id"),
)

timeline = sa.Table(
    "timeline",
    metadata,
    sa.Column("message_id", UUID(as_uuid=True), sa.ForeignKey("messages.id"), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("at", TIME, nullable=False, server_default=_now()),
    sa.Column("from_state", sa.Text),
    sa.Column("to_state", sa.Text),
    sa.Column("move", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("attempt", sa.Integer),
    sa.Column("actor", sa.Text, nullable=False),
    _one_of("actor", Actor, "actor"),
    _one_of("reason", Reason, "reason"),
    sa.CheckConstraint("seq >= 1", name="seq_from_one"),
)

suppressions = sa.Table(
    "suppressions",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("address_hash", sa.LargeBinary, nullable=False, comment="Keyed hash of the folded address."),
    sa.Column("scope", sa.Text, nullable=False, comment="'all', or a purpose."),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False, server_default=_now()),
    sa.Column("removed_at", TIME),
    sa.Column("removed_reason", sa.Text),
    sa.Column("message_id", UUID(as_uuid=True), sa.ForeignKey("messages.id"), comment="Whose bounce or complaint."),
    _one_of("reason", SuppressionReason, "reason"),
    sa.Index(
        "uq_suppressions_active",
        "tenant_id",
        "address_hash",
        "scope",
        unique=True,
        postgresql_where=sa.text("removed_at IS NULL"),
    ),
    sa.Index("ix_suppressions_list", "tenant_id", "id", postgresql_where=sa.text("removed_at IS NULL")),
)

provider_events = sa.Table(
    "provider_events",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("notification_id", sa.Text, nullable=False, comment="SNS's MessageId: one notification counts once."),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("provider_message_id", sa.Text),
    sa.Column("message_tag", sa.Text),
    sa.Column("attempt_tag", sa.Text),
    sa.Column("detail", JSONB, nullable=False, comment="Codes and classes only; addresses as keyed hashes."),
    sa.Column("occurred_at", TIME),
    sa.Column("received_at", TIME, nullable=False, server_default=_now()),
    sa.Column("natural_key", sa.Text, comment="A digest of what it says: the same event under another id is a repeat."),
    sa.UniqueConstraint("provider", "notification_id", name="uq_provider_events_notification"),
    sa.UniqueConstraint("provider", "natural_key", name="uq_provider_events_natural_key"),
    sa.Index("ix_provider_events_provider_message_id", "provider", "provider_message_id"),
    sa.Index("ix_provider_events_received_at", "received_at"),
)

evidence = sa.Table(
    "evidence",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("message_id", UUID(as_uuid=True), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("event_type", sa.Text),
    sa.Column("provider_event_id", UUID(as_uuid=True), sa.ForeignKey("provider_events.id")),
    sa.Column("outcome", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("provider_message_id", sa.Text),
    sa.Column("at", TIME, nullable=False, server_default=_now()),
    sa.ForeignKeyConstraint(
        ["message_id", "attempt"], ["attempts.message_id", "attempts.number"], name="fk_evidence_attempt"
    ),
    _one_of("kind", EvidenceKind, "kind"),
    _one_of("event_type", EventType, "event_type"),
    _one_of("outcome", Outcome, "outcome"),
    _one_of("reason", Reason, "reason"),
    sa.CheckConstraint("(kind = 'event') = (event_type IS NOT NULL)", name="event_has_its_type"),
    sa.CheckConstraint("(kind = 'late_result') = (outcome IS NOT NULL)", name="result_has_its_outcome"),
    sa.Index("ix_evidence_message_id_attempt", "message_id", "attempt"),
    sa.Index("uq_evidence_provider_event_id", "provider_event_id", unique=True),
)

unmatched_events = sa.Table(
    "unmatched_events",
    metadata,
    sa.Column("event_id", UUID(as_uuid=True), sa.ForeignKey("provider_events.id"), primary_key=True),
    sa.Column("looks", sa.Integer, nullable=False, server_default="0", comment="How often its message was looked for."),
    sa.Column("look_at", TIME, server_default=_now(), comment="When to look again. Null: given up, but kept."),
    sa.Index("ix_unmatched_events_look_at", "look_at", postgresql_where=sa.text("look_at IS NOT NULL")),
)

event_subscriptions = sa.Table(
    "event_subscriptions",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("topic_arn", sa.Text, nullable=False),
    sa.Column("token", sa.Text, nullable=False, comment="What SNS wants back; shown to nobody."),
    sa.Column("received_at", TIME, nullable=False, server_default=_now()),
    sa.Column("confirmed_at", TIME),
    sa.Column("subscription_arn", sa.Text, comment="What SNS named it once it was confirmed."),
    sa.UniqueConstraint("topic_arn", "token", name="uq_event_subscriptions_topic_arn_token"),
)

operator_audit = sa.Table(
    "operator_audit",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("at", TIME, nullable=False, server_default=_now()),
    sa.Column(
        "credential_id",
        sa.Text,
        sa.ForeignKey("credentials.id"),
        comment="Whose key; null at the command line, with the database at hand.",
    ),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, comment="The id of what it was done to, where that is no message."),
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.id")),
    sa.Column("message_id", UUID(as_uuid=True), sa.ForeignKey("messages.id")),
    sa.Column("attempt", sa.Integer),
    sa.Column("decision", sa.Text),
    sa.Column("provider_message_id", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column(
        "transaction_id",
        sa.BigInteger,
        nullable=False,
        server_default=sa.text("pg_current_xact_id()::text::bigint"),
        comment="Ties a decision to the move that it orders.",
    ),
    _one_of("decision", ("accepted", "resend", "abandon"), "decision"),
    sa.CheckConstraint(
        "decision IS NULL OR (message_id IS NOT NULL AND attempt IS NOT NULL AND credential_id IS NOT NULL"
        " AND reason IS NOT NULL)",
        name="decision_is_about",
    ),
    sa.Index("ix_operator_audit_message_id", "message_id"),
)
