"""What the calls for tenants, keys, senders and templates need, and a rate limit for each tenant."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

GRANTS = (
    ("INSERT", "tenants, credentials, senders, template_versions, rate_limits, operator_audit"),
    ("UPDATE (name, state)", "tenants"),
    ("UPDATE (scopes, expires_at, revoked_at, last_used_at, replaced_by)", "credentials"),
    ("UPDATE (address, name, reply_to, state, updated_at)", "senders"),
    ("SELECT, UPDATE", "rate_limits"),
)


def upgrade() -> None:
    op.create_table(
        "rate_limits",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column(
            "full_until",
            sa.TIMESTAMP(timezone=True),
            nullable=False,
            comment="GCRA: when all that was admitted has drained.",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_rate_limits_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_rate_limits")),
        prefixes=["UNLOGGED"],
    )
    op.alter_column("credentials", "last_used_at", comment="To the minute.")
    op.add_column(
        "credentials", sa.Column("replaced_by", sa.Text(), nullable=True, comment="The key that it was rotated to.")
    )
    op.create_foreign_key(op.f("fk_credentials_replaced_by"), "credentials", "credentials", ["replaced_by"], ["id"])
    op.alter_column(
        "template_versions",
        "text",
        nullable=True,
        comment="Null: derived from the HTML, once that is rendered.",
    )
    op.create_check_constraint(
        op.f("ck_template_versions_has_content"), "template_versions", "text IS NOT NULL OR html IS NOT NULL"
    )
    op.alter_column(
        "operator_audit",
        "credential_id",
        nullable=True,
        comment="Whose key; null at the command line, with the database at hand.",
    )
    # Not in the middle, where the code has it: Postgres adds columns at the end.
    op.add_column(
        "operator_audit",
        sa.Column("subject", sa.Text(), comment="The id of what it was done to, where that is no message."),
    )
    op.alter_column("operator_audit", "reason", nullable=True)
    op.drop_constraint(op.f("ck_operator_audit_decision_is_about"), "operator_audit")
    op.create_check_constraint(
        op.f("ck_operator_audit_decision_is_about"),
        "operator_audit",
        "decision IS NULL OR (message_id IS NOT NULL AND attempt IS NOT NULL AND credential_id IS NOT NULL"
        " AND reason IS NOT NULL)",
    )
    for privilege, tables in GRANTS:
        op.execute(f"GRANT {privilege} ON {tables} TO fencepost_api")
