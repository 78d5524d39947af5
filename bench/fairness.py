"""How long one tenant's messages take while another tenant's backlog is worked off, beside the same without it.

A message's time is from its row, which the 202 follows, to the provider's acceptance, both by Postgres' clock.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import httpx

from bench.correctness import WrongRun
from bench.figures import Better, Figure, percentile
from bench.measuring import Measuring
from bench.posted import all_accepted, post_new
from dev.seed import SENDER, TEMPLATE
from workflows import policies

REACH: Final = 3.0
BACKLOG: Final = 2000
#: Still more than the worker has slots for, three times over.
QUICK_BACKLOG: Final = 200
POSTED: Final = 20
#: Of the tenant that makes the backlog, and of the one that posts a few.
_MANY, _FEW = 16, 4
_API_SECONDS: Final = 30.0

_TIMES: Final = """
SELECT extract(epoch FROM provider_accepted_at - created_at)::float8 * 1000 AS ms
FROM messages WHERE id = ANY($1::uuid[])
"""
_ACCEPTED_LATER: Final = """
SELECT count(*) FROM messages WHERE id = ANY($1::uuid[])
    AND provider_accepted_at > (SELECT max(provider_accepted_at) FROM messages WHERE id = ANY($2::uuid[]))
"""


async def measure(measuring: Measuring) -> list[Figure]:
    """Measure the second tenant alone and beside the backlog, in turn. Raises WrongRun."""
    second_key = await _second_tenant(measuring)
    sweep = measuring.client.get_schedule_handle(policies.SWEEP_SCHEDULE_ID)
    # Part of what serves a backlog: it makes up for starts that took too long. Those who hold starts back pause it.
    await sweep.unpause()
    try:
        await _alone(measuring, second_key)  # not counted
        beside, alone = [], []
        for _ in range(measuring.extent.runs):
            alone.append(await _alone(measuring, second_key))
            beside.append(await _beside_backlog(measuring, second_key))
            measuring.say(f"p95 {beside[-1]:.0f} ms beside the backlog, {alone[-1]:.0f} ms alone")
    finally:
        await sweep.pause()
    figure = Figure(
        name="fairness_p95",
        measure="ms",
        better=Better.LOWER,
        as_ratio=True,
        reach=REACH,
        ours_runs=tuple(beside),
        baseline_runs=tuple(alone),
    )
    return [figure]


async def _second_tenant(measuring: Measuring) -> str:
    """Make a tenant as an operator does, with a sender and a template as the first one has them; return its key."""
    stack = measuring.stack
    url = f"http://127.0.0.1:{stack.ports.api}"

    async def call(client: httpx.AsyncClient, path: str, body: Mapping[str, object]) -> dict[str, str]:
        made: dict[str, str] = (await client.post(path, json=body)).raise_for_status().json()
        return made

    def caller(key: str | None) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=_API_SECONDS)

    async with caller(stack.kept.operator_key) as operator:
        tenant = await call(operator, "/v1/tenants", {"name": "Second"})
        scopes = ["messages:send", "messages:read", "senders", "templates"]
        issued = await call(operator, f"/v1/tenants/{tenant['id']}/keys", {"scopes": scopes})
    async with caller(issued["key"]) as owner:
        await call(owner, "/v1/senders", {"key": SENDER, "address": "hello@second.example.com"})
        template = {
            "subject": "Welcome, {{ name }}",
            "text": "Hello {{ name }}",
            "html": "<p>Hello {{ name }}</p>",
            "purpose": "transactional",
            "context_schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        }
        await call(owner, f"/v1/templates/{TEMPLATE}/versions", template)
    return issued["key"]


async def _alone(measuring: Measuring, key: str) -> float:
    await measuring.fresh_provider()
    few = await post_new(measuring, key, POSTED, connections=_FEW)
    await all_accepted(measuring, few)
    await measuring.check_accepted_once({str(each) for each in few})
    return await _p95(measuring, few)


async def _beside_backlog(measuring: Measuring, key: str) -> float:
    await measuring.fresh_provider()
    size = QUICK_BACKLOG if measuring.extent.quick else BACKLOG
    many = await post_new(measuring, measuring.stack.kept.api_key, size, connections=_MANY)
    few = await post_new(measuring, key, POSTED, connections=_FEW)
    await all_accepted(measuring, [*few, *many])
    await measuring.check_accepted_once({str(each) for each in (*few, *many)})
    if not await measuring.database.fetchval(_ACCEPTED_LATER, many, few):
        raise WrongRun("the backlog was over before the second tenant's messages were")
    return await _p95(measuring, few)


async def _p95(measuring: Measuring, messages: Sequence[UUID]) -> float:
    return percentile([row["ms"] for row in await measuring.database.fetch(_TIMES, messages)], 95)
