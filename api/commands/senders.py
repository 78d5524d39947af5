"""`fencepost sender`: whom a tenant's mail comes from."""

from http import HTTPStatus
from typing import Annotated, Final

import typer

from api.commands.client import SENDERS, connected, segment
from api.commands.output import Json, print_one, print_page
from api.commands.refusals import say

app = typer.Typer(help="Senders: whom mail comes from. The key is FENCEPOST_API_KEY.", no_args_is_help=True)

COLUMNS: Final = ("key", "state", "address", "name", "reply_to", "updated_at")

SenderArgument = Annotated[str, typer.Argument(metavar="KEY", help="The sender's key.")]


@app.command("create")
def create_sender(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="What messages will name it by; lower-case letters, digits, - and _.")
    ],
    *,
    address: Annotated[str, typer.Option(metavar="A", help="The address that mail comes from: a@b.c")],
    name: Annotated[str | None, typer.Option(metavar="N", help="The name beside the address.")] = None,
    reply_to: Annotated[
        list[str] | None, typer.Option("--reply-to", metavar="A", help="Where replies go; may be given again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a sender. Again with the same words is no fault; with others it is one.

    Example: fencepost sender create billing --address billing@example.com --name "Acme Billing"
    """
    body = {"key": key, "address": address, "name": name, "reply_to": reply_to or []}
    with connected(SENDERS) as api:
        status, sender = api.call("POST", "/v1/senders", "key", body=body)
    if status == HTTPStatus.OK:
        say("this sender was there already, just like this")
    print_one(sender, COLUMNS, as_json=as_json)


@app.command("list")
def list_senders(*, as_json: Json = False) -> None:
    """List the tenant's senders.

    Example: fencepost sender list
    """
    with connected(SENDERS) as api:
        print_page(api.pages("/v1/senders"), COLUMNS, as_json=as_json)


@app.command("disable")
def disable_sender(sender: SenderArgument, *, as_json: Json = False) -> None:
    """Switch a sender off: nothing new is taken for it, and what is queued is not sent.

    Example: fencepost sender disable billing
    """
    _switch(sender, "disabled", as_json=as_json)


@app.command("enable")
def enable_sender(sender: SenderArgument, *, as_json: Json = False) -> None:
    """Switch a sender on again.

    Example: fencepost sender enable billing
    """
    _switch(sender, "active", as_json=as_json)


def _switch(sender: str, state: str, *, as_json: bool) -> None:
    with connected(SENDERS) as api:
        _, changed = api.call("PATCH", f"/v1/senders/{segment(sender)}", "key", body={"state": state})
        print_one(changed, COLUMNS, as_json=as_json)
