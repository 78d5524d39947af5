"""What a run needs in its stack before the first message: a template, senders to switch off, and another tenant."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import httpx

from bench.chaos.plan import CANARIES, TEMPLATE
from bench.chaos.records import Action
from bench.correctness import WrongRun
from db import audit


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTenant:
    """Somebody who must read none of the run's messages."""

    key: str = field(repr=False)
    actions: tuple[Action, ...]  #: what an operator did for it


async def publish(tenant: httpx.AsyncClient, senders: Iterable[str]) -> None:
    """Publish the template whose text must stand nowhere, and make the senders. Raises WrongRun."""
    template = {
        "subject": "{{ name }}",
        "text": f"{CANARIES.template_text} {{{{ name }}}}",
        "html": None,
        "purpose": "transactional",
        "context_schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    }
    _made(await tenant.post(f"/v1/templates/{TEMPLATE}/versions", json=template))
    for sender in senders:
        body = {"key": sender, "address": f"{sender}@demo.example.com"}
        _made(await tenant.post("/v1/senders", json=body))


async def make_other_tenant(operator: httpx.AsyncClient) -> OtherTenant:
    """Make a tenant that has a key and nothing else, as an operator who can do all that the run needs.

    Raises:
        WrongRun: They can't.

    """
    for path in ("/v1/operator/ambiguous", "/v1/operator/providers"):
        _made(await operator.get(path))
    tenant = _made(await operator.post("/v1/tenants", json={"name": "other"}))
    scopes = ["messages:read", "messages:send", "content:read"]
    key = _made(await operator.post(f"/v1/tenants/{tenant['id']}/keys", json={"scopes": scopes}))
    done = (audit.Action.TENANT_CREATED, audit.Action.KEY_ISSUED)
    return OtherTenant(key=key["key"], actions=tuple(Action(action=action, status=201) for action in done))


def _made(answer: httpx.Response) -> dict[str, str]:
    if not answer.is_success:
        raise WrongRun(f"{answer.request.url.path} answered {answer.status_code} before anything was tormented")
    body: dict[str, str] = answer.json()
    return body
