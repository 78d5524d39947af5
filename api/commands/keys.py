"""`fencepost key`: a tenant's API keys over the API, and operators' own with the database at hand."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from api.commands.client import OPERATOR, Page, connected, once, segment
from api.commands.options import read_moment
from api.commands.output import Json, print_json, print_page
from api.commands.refusals import BAD_USE, refuse, say

app = typer.Typer(
    help="API keys, for operators. The key is FENCEPOST_OPERATOR_KEY, or else FENCEPOST_API_KEY; --operator needs"
    " FENCEPOST_DATABASE_URL instead (as fencepost_migrate), and to issue a key FENCEPOST_KEY_PEPPER and"
    " FENCEPOST_ENVIRONMENT.",
    no_args_is_help=True,
)

COLUMNS: Final = ("id", "state", "scopes", "created_at", "expires_at", "last_used_at", "replaced_by")

TenantOption = Annotated[str | None, typer.Option("--tenant", metavar="ID", help="Whose key it is.")]
OperatorOption = Annotated[
    bool, typer.Option("--operator", help="An operator's key, directly on the database; how the first one is made.")
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, not the key.")]


@app.command("issue")
def issue_key(
    *,
    tenant: TenantOption = None,
    operator: OperatorOption = False,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="S",
            help="What it may do; may be given again: messages:send, messages:read, templates, senders, suppressions,"
            " content:read.",
        ),
    ] = None,
    expires_at: Annotated[str | None, typer.Option(metavar="TIME", help="Such as 2030-01-31T12:00:00Z.")] = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is shown this once: it alone goes to stdout, all words go to stderr.

    Example: fencepost key issue --tenant ID --scope messages:send --scope messages:read
    """
    _require_one(tenant, operator=operator)
    until = read_moment("--expires-at", expires_at)
    if operator:
        from api.commands.operator_keys import issue

        if scopes:
            refuse("--scope: an operator's key has no other scope than operator", status=BAD_USE)
        _show_once(issue(until), as_json=as_json)
        return
    if not scopes:
        refuse("--scope: say at least one", status=BAD_USE)
    body = {"scopes": scopes, "expires_at": until}
    with connected(OPERATOR) as api, once("fencepost key list"):
        _, made = api.call("POST", _keys_of(tenant), "id", "key", body=body)
    _show_once(made, as_json=as_json)


@app.command("list")
def list_keys(*, tenant: TenantOption = None, operator: OperatorOption = False, as_json: Json = False) -> None:
    """List keys, never with their secrets.

    Example: fencepost key list --tenant ID
    """
    _require_one(tenant, operator=operator)
    if operator:
        from api.commands.operator_keys import list_all

        print_page(Page(data=list_all(), next_cursor=None), COLUMNS, as_json=as_json)
        return
    with connected(OPERATOR) as api:
        print_page(api.pages(_keys_of(tenant)), COLUMNS, as_json=as_json)


@app.command("rotate")
def rotate_key(
    key_id: KeyArgument,
    *,
    tenant: Annotated[str, typer.Option("--tenant", metavar="ID", help="Whose key it is.")],
    overlap_seconds: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How long the old key still holds; left out: the API's own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the key that takes another's place, with the same scopes. It is shown this once, on stdout alone.

    Example: fencepost key rotate --tenant ID KEY_ID --overlap-seconds 86400
    """
    body = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
    with connected(OPERATOR) as api, once("fencepost key list"):
        _, made = api.call("POST", f"{_keys_of(tenant)}/{segment(key_id)}/rotate", "id", "key", body=body)
    _show_once(made, as_json=as_json)


@app.command("revoke")
def revoke_key(
    key_id: KeyArgument, *, tenant: TenantOption = None, operator: OperatorOption = False, as_json: Json = False
) -> None:
    """End a key at once. What it has queued is not sent any more.

    Example: fencepost key revoke --tenant ID KEY_ID
    """
    _require_one(tenant, operator=operator)
    if operator:
        from api.commands.operator_keys import revoke

        revoke(key_id)
    else:
        with connected(OPERATOR) as api:
            api.call("DELETE", f"{_keys_of(tenant)}/{segment(key_id)}")
    say("the key is revoked")
    if as_json:
        print_json({"id": key_id, "state": "revoked"})


def _require_one(tenant: str | None, *, operator: bool) -> None:
    if (tenant is None) is not operator:
        refuse("say whose key it is: either --tenant ID or --operator", status=BAD_USE)


def _keys_of(tenant: str | None) -> str:
    return f"/v1/tenants/{segment(tenant or '')}/keys"


def _show_once(made: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a new key alone, so that it can be piped into where it is kept."""
    scopes = ", ".join(made.get("scopes") or ())
    say(f"key {made['id']} ({scopes}), expires {made.get('expires_at') or 'never'}; it is shown this once")
    if as_json:
        print_json(made)
    else:
        print(made["key"], flush=True)
