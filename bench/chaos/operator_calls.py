"""What a person does meanwhile: resolves ambiguous messages, pauses the provider, switches a sender off."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import httpx

from bench.chaos.records import Action
from db import audit

PROVIDER: Final = "ses"
_ANSWER_SECONDS: Final = 6.0
_PAUSE_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 30.0
_OK, _FORBIDDEN, _CONFLICT, _INVALID, _SERVER_ERROR = 200, 403, 409, 422, 500
_AT_ONCE: Final = 3
_DECISIONS: Final = ("accepted", "resend", "resend", "abandon")


class Operator:
    """Calls with the operator's key, and a log of those that are audited.

    Attributes:
        actions: Every audited action that was asked for, whatever became of it.

    """

    def __init__(self, operator: httpx.AsyncClient, tenant: httpx.AsyncClient) -> None:
        self._operator = operator
        self._tenant = tenant
        self.actions: list[Action] = []
        self._paused: bool | None = False

    async def switch(self, *, paused: bool) -> bool:
        """Pause or resume the provider; ask again until it is so. False where patience ended.

        However often it is asked for, it happens once: one that stands so already is left as it is, without an audit.
        """
        path = f"/v1/operator/providers/{PROVIDER}/{'pause' if paused else 'resume'}"
        switched = await _until_done(lambda: self._operator.post(path, timeout=_ANSWER_SECONDS))
        audited = audit.Action.PROVIDER_PAUSED if paused else audit.Action.PROVIDER_RESUMED
        # After a switch whose answer never came, nobody knows whether this one changed anything.
        known = switched and self._paused is not paused and self._paused is not None
        self.actions.append(Action(action=audited, status=_OK if known else None))
        self._paused = paused if switched else None
        return switched

    @property
    def provider_runs(self) -> bool:
        """Whether the provider is known to be switched on."""
        return self._paused is False

    async def disable(self, sender: str) -> bool:
        """Switch a sender off; ask again until it is. False where patience ended."""
        change = {"state": "disabled"}
        return await _until_done(
            lambda: self._tenant.patch(f"/v1/senders/{sender}", json=change, timeout=_ANSWER_SECONDS)
        )

    async def resolve_some(self, generator: random.Random) -> bool:
        """Decide about ambiguous messages, each after a decision that must be refused; False where none was taken."""
        found: list[dict[str, Any]] = []

        async def waiting() -> bool:
            answer = await _answer(self._operator.get("/v1/operator/ambiguous", timeout=_ANSWER_SECONDS))
            found.extend(answer.json()["data"] if answer and answer.is_success else [])
            return bool(found)

        if not await _patiently(waiting):
            return False
        chosen = generator.sample(found, min(_AT_ONCE, len(found)))
        attempts = [(str(message["id"]), int(message["ambiguity"]["attempt"])) for message in chosen]
        return any([await self._decide(generator, message_id, attempt) for message_id, attempt in attempts])

    async def _decide(self, generator: random.Random, message_id: str, attempt: int) -> bool:
        match generator.randrange(3):
            case 0:  # about an attempt that nobody saw
                await self._resolve(message_id, attempt + 1, "abandon", due={_CONFLICT})
            case 1:  # without the acknowledgement of the risk
                await self._resolve(message_id, attempt, "resend", due={_INVALID})
            case _:  # by the tenant itself
                await self._resolve(message_id, attempt, "abandon", by=self._tenant, due={_FORBIDDEN})
        decision = generator.choice(_DECISIONS)
        more = {"acknowledge_duplicate_risk": True} if decision == "resend" else {}
        return (await self._resolve(message_id, attempt, decision, more)).done

    async def _resolve(
        self,
        message_id: str,
        attempt: int,
        decision: str,
        more: dict[str, Any] | None = None,
        *,
        by: httpx.AsyncClient | None = None,
        due: Collection[int] = (_OK, _CONFLICT),
    ) -> Action:
        body = {"decision": decision, "attempt": attempt, "reason": "chaos"} | (more or {})
        call = (by or self._operator).post(
            f"/v1/operator/messages/{message_id}/resolution", json=body, timeout=_ANSWER_SECONDS
        )
        answer = await _answer(call)
        action = Action(
            action=audit.Action.MESSAGE_RESOLVED,
            status=answer.status_code if answer else None,
            message_id=message_id,
            attempt=attempt,
            decision=decision,
            due=frozenset(due),
        )
        self.actions.append(action)
        return action


async def _until_done(call: Callable[[], Awaitable[httpx.Response]]) -> bool:
    async def done() -> bool:
        answer = await _answer(call())
        return answer is not None and answer.is_success

    return await _patiently(done)


async def _patiently(attempt: Callable[[], Awaitable[bool]]) -> bool:
    """Try until it succeeds; False where patience ended before."""
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        if await attempt():
            return True
        await asyncio.sleep(_PAUSE_SECONDS)
    return False


async def _answer(call: Awaitable[httpx.Response]) -> httpx.Response | None:
    """Give the answer; None where none came, or one that leaves open whether it was done."""
    try:
        answer = await call
    except httpx.TransportError:
        return None
    return None if answer.status_code >= _SERVER_ERROR else answer
