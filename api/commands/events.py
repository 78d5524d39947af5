"""`fencepost events`: the consumer of provider events, and the confirmation of a subscription."""

from typing import Annotated, Any, Final

import typer

from api.commands.client import OPERATOR, connected, segment
from api.commands.output import Json, print_one, print_page
from api.commands.refusals import refuse

app = typer.Typer()

COLUMNS: Final = ("id", "topic", "received_at", "confirmed_at")

SubscriptionArgument = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="Which one, of those that `--list` shows; without it, the one that waits."),
]


@app.command("confirm")
def confirm_subscription(
    subscription: SubscriptionArgument = None,
    *,
    listing: Annotated[bool, typer.Option("--list", help="Only show which topics asked to be confirmed.")] = False,
    as_json: Json = False,
) -> None:
    """Confirm that an SNS topic may post its events to the API; for operators.

    SNS asks for it when the API's /v1/provider-events/ses is subscribed to a topic of FENCEPOST_EVENTS_TOPICS.

    Example: fencepost events confirm
    """
    with connected(OPERATOR) as api:
        if listing or subscription is None:
            found = api.pages("/v1/operator/subscriptions")
            if listing:
                print_page(found, COLUMNS, as_json=as_json)
                return
            subscription = _the_one_that_waits(found.data)
        path = f"/v1/operator/subscriptions/{segment(subscription)}/confirm"
        _, confirmed = api.call("POST", path, "id", "topic", "confirmed_at")
    print_one(confirmed, COLUMNS, as_json=as_json)


def _the_one_that_waits(subscriptions: list[dict[str, Any]]) -> str:
    """Choose the newest of the one topic that waits, since SNS sends a token anew for each subscription."""
    waiting = [each for each in subscriptions if each["confirmed_at"] is None]
    if not waiting:
        refuse(
            "no subscription waits for you: subscribe the API's /v1/provider-events/ses to a topic of"
            " FENCEPOST_EVENTS_TOPICS, and SNS asks within seconds"
        )
    if len({each["topic"] for each in waiting}) > 1:
        refuse("several topics wait: name one", *(f"{each['id']}  {each['topic']}" for each in waiting))
    return str(waiting[0]["id"])
