"""`fencepost ambiguous`: what waits for a person, and what the person decides."""

from typing import Annotated, Any, Final, Literal

import typer

from api.commands.client import OPERATOR, connected, once, segment
from api.commands.output import Json, print_one, print_page, print_table

app = typer.Typer(
    help="Messages of which nobody knows whether the provider took them, for operators. The key is"
    " FENCEPOST_OPERATOR_KEY, or else FENCEPOST_API_KEY.",
    no_args_is_help=True,
)

WAITING: Final = ("id", "tenant", "to", "since", "attempt", "evidence")
RESOLVED: Final = ("id", "state", "updated_at")


@app.command("list")
def list_ambiguous(*, as_json: Json = False) -> None:
    """List what waits for a person, of all tenants, oldest first, with the evidence that there is.

    Example: fencepost ambiguous list
    """
    with connected(OPERATOR) as api:
        found = api.pages("/v1/operator/ambiguous")
    if as_json:
        print_page(found, (), as_json=True)
    else:
        print_table([_waiting(message) for message in found.data], WAITING)


@app.command("resolve")
def resolve_message(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message's id.")],
    *,
    attempt: Annotated[int, typer.Option(min=1, metavar="N", help="The attempt in doubt, as `list` shows it.")],
    decision: Annotated[
        Literal["accepted", "resend", "abandon"],
        typer.Option(help="accepted: the provider took it; resend: send it again; abandon: send nothing more."),
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the audit; no addresses.")],
    acknowledge_duplicate_risk: Annotated[
        bool, typer.Option("--acknowledge-duplicate-risk", help="With resend: the recipient may get it twice.")
    ] = False,
    provider_message_id: Annotated[
        str | None, typer.Option(metavar="ID", help="With accepted: what the provider calls it, for the audit.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Decide about an ambiguous message. Nothing is asked; where somebody else decided meanwhile, this changes nothing.

    Example: fencepost ambiguous resolve ID --attempt 1 --decision resend --reason "..." --acknowledge-duplicate-risk
    """
    body: dict[str, Any] = {
        "decision": decision,
        "attempt": attempt,
        "reason": reason,
        "acknowledge_duplicate_risk": acknowledge_duplicate_risk,
        "provider_message_id": provider_message_id,
    }
    path = f"/v1/operator/messages/{segment(message_id)}/resolution"
    with connected(OPERATOR) as api, once("fencepost ambiguous list"):
        _, message = api.call("POST", path, "id", "state", body=body)
    print_one(message, RESOLVED, as_json=as_json)


def _waiting(message: dict[str, Any]) -> dict[str, Any]:
    ambiguity = message.get("ambiguity") or {}
    recipients = message.get("recipients") or [{}]
    return {
        **message,
        "to": recipients[0].get("address"),
        "since": ambiguity.get("since"),
        "attempt": ambiguity.get("attempt"),
        "evidence": [piece.get("kind") for piece in ambiguity.get("evidence") or ()],
    }
