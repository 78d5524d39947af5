"""The publisher: brings each event to the subscriber when it is due, again and again until it is taken."""

import asyncio
import contextlib
import json
import time
import uuid
from typing import Final

import httpx

from dev.simulator import publications
from dev.simulator.event_bodies import event_body
from dev.simulator.publications import Publication
from dev.simulator.record import Record, Submission
from dev.simulator.sns import Signer, headers, notification

CONCURRENCY: Final = 8
#: For how long an event is tried, from its first try on.
TRIED_SECONDS: Final = 600.0

_FIRST_WAIT: Final = 1.0
_WAIT_GROWTH: Final = 1.2
_LONGEST_WAIT: Final = 5.0
_ANSWER_SECONDS: Final = 5.0
# A plan whose wake-up was lost with its connection is found this much later.
_LOOK_SECONDS: Final = 1.0


class Publisher:
    """Publishes the record's events as SNS delivers them to an HTTPS subscriber.

    The events of one submission go out one at a time, so that their first tries keep the order of the plan; one that is
    not taken holds up none of the others. `page_url` is where the signer's certificate is served.
    """

    def __init__(self, record: Record, signer: Signer, *, events_url: str, topic_arn: str, page_url: str) -> None:
        self.signer = signer
        self._record = record
        self._events_url = events_url
        self._topic_arn = topic_arn
        self._page_url = page_url
        self._woken = asyncio.Event()
        self._under_way: dict[int, asyncio.Task[None]] = {}
        # A connection that was kept open is often closed by the subscriber in the moment of its next use.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS, limits=limits)

    async def run(self) -> None:
        """Publish what is due, until cancelled."""
        async with self._client, asyncio.TaskGroup() as posts:
            while True:
                self._woken.clear()
                wait = await self._start_due(posts)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._woken.wait()

    def wake(self) -> None:
        """Look at what is due, because something was planned or has ended."""
        self._woken.set()

    async def forget(self) -> None:
        """Break off what is under way."""
        under_way = list(self._under_way.values())
        for post in under_way:
            post.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def publish(self, publication: Publication, submission: Submission) -> int:
        """Try once, whenever the next try is due; return the status that the subscriber answered.

        Raises:
            httpx.TransportError: it did not answer.
        """
        published_at = publication.published_at or time.time()
        try:
            status = await self._post(publication, submission, published_at)
        except httpx.TransportError:
            await self._settle(publication, published_at, None, publication.due_at)
            raise
        await self._settle(publication, published_at, status, publication.due_at)
        return status

    async def _start_due(self, posts: asyncio.TaskGroup) -> float:
        """Begin to publish what is due and return how long to wait before the next look."""
        at_most = CONCURRENCY - len(self._under_way)
        if at_most == 0:
            return _LOOK_SECONDS
        due, next_due = await self._record.run(publications.due, busy=list(self._under_way), at_most=at_most)
        for publication in due:
            self._start(posts, publication)
        if due:
            return 0.0
        return _LOOK_SECONDS if next_due is None else min(max(next_due - time.time(), 0.0), _LOOK_SECONDS)

    def _start(self, posts: asyncio.TaskGroup, publication: Publication) -> None:
        def ended(_: asyncio.Task[None]) -> None:
            del self._under_way[publication.submission_id]
            self.wake()

        post = posts.create_task(self._try(publication))
        self._under_way[publication.submission_id] = post
        # Not within the task, which never begins where it is cancelled before.
        post.add_done_callback(ended)

    async def _try(self, publication: Publication) -> None:
        submission = await self._record.find(publication.submission_id)
        # None where a reset came between.
        if submission is None:
            return
        published_at = publication.published_at or time.time()
        status = None
        with contextlib.suppress(httpx.TransportError):
            status = await self._post(publication, submission, published_at)
        now = time.time()
        over = (status is not None and publications.is_taken(status)) or now - published_at > TRIED_SECONDS
        wait = min(_FIRST_WAIT * _WAIT_GROWTH**publication.tries, _LONGEST_WAIT)
        await self._settle(publication, published_at, status, None if over else now + wait)

    async def _settle(
        self, publication: Publication, published_at: float, status: int | None, due_at: float | None
    ) -> None:
        await self._record.run(
            publications.settle, publication, published_at=published_at, status=status, due_at=due_at
        )

    async def _post(self, publication: Publication, submission: Submission, published_at: float) -> int:
        envelope = self._envelope(publication, submission, published_at)
        body = json.dumps(envelope, ensure_ascii=False, indent=2).encode()
        answer = await self._client.post(self._events_url, content=body, headers=headers(envelope))
        return answer.status_code

    def _envelope(self, publication: Publication, submission: Submission, published_at: float) -> dict[str, str]:
        """Return the signed notification, which is the same at each try."""
        message = event_body(
            publication.event,
            submission,
            sns_message_id=publication.sns_message_id,
            happened_at=publication.happened_at,
        )
        unsigned = notification(
            json.dumps(message, ensure_ascii=False),
            topic_arn=self._topic_arn,
            message_id=publication.sns_message_id,
            published_at=published_at,
        )
        subscription = f"{self._topic_arn}:{uuid.uuid5(uuid.NAMESPACE_URL, self._events_url)}"
        return self.signer.envelope(unsigned, certificate_url=self._page_url + self.signer.certificate_path) | {
            "UnsubscribeURL": f"{self._page_url}/?Action=Unsubscribe&SubscriptionArn={subscription}"
        }
