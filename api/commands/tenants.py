"""`fencepost tenant`: tenants, for operators."""

from typing import Annotated, Final

import typer

from api.commands.client import OPERATOR, connected, once, segment
from api.commands.output import Json, print_one, print_page

app = typer.Typer(
    help="Tenants, for operators. The key is FENCEPOST_OPERATOR_KEY, or else FENCEPOST_API_KEY.", no_args_is_help=True
)

COLUMNS: Final = ("id", "name", "state", "created_at")

TenantArgument = Annotated[str, typer.Argument(metavar="ID", help="The tenant's id.")]


@app.command("create")
def create_tenant(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call the tenant.")],
    *,
    as_json: Json = False,
) -> None:
    """Make a tenant; `fencepost key issue --tenant ID` gives it a key.

    Example: fencepost tenant create "Acme Ltd"
    """
    with connected(OPERATOR) as api, once("fencepost tenant list"):
        _, tenant = api.call("POST", "/v1/tenants", "id", body={"name": name})
    print_one(tenant, COLUMNS, as_json=as_json)


@app.command("list")
def list_tenants(*, as_json: Json = False) -> None:
    """List all tenants.

    Example: fencepost tenant list --json
    """
    with connected(OPERATOR) as api:
        print_page(api.pages("/v1/tenants"), COLUMNS, as_json=as_json)


@app.command("disable")
def disable_tenant(tenant: TenantArgument, *, as_json: Json = False) -> None:
    """Switch a tenant off: it may read and replay, makes nothing new, and what it has queued is not sent.

    Example: fencepost tenant disable 0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d
    """
    _switch(tenant, "disabled", as_json=as_json)


@app.command("enable")
def enable_tenant(tenant: TenantArgument, *, as_json: Json = False) -> None:
    """Switch a tenant on again.

    Example: fencepost tenant enable 0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d
    """
    _switch(tenant, "active", as_json=as_json)


def _switch(tenant: str, state: str, *, as_json: bool) -> None:
    with connected(OPERATOR) as api:
        _, changed = api.call("PATCH", f"/v1/tenants/{segment(tenant)}", "id", body={"state": state})
        print_one(changed, COLUMNS, as_json=as_json)
