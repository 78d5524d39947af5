"""`fencepost provider`: the switch of each provider."""

from typing import Annotated, Any, Final

import typer

from api.commands.client import OPERATOR, connected, segment
from api.commands.output import Json, print_one, print_page, print_table

app = typer.Typer(
    help="The switch of each provider, for operators. The key is FENCEPOST_OPERATOR_KEY, or else FENCEPOST_API_KEY.",
    no_args_is_help=True,
)

COLUMNS: Final = ("name", "state", "changed_at")

ProviderArgument = Annotated[str, typer.Argument(metavar="NAME", help="The provider's name.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the audit.")]


@app.command("list")
def list_providers(*, as_json: Json = False) -> None:
    """List the providers, and whether each is paused.

    Example: fencepost provider list
    """
    with connected(OPERATOR) as api:
        found = api.pages("/v1/operator/providers")
    if as_json:
        print_page(found, (), as_json=True)
    else:
        print_table([_shown(provider) for provider in found.data], COLUMNS)


@app.command("pause")
def pause_provider(provider: ProviderArgument, *, reason: Reason = None, as_json: Json = False) -> None:
    """Switch a provider off: calls under way end, nothing new goes out, and no attempt is used up. Age goes on.

    Example: fencepost provider pause ses --reason "SES is having an incident"
    """
    _switch(provider, "pause", reason, as_json=as_json)


@app.command("resume")
def resume_provider(provider: ProviderArgument, *, reason: Reason = None, as_json: Json = False) -> None:
    """Switch a provider on again; what waits goes out within a minute.

    Example: fencepost provider resume ses --reason "the incident is over"
    """
    _switch(provider, "resume", reason, as_json=as_json)


def _switch(provider: str, how: str, reason: str | None, *, as_json: bool) -> None:
    with connected(OPERATOR) as api:
        path = f"/v1/operator/providers/{segment(provider)}/{how}"
        _, switched = api.call("POST", path, "name", "paused", body={"reason": reason})
    print_one(switched if as_json else _shown(switched), COLUMNS, as_json=as_json)


def _shown(provider: dict[str, Any]) -> dict[str, Any]:
    return {**provider, "state": "paused" if provider.get("paused") else "active"}
