"""Messages that are posted to the API as a client does, and go through by themselves."""

import asyncio
import json
from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

from bench.correctness import WrongRun
from bench.http_load import ask, post
from bench.measuring import Measuring, Stopwatch
from bench.sides import COMMAND

#: Something is accepted within this while anything goes on: it is twice the lease that `fencepost dev` gives.
_STILL_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.25

_OPEN: Final = "SELECT count(*) FROM messages WHERE id = ANY($1::uuid[]) AND provider_accepted_at IS NULL"


async def post_new(measuring: Measuring, key: str | None, count: int, *, connections: int) -> list[UUID]:
    """Send commands with new keys; return their messages. Raises WrongRun for any answer but 202."""
    authorization = {"authorization": f"Bearer {key}"}
    requests = [post("/v1/messages", COMMAND, {**authorization, "idempotency-key": str(uuid4())}) for _ in range(count)]
    answers, _ = await ask(measuring.stack.ports.api, requests, connections=connections)
    wrong = [answer.status for answer in answers if answer.status != 202]  # noqa: PLR2004  (HTTP's own number)
    if wrong:
        raise WrongRun(f"{len(wrong)} of {count} commands were answered {wrong[0]} instead of 202")
    return [UUID(json.loads(answer.body)["id"]) for answer in answers]


async def all_accepted(measuring: Measuring, messages: Sequence[UUID]) -> None:
    """Wait until the provider has accepted all of them. Raises WrongRun where none is accepted for a long time."""
    watch, before = Stopwatch(), len(messages)
    while left := await measuring.database.fetchval(_OPEN, messages):
        if left < before:
            watch, before = Stopwatch(), left
        if watch.seconds > _STILL_SECONDS:
            raise WrongRun(f"{left} of {len(messages)} messages were not accepted, and nothing went on")
        await asyncio.sleep(_LOOK_SECONDS)
