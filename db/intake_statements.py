"""The statements of intake: what a command is judged by, and the one that makes it a message.

Each is a transaction by itself. The columns of what is new are bound as `new_<column>`.
"""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert

from db.lifecycle import Actor, Move, State
from db.schema import message_contents, messages, recipients, senders, template_versions, timeline

_TENANT: Final = sa.bindparam("tenant_id", type_=sa.Text)
_KEY: Final = sa.bindparam("key", type_=sa.Text)

_original: Final = (
    messages.c.id,
    messages.c.request_hash,
    messages.c.purpose,
    messages.c.template_key,
    messages.c.template_version,
    messages.c.template_purpose,
    messages.c.sender_key,
    messages.c.sender_address,
    messages.c.sender_name,
    messages.c.sender_reply_to,
)

ORIGINAL: Final[sa.Select[Any]] = sa.select(*_original).where(
    messages.c.tenant_id == _TENANT, messages.c.idempotency_key == _KEY
)
"""The message of a (tenant, idempotency key)."""

_taken: Final = ORIGINAL.subquery("taken")
_sender: Final = sa.and_(
    _taken.c.id.is_(None),
    senders.c.tenant_id == _TENANT,
    senders.c.key == sa.bindparam("sender", type_=sa.Text),
)
_template: Final = sa.and_(
    _taken.c.id.is_(None),
    template_versions.c.tenant_id == _TENANT,
    template_versions.c.key == sa.bindparam("template", type_=sa.Text),
    template_versions.c.version == sa.bindparam("version", type_=sa.Integer),
)

LOOK_UP: Final[sa.Select[Any]] = sa.select(
    *_taken.c,
    senders.c.address.label("now_address"),
    senders.c.name.label("now_name"),
    senders.c.reply_to.label("now_reply_to"),
    senders.c.state.label("now_state"),
    template_versions.c.version.label("published"),
    template_versions.c.subject,
    template_versions.c.text,
    template_versions.c.html,
    template_versions.c.purpose.label("default_purpose"),
    template_versions.c.context_schema,
).select_from(
    sa.select(sa.literal_column("1").label("command"))
    .subquery("command")
    .outerjoin(_taken, sa.true())
    .outerjoin(senders, _sender)
    .outerjoin(template_versions, _template)
)
"""All that a command is judged by, in one row: its key's message, or else its sender and its template version."""


def _new(table: sa.Table, *names: str) -> dict[str, sa.BindParameter[object]]:
    return {name: sa.bindparam(f"new_{name}", type_=table.c[name].type) for name in names}


_made: Final = (
    insert(messages)
    .values(
        _new(
            messages,
            "id",
            "tenant_id",
            "idempotency_key",
            "request_hash",
            "hash_version",
            "credential_id",
            "provider",
            "purpose",
            "template_key",
            "template_version",
            "template_purpose",
            "sender_key",
            "sender_address",
            "sender_name",
            "sender_reply_to",
            "tags",
        )
    )
    .on_conflict_do_nothing(index_elements=["tenant_id", "idempotency_key"])
    .returning(
        messages.c.id,
        messages.c.tenant_id,
        messages.c.tags,
        messages.c.due_at,
        messages.c.created_at,
        messages.c.updated_at,
    )
    .cte("made")
)
_content: Final = _new(message_contents, "subject", "text", "html", "headers", "reply_to")
_contents: Final = (
    sa.insert(message_contents)
    .from_select(["message_id", *_content], sa.select(_made.c.id, *_content.values()))
    .cte("contents")
)
RECIPIENT: Final = ("role", "position", "address", "name", "address_hash", "redacted")
"""The columns of the recipients, each bound as a list, `new_<column>_list`."""
_named: Final = (
    sa.func.unnest(
        *(sa.bindparam(f"new_{name}_list", type_=ARRAY(recipients.c[name].type)) for name in RECIPIENT),
    )
    .table_valued(*(sa.column(name, recipients.c[name].type) for name in RECIPIENT), name="named")
    .render_derived()
)
_recipients: Final = (
    sa.insert(recipients)
    .from_select(
        ["message_id", "tenant_id", *RECIPIENT],
        sa.select(_made.c.id, _made.c.tenant_id, *_named.c).join_from(_made, _named, sa.true()),
    )
    .cte("recipients_made")
)
_line: Final = (
    sa.insert(timeline)
    .from_select(
        ["message_id", "seq", "to_state", "move", "actor"],
        sa.select(
            _made.c.id,
            sa.literal_column("1"),
            sa.literal_column(f"'{State.QUEUED}'"),
            sa.literal_column(f"'{Move.INTAKE}'"),
            sa.literal_column(f"'{Actor.CLIENT}'"),
        ),
    )
    .returning(timeline.c.at)
    .cte("line")
)

ACCEPT: Final[sa.Select[Any]] = (
    sa.select(
        _made.c.tags,
        _made.c.due_at,
        _made.c.created_at,
        _made.c.updated_at,
        _line.c.at.label("line_at"),
    )
    .join_from(_made, _line, sa.true())
    .add_cte(_contents, _recipients)
)
"""Make the message, with all that belongs to it.

No row: this (tenant, key) has a message already, and nothing was written; the index made us wait until that one was
committed.
"""
