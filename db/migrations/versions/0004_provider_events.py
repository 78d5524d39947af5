"""What provider events need: repeats under another id, those without a message, subscriptions; and suppressions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

GRANTS = (
    # The HTTP door of provider events is the API's, so it does what the consumer may.
    (
        "SELECT, INSERT",
        "provider_events, evidence, suppressions, unmatched_events, event_subscriptions",
        "fencepost_api, fencepost_events",
    ),
    ("SELECT (address, address_hash)", "recipients", "fencepost_api"),
    ("UPDATE (delivered_at)", "messages", "fencepost_api"),
    ("UPDATE (outcome, reason, ended_at, closed_at)", "attempts", "fencepost_api"),
    ("UPDATE (outcome, outcome_at)", "recipients", "fencepost_api"),
    ("UPDATE (removed_at, removed_reason)", "suppressions", "fencepost_api"),
    ("UPDATE (confirmed_at, subscription_arn)", "event_subscriptions", "fencepost_api"),
    # Whoever takes an event in may find the message of one that waits; the sweep looks for all of them.
    ("UPDATE, DELETE", "unmatched_events", "fencepost_api, fencepost_events, fencepost_worker"),
    ("SELECT", "provider_events, unmatched_events, suppressions", "fencepost_worker"),
    ("INSERT", "suppressions", "fencepost_worker"),
)


def upgrade() -> None:
    op.add_column(
        "provider_events",
        sa.Column(
            "natural_key",
            sa.Text(),
            nullable=True,
            comment="A digest of what it says: the same event under another id is a repeat.",
        ),
    )
    op.create_unique_constraint("uq_provider_events_natural_key", "provider_events", ["provider", "natural_key"])
    op.add_column(
        "suppressions", sa.Column("message_id", sa.UUID(), nullable=True, comment="Whose bounce or complaint.")
    )
    op.create_foreign_key(op.f("fk_suppressions_message_id"), "suppressions", "messages", ["message_id"], ["id"])
    op.create_index(
        "ix_suppressions_list",
        "suppressions",
        ["tenant_id", "id"],
        unique=False,
        postgresql_where=sa.text("removed_at IS NULL"),
    )
    op.create_table(
        "unmatched_events",
        sa.Column("event_id", sa.UUID(), nullable=False),
        sa.Column(
            "looks", sa.Integer(), server_default="0", nullable=False, comment="How often its message was looked for."
        ),
        sa.Column(
            "look_at",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=True,
            comment="When to look again. Null: given up, but kept.",
        ),
        sa.ForeignKeyConstraint(["event_id"], ["provider_events.id"], name=op.f("fk_unmatched_events_event_id")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_unmatched_events")),
    )
    op.create_index(
        "ix_unmatched_events_look_at",
        "unmatched_events",
        ["look_at"],
        unique=False,
        postgresql_where=sa.text("look_at IS NOT NULL"),
    )
    op.create_table(
        "event_subscriptions",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("topic_arn", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False, comment="What SNS wants back; shown to nobody."),
        sa.Column(
            "received_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("confirmed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("subscription_arn", sa.Text(), nullable=True, comment="What SNS named it once it was confirmed."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_subscriptions")),
        sa.UniqueConstraint("topic_arn", "token", name="uq_event_subscriptions_topic_arn_token"),
    )
    for privilege, tables, roles in GRANTS:
        op.execute(f"GRANT {privilege} ON {tables} TO {roles}")
