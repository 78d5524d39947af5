"""The careful client: the same command under the same key until there is an answer, and a log of all answers."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final

import httpx

from bench.chaos.plan import Planned
from bench.chaos.records import Answer, Asked

#: While nobody answers, no more are sent, or most of the load would come when the last fault is over.
_MOST_UNDER_WAY: Final = 20
#: For one answer; an API that is stopped gives none.
_ANSWER_SECONDS: Final = 6.0
#: Between two tries; the longer, the longer nobody answers.
_LEAST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 0.3, 2.0
#: How long the client goes on asking at least, and once the faults are over.
_PATIENCE_SECONDS: Final = 120.0
#: Before, it asks on and on; but a stack that is gone for good must not keep the run from its end.
_LONGEST_SECONDS: Final = 600.0
_SERVER_ERROR: Final = 500


class Load:
    """Sends the planned messages at a steady rate, so many a second, and keeps what it was answered.

    Attributes:
        answers: Every answer but those that tell to ask again, in order.
        unanswered: Keys that had none.
        texts: Headers and bodies of all answers.
        retries: How often it had to ask again, by why.
        answered: Set with each answer; whoever waits for one clears it.

    """

    def __init__(self, http: httpx.AsyncClient, planned: Iterable[Planned], *, rate: float) -> None:
        self._http = http
        self._pace = 1 / rate
        self._waiting = deque(planned)
        self._sent: dict[str, dict[str, Any]] = {}
        self._room = asyncio.Semaphore(_MOST_UNDER_WAY)
        self.answers: list[Answer] = []
        self.unanswered: list[str] = []
        self.texts: list[str] = []
        self.retries = Counter[str]()
        self.answered = asyncio.Event()
        self._give_up_at = time.monotonic() + 2 * len(self._waiting) * self._pace + _LONGEST_SECONDS

    async def run(self) -> None:
        """Send until none is left, and wait for the last answer."""
        async with asyncio.TaskGroup() as group:
            while self._waiting:
                await self._room.acquire()
                if self._waiting:  # the nemesis takes some
                    sending = group.create_task(self.send(self._waiting.popleft()))
                    sending.add_done_callback(lambda _: self._room.release())
                await asyncio.sleep(self._pace)

    def faults_are_over(self) -> None:
        """From now on, an answer that doesn't come is not waited for without end."""
        self._give_up_at = time.monotonic() + _PATIENCE_SECONDS

    def take_plain(self, most: int) -> list[Planned]:
        """Take messages that nothing is wrong with out of what is still to be sent, from its end."""
        taken = [each for each in reversed(self._waiting) if each.plain][:most]
        for each in taken:
            self._waiting.remove(each)
        return taken

    async def replay_some(self, generator: random.Random, share: float) -> None:
        """Ask for some of the answered commands once more, whatever became of their messages."""
        answered = {answer.key for answer in self.answers if answer.asked is Asked.COMMAND and answer.message}
        for key in generator.sample(sorted(answered), round(len(answered) * share)):
            await self.ask(Asked.REPLAY, key, self._sent[key])

    @property
    def left(self) -> int:
        """How many are not sent yet."""
        return len(self._waiting)

    async def send(self, planned: Planned) -> str | None:
        """Send a message and all that follows under its key; give its id, None where there was no answer."""
        self._sent[planned.key] = planned.command
        first = await self.ask(Asked.COMMAND, planned.key, planned.command)
        if first is None:
            self.unanswered.append(planned.key)
            return None
        if planned.replay_after is not None:
            await asyncio.sleep(planned.replay_after)
            await self.ask(Asked.REPLAY, planned.key, planned.command)
        if planned.conflict_after is not None:
            await asyncio.sleep(planned.conflict_after)
            await self.ask(Asked.CONFLICT, planned.key, planned.command | {"tags": {"chaos": "other"}})
        return first.message_id

    async def ask(self, asked: Asked, key: str, command: dict[str, Any]) -> Answer | None:
        """Post until there is an answer; None where patience ended before."""
        pause, patient_until = _LEAST_PAUSE_SECONDS, time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < max(patient_until, self._give_up_at):
            try:
                came = await self._http.post(
                    "/v1/messages", json=command, headers={"Idempotency-Key": key}, timeout=_ANSWER_SECONDS
                )
            except httpx.TransportError as error:
                self.retries[type(error).__name__] += 1
            else:
                self.texts.append(f"{came.headers!r} {came.text}")
                if came.status_code < _SERVER_ERROR:
                    message = came.json() if came.is_success else None
                    answer = Answer(key=key, asked=asked, status=came.status_code, message=message)
                    self.answers.append(answer)
                    self.answered.set()
                    return answer
                self.retries[str(came.status_code)] += 1
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _MOST_PAUSE_SECONDS)
        return None
