"""What operators' calls need: to move an ambiguous message as a person decided, and to switch a provider."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

GRANTS = (
    (
        "UPDATE (state, due_at, age_from, attempts_used, run_requested_at, provider_accepted_at, updated_at)",
        "messages",
        "fencepost_api",
    ),
    ("UPDATE (paused, changed_at)", "providers", "fencepost_api"),
    ("SELECT (id)", "operator_audit", "fencepost_api"),
    # The trigger on messages looks for a decision as whoever moves the message. Where Postgres plans that look for any
    # states at all (a generic plan), it asks for the right to it on moves that need no decision, too.
    (
        "SELECT (message_id, attempt, decision, transaction_id)",
        "operator_audit",
        "fencepost_api, fencepost_worker, fencepost_events",
    ),
)


def upgrade() -> None:
    for privilege, table, roles in GRANTS:
        op.execute(f"GRANT {privilege} ON {table} TO {roles}")
