"""`fencepost send`: one command to the API, under an idempotency key that is known before anything leaves."""

import re
import shlex
import uuid
from http import HTTPStatus
from typing import Annotated, Any, Final

import typer

from api.commands.client import READ, SEND, Api, RefusedError, connected
from api.commands.following import follow
from api.commands.messages import Timeout
from api.commands.options import read_context, read_pairs, refuse_use
from api.commands.output import Json, cell, print_one
from api.commands.refusals import refuse, say

COLUMNS: Final = ("id", "state", "created_at")
#: Printable ASCII; spaces at the ends would be lost on the way, since HTTP has none there.
_IDEMPOTENCY_KEY: Final = re.compile(r"[!-~]([ -~]{0,253}[!-~])?")


def send(
    *,
    to: Annotated[str, typer.Option(metavar="A", help="The recipient: a@b.c, or 'Ada <a@b.c>'.")],
    sender: Annotated[str, typer.Option(metavar="KEY", help="The sender's key.")],
    template: Annotated[str, typer.Option(metavar="KEY@VERSION", help="Such as welcome@1.")],
    context: Annotated[str | None, typer.Option(metavar="JSON", help="The template's values.")] = None,
    context_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The same from a file; - is standard input.")
    ] = None,
    cc: Annotated[list[str] | None, typer.Option(metavar="A", help="May be given again, as may the next four.")] = None,
    bcc: Annotated[list[str] | None, typer.Option(metavar="A")] = None,
    reply_to: Annotated[list[str] | None, typer.Option(metavar="A", help="Left out: the sender's own.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Such as X-Order=17.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Such as order=17.")] = None,
    purpose: Annotated[str | None, typer.Option(help="Left out: the template's own.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="K", help="Left out: a new one, which is told before anything is sent.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Then follow it, as `message watch` does.")] = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Send a message. The same words again under the same idempotency key are the same message, sent once.

    Where no answer comes, nobody knows whether the message was accepted: repeating the command under its key is safe.
    With --watch --json, the message is the first line, and its timeline follows. The key is FENCEPOST_API_KEY.

    Example: fencepost send --to ada@example.com --sender demo --template welcome@1 --context '{"name": "Ada"}'
    """
    body: dict[str, Any] = {
        "to": to,
        "sender": sender,
        "template": _read_template(template),
        "context": read_context(context, context_file),
        "cc": cc or [],
        "bcc": bcc or [],
        "reply_to": reply_to or [],
        "headers": read_pairs("--header", header or ()),
        "tags": read_pairs("--tag", tag or ()),
        "purpose": purpose,
    }
    if timeout is not None and not watch:
        refuse_use("--timeout", "this goes with --watch")
    with connected(*((SEND, READ) if watch else (SEND,))) as api:
        message = _post(api, body, _choose_key(idempotency_key))
        if not watch or as_json:
            print_one(message, COLUMNS, as_json=as_json)
        if watch:
            say(f"the message is {cell(message['id'])}")
            follow(api, message, timeout=timeout, as_json=as_json)


def _read_template(text: str) -> dict[str, Any]:
    key, sign, version = text.rpartition("@")
    if not sign or not re.fullmatch("[0-9]{1,10}", version):
        refuse_use("--template", "this has to look like KEY@VERSION, such as welcome@1")
    return {"key": key, "version": int(version)}


def _choose_key(given: str | None) -> str:
    if given is None:
        made = str(uuid.uuid4())
        say(f"the idempotency key is {made}; the same command with --idempotency-key {made} is safe to repeat")
        return made
    if not _IDEMPOTENCY_KEY.fullmatch(given):
        refuse_use("--idempotency-key", "this is 1 to 255 printable ASCII characters, with no space at the ends")
    return given


def _post(api: Api, body: dict[str, Any], key: str) -> dict[str, Any]:
    try:
        status, message = api.call(
            "POST", "/v1/messages", "id", "state", "timeline", body=body, headers={"Idempotency-Key": key}
        )
    except RefusedError as refusal:
        if not refusal.away:
            raise
        say(refusal.line)
        refuse(
            f"repeating exactly this command with --idempotency-key {shlex.quote(key)} is safe: it was accepted or not,"
            " and no second mail is sent"
        )
    if status == HTTPStatus.OK:
        say("this command was accepted before; this is its message as it now stands")
    return message
