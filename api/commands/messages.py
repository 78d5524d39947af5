"""`fencepost message`: where messages stand, and how they got there."""

from typing import Annotated, Any, Final

import typer

from api.commands.client import READ, connected
from api.commands.following import LINE, follow, read_message
from api.commands.options import read_moment, read_pair
from api.commands.output import Json, cell, print_json, print_page, print_record, print_table
from api.commands.refusals import say
from db.lifecycle import State

app = typer.Typer(
    help="Messages: where they stand, and how they got there. The key is FENCEPOST_API_KEY.", no_args_is_help=True
)

COLUMNS: Final = ("id", "state", "created_at", "template", "to", "purpose", "sender")
ATTEMPT: Final = (
    "number",
    "outcome",
    "reason",
    "claimed_at",
    "begun_at",
    "ended_at",
    "provider",
    "provider_message_id",
)

MessageArgument = Annotated[str, typer.Argument(metavar="ID", help="The message's id.")]
Timeout = Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Left out: as long as it takes.")]


@app.command("show")
def show_message(message_id: MessageArgument, *, as_json: Json = False) -> None:
    """Show a message: its state, its recipients, its attempts and its timeline.

    Example: fencepost message show 0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d
    """
    with connected(READ) as api:
        message = read_message(api, message_id)
    if as_json:
        print_json(message)
        return
    print_record(_summary(message))
    for title, columns in (("recipients", ("role", "address", "outcome")), ("attempts", ATTEMPT), ("timeline", LINE)):
        if rows := message.get(title):
            print(flush=True)
            print_table(rows, columns, title=title)


@app.command("watch")
def watch_message(message_id: MessageArgument, *, timeout: Timeout = None, as_json: Json = False) -> None:
    """Print a message's timeline as it grows, until the machine has nothing more to do.

    Ends with 0 at provider_accepted and delivered; with 1 at ambiguous, suppressed, dead, hard_bounced and complained,
    and when the time is over. With --json, each line is a JSON object.

    Example: fencepost message watch 0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d --timeout 60
    """
    with connected(READ) as api:
        follow(api, read_message(api, message_id), timeout=timeout, as_json=as_json)


@app.command("list")
def list_messages(
    *,
    state: Annotated[State | None, typer.Option(help="Where they stand now.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What they are for.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME=VALUE", help="A tag that they have.")] = None,
    created_after: Annotated[str | None, typer.Option(metavar="TIME", help="Inclusive: 2030-01-31T12:00:00Z.")] = None,
    created_before: Annotated[str | None, typer.Option(metavar="TIME", help="Exclusive.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List messages, newest first. All filters hold together.

    Example: fencepost message list --state ambiguous --created-after 2030-01-31T00:00:00Z
    """
    query = {
        "state": state,
        "purpose": purpose,
        "tag": None if tag is None else ":".join(read_pair("--tag", tag)),
        "created_after": read_moment("--created-after", created_after),
        "created_before": read_moment("--created-before", created_before),
    }
    with connected(READ) as api:
        page = api.pages(
            "/v1/messages", {name: str(value) for name, value in query.items() if value is not None}, limit=limit
        )
    if as_json:
        print_page(page, (), as_json=True)
        return
    print_table([_listed(message) for message in page.data], COLUMNS)
    if page.next_cursor is not None:
        say(f"there are more than these {limit}: --limit says how many are wanted")


def _listed(message: dict[str, Any]) -> dict[str, Any]:
    recipients = message.get("recipients") or [{}]
    return {**message, **_names(message), "to": recipients[0].get("address")}


def _names(message: dict[str, Any]) -> dict[str, str]:
    template = message.get("template") or {}
    return {
        "template": f"{cell(template.get('key'))}@{cell(template.get('version'))}",
        "sender": cell((message.get("sender") or {}).get("key")),
    }


def _summary(message: dict[str, Any]) -> dict[str, Any]:
    lease, retry, ambiguity = (message.get(name) or {} for name in ("lease", "retry", "ambiguity"))
    whole = ("id", "state", "purpose", "tags", "workflow_id")
    times = ("created_at", "updated_at", "provider_accepted_at", "delivered_at")
    return {
        **{name: message.get(name) for name in whole},
        **_names(message),
        **{name: message.get(name) for name in times},
        "lease_expires_at": lease.get("expires_at"),
        "retry_due_at": retry.get("due_at"),
        "ambiguous_since": ambiguity.get("since"),
    }
