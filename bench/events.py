"""How many provider events are taken in a second, with SNS's signature checked, beside the same work without that."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

from api.addresses import Address
from api.certificates import Certificates
from api.event_intake import EventIntake, Received
from api.sns import EventSettings, Verifier
from bench.correctness import WrongRun
from bench.figures import Better, Figure
from bench.measuring import Measuring, Stopwatch
from db.engine import DatabaseSettings, create_engine
from db.event_subscriptions import SubscriptionStore
from db.events import EventStore
from db.ids import new_id
from dev.environment import TOPIC_ARN
from dev.seed import SENDER, TEMPLATE, TENANT
from dev.simulator.sns import Signer, notification, timestamp

#: As many as one poll of a queue brings, twice.
_AT_ONCE: Final = 20
_Body = TypeVar("_Body")
_ADA: Final = Address(name=None, local="ada", domain="example.com")

_MESSAGES: Final = f"""
WITH made AS (
    INSERT INTO messages (id, tenant_id, idempotency_key, request_hash, hash_version, state, token, came_from, purpose,
        template_key, template_version, template_purpose, sender_key, sender_address, sender_reply_to, credential_id,
        provider, tags)
    SELECT id, '{TENANT}', 'events-' || id, 'v1:' || md5(id::text) || md5('again' || id), 1, 'ambiguous', 1, 'queued',
        'transactional', '{TEMPLATE}', 1, 'transactional', '{SENDER}', 'hello@demo.example.com', '[]',
        (SELECT id FROM credentials WHERE tenant_id = '{TENANT}' LIMIT 1), 'ses', '{{}}'
    FROM unnest($1::uuid[]) AS new (id) RETURNING id
), addressed AS (
    INSERT INTO recipients (message_id, role, position, tenant_id, address, address_hash, redacted)
    SELECT id, 'to', 0, '{TENANT}', '{_ADA.spec}', $2, 'a***@example.com' FROM made
), tried AS (
    INSERT INTO attempts (message_id, number, token, claim_id, lease_owner, lease_expires_at, begin_id, begun_at,
        outcome, ended_at, closed_at)
    SELECT id, 1, 1, 'bench', 'bench', now(), id, now(), 'unknown', now(), now() FROM made
)
INSERT INTO timeline (message_id, seq, to_state, move, actor) SELECT id, 1, 'queued', 'intake', 'client' FROM made
"""  # noqa: S608  (constants of the demo tenant)
_RIGHT: Final = """
SELECT count(*) FROM messages WHERE id = ANY($1::uuid[]) AND state = 'delivered'
    AND (SELECT count(*) FROM evidence WHERE message_id = messages.id) = 2
"""


async def measure(measuring: Measuring) -> list[Figure]:
    """Take a Send and a Delivery for each of many ambiguous messages, both ways in turn. Raises WrongRun."""
    signer = Signer.generate()
    # The verifier takes a certificate from another origin than AWS's in such an environment only.
    os.environ["FENCEPOST_ENVIRONMENT"] = "test"
    url = measuring.stack.role_url("fencepost_events")
    engine = create_engine(DatabaseSettings.model_validate({"url": url}), application="bench")
    certificates = Certificates()
    ours, baseline = [], []
    try:
        async with _serving(signer) as origin:
            settings = EventSettings(topics=TOPIC_ARN, certificate_origin=origin)
            intake = EventIntake(
                EventStore(engine),
                SubscriptionStore(engine),
                Verifier(settings, certificates),
                address_key=measuring.stack.kept.address_key.encode(),
            )
            for run in range(measuring.extent.runs + 1):  # the first is not counted: connections learn statements
                verified = await _run(measuring, _signed(signer, origin), intake.receive)
                bare = await _run(
                    measuring,
                    _bare,
                    lambda bare: intake.receive_message(bare.message, notification_id=bare.notification_id),
                )
                if run:
                    ours.append(verified)
                    baseline.append(bare)
                    measuring.say(f"verified {verified:.0f}/s, without verification {bare:.0f}/s")
    finally:
        await certificates.aclose()
        await engine.dispose()
    figure = Figure(
        name="verified_events_vs_unverified",
        measure="events/s",
        better=Better.HIGHER,
        as_ratio=True,
        ours_runs=tuple(ours),
        baseline_runs=tuple(baseline),
    )
    return [figure]


def _signed(signer: Signer, origin: str) -> Callable[[str], bytes]:
    def sign(text: str) -> bytes:
        unsigned = notification(text, topic_arn=TOPIC_ARN, message_id=str(uuid4()), published_at=time.time())
        return json.dumps(signer.envelope(unsigned, certificate_url=origin + signer.certificate_path)).encode()

    return sign


class _Bare(NamedTuple):
    """An event as a verified envelope has it, without the envelope."""

    message: str
    notification_id: str


def _bare(text: str) -> _Bare:
    return _Bare(text, str(uuid4()))


async def _run(
    measuring: Measuring, make: Callable[[str], _Body], take: Callable[[_Body], Awaitable[Received]]
) -> float:
    """Take events about new messages, and give how many a second."""
    ids = [str(new_id()) for _ in range(max(measuring.extent.requests // 2, 1))]
    async with measuring.database.transaction():
        # Past the trigger, which lets a message begin as queued only.
        await measuring.database.execute("SET LOCAL session_replication_role = replica")
        await measuring.database.execute(_MESSAGES, ids, _ADA.hashed(measuring.stack.kept.address_key.encode()))
    bodies = [make(_event(kind, message_id)) for message_id in ids for kind in ("Send", "Delivery")]
    waiting = iter(bodies)

    async def one_after_the_other() -> list[Received]:
        return [await take(body) for body in waiting]

    watch = Stopwatch()
    taken = await asyncio.gather(*(one_after_the_other() for _ in range(_AT_ONCE)))
    seconds = watch.seconds
    if {each for some in taken for each in some} != {Received.APPLIED}:
        raise WrongRun("some of the events were not applied")
    if await measuring.database.fetchval(_RIGHT, ids) != len(ids):
        raise WrongRun("some of the messages are not delivered, with both events as evidence")
    return len(bodies) / seconds


def _event(kind: str, message_id: str) -> str:
    """Give an event as SES writes it, without the headers that come along."""
    at = timestamp(time.time())
    recipients = {"recipients": [_ADA.spec], "timestamp": at} if kind == "Delivery" else {}
    tags = {"fencepost_message": [message_id], "fencepost_attempt": ["1"]}
    mail = {"messageId": f"bench-{message_id}", "timestamp": at, "destination": [_ADA.spec], "tags": tags}
    return json.dumps({"eventType": kind, "mail": mail, kind.lower(): recipients})


@asynccontextmanager
async def _serving(signer: Signer) -> AsyncIterator[str]:
    """Serve the certificate, and give its origin."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(signer.certificate_pem)
        writer.write(head + signer.certificate_pem)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
