"""Subscriptions of SNS: an operator sees which topics ask to post to us, and confirms one."""

import asyncio
from typing import Annotated, Any, Final, Self, cast
from uuid import UUID

import structlog
from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from api.auth import Authenticator
from api.aws import AwsError, confirm_subscription
from api.messages import known_form
from api.operators import ALWAYS
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.schemas import Time
from db.event_subscriptions import Subscription, SubscriptionStore

router = APIRouter(prefix="/v1/operator/subscriptions", tags=["operators"])

_log = structlog.get_logger("events")

#: A subscription in a path. The format is for OpenAPI: `known_form` judges, after the credential.
_SubscriptionPath = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
_LINKS: Final[dict[str, Any]] = {"list": {"operationId": "list_subscriptions"}}


class SubscriptionBody(BaseModel):
    """A topic's wish to post to us. Its token is shown to nobody."""

    id: UUID
    topic: str = Field(description="The ARN of the topic, which was one of FENCEPOST_EVENTS_TOPICS then.")
    received_at: Time
    confirmed_at: Time | None = Field(description="Null: it waits for an operator. SNS takes a token for three days.")

    @classmethod
    def of(cls, subscription: Subscription) -> Self:
        """Show a subscription."""
        return cls(
            id=subscription.id,
            topic=subscription.topic_arn,
            received_at=subscription.received_at,
            confirmed_at=subscription.confirmed_at,
        )


@router.get(
    "",
    operation_id="list_subscriptions",
    summary="List subscriptions",
    response_model=PageBody[SubscriptionBody],
    responses={
        200: {"description": "A page of the subscriptions, newest first.", "headers": LINK_HEADER},
        **documented(*ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": PAGE_PARAMETERS},
)
async def list_subscriptions(request: Request) -> Response:
    """List the topics that asked to post to us, whether they were confirmed or not. Each was signed by SNS."""
    await cast("Authenticator", request.app.state.authenticator).operator(request)
    query = Query(request)
    query.refuse()
    place = cast("Cursors", request.app.state.cursors).read(query, of="subscriptions")
    found = await _store(request).page(after=UUID(place[0]) if place else None, at_most=query.at_most)
    return page(request, query, found, of="subscriptions", show=SubscriptionBody.of, place=lambda each: [str(each.id)])


@router.post(
    "/{subscription_id}/confirm",
    operation_id="confirm_subscription",
    summary="Confirm a subscription",
    responses={
        200: {"description": "Confirmed, now or before.", "links": _LINKS},
        **documented(*ALWAYS, Code.NOT_FOUND, Code.SUBSCRIPTION_REFUSED),
    },
)
async def confirm(request: Request, subscription_id: _SubscriptionPath) -> SubscriptionBody:
    """Give SNS its token back, by SNS's own API in the topic's region: no address that came in is ever called.

    503 where SNS can't be reached from here; asking again is safe.
    """
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    subscription = await _store(request).find(known_form(subscription_id))
    if subscription is None:
        raise Problem(Code.NOT_FOUND)
    if subscription.confirmed_at is not None:
        return SubscriptionBody.of(subscription)
    endpoint: str | None = request.app.state.sns_endpoint_url
    try:
        arn = await asyncio.to_thread(
            confirm_subscription, subscription.topic_arn, subscription.token, endpoint_url=endpoint
        )
    except AwsError as error:
        _log.error("subscription_not_confirmed", topic=subscription.topic_arn, error=error.code)
        raise Problem(Code.SUBSCRIPTION_REFUSED if error.refused else Code.UNAVAILABLE) from None
    confirmed = await _store(request).confirmed(subscription, subscription_arn=arn, by=operator.credential_id)
    return SubscriptionBody.of(confirmed)


def _store(request: Request) -> SubscriptionStore:
    return cast("SubscriptionStore", request.app.state.subscriptions)
