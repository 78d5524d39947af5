"""What every benchmark works with: the stack, a Temporal client, the simulator, and the screen."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import asyncpg
import httpx
from temporalio.client import Client

from bench.correctness import accepted_once
from bench.stack import Stack

#: What the provider takes for each answer.
PROVIDER_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is measured."""

    runs: int
    messages: int  #: of a throughput run; the others take a share of it
    scale: int = 3_000_000  #: messages of the large database
    quick: bool = False  #: as little as shows that all is right, and the counts that are exact

    @property
    def singles(self) -> int:
        """Messages of a run of one at a time."""
        return max(self.messages // 10, 5)

    @property
    def requests(self) -> int:
        """Requests of a run of intake."""
        return self.messages * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """A running stack, and how to reach its parts."""

    stack: Stack
    client: Client
    database: asyncpg.Connection
    simulator: httpx.AsyncClient
    extent: Extent
    say: Callable[[str], None]

    async def fresh_provider(self) -> None:
        """Have the simulator forget everything, and take its time from now on."""
        (await self.simulator.post("/_sim/reset")).raise_for_status()
        delay = {"ms": round(PROVIDER_SECONDS * 1000)}
        (await self.simulator.post("/_sim/delay", json=delay)).raise_for_status()

    async def check_accepted_once(self, message_ids: Collection[str]) -> None:
        """Ask the simulator whether it accepted these messages once each, and nothing else, since it was fresh."""
        answer = await self.simulator.get("/_sim/submissions")
        accepted_once(message_ids, answer.raise_for_status().json()["data"])


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began_at = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.perf_counter() - self._began_at
