"""SNS for tests of both doors: SES's golden bodies about a message of ours, in envelopes that are signed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

import asyncpg

from api.addresses import Address
from db.records import MessageRef
from dev.simulator.sns import Signer, notification

TOPIC = "arn:aws:sns:us-east-1:123456789012:ses-events"
HOST = "https://sns.us-east-1.amazonaws.com"
GOLDEN = Path(__file__).parent / "api" / "golden_ses_events"
ADA = Address(name=None, local="ada", domain="example.com")
#: What SNS wants back of whoever confirms a subscription.
TOKEN = "23df"
SUBSCRIPTION_ARN = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
#: How SNS answers whoever gives it back, and whoever gives back one that is none or has run out.
CONFIRMED = (
    '<ConfirmSubscriptionResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><ConfirmSubscriptionResult>'
    f"<SubscriptionArn>{SUBSCRIPTION_ARN}</SubscriptionArn></ConfirmSubscriptionResult></ConfirmSubscriptionResponse>"
).encode()
NOT_CONFIRMED = (
    b'<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type>'
    b"<Code>InvalidParameter</Code><Message>Invalid parameter: Token canary</Message></Error></ErrorResponse>"
)


@cache
def signer() -> Signer:
    """Make the one key of these tests."""
    return Signer.generate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Signs what SES says, for a topic.

    Attributes:
        origin: Where the certificate is said to be.

    """

    origin: str = HOST
    topic: str = TOPIC
    signer: Signer = field(default_factory=signer)

    def event(
        self, golden: str, message: MessageRef | str | None, *, attempt: int = 1, to: str = "ada@example.com"
    ) -> str:
        """Give one of SES's bodies, as new, about an attempt of a message; about nobody's without one."""
        text = (GOLDEN / f"{golden}.json").read_text().replace("ada@example.com", to)
        body: dict[str, Any] = json.loads(text)
        mail = body["mail"]
        if message is None:
            mail["tags"] = {}
            mail["messageId"] = f"not-ours-{uuid4()}"
        elif "tags" in mail:  # an identity's own notifications have none
            message_id = message if isinstance(message, str) else str(message.id)
            mail["tags"] |= {"fencepost_message": [message_id], "fencepost_attempt": [str(attempt)]}
        own = next((body[name] for name in body if name not in ("eventType", "notificationType", "mail")), None)
        if own is not None:
            # Otherwise the same golden body about the same message would be one event.
            own["feedbackId"] = str(uuid4())
        return json.dumps(body)

    def notification(self, message: str, *, message_id: str | None = None, age: float = 0) -> bytes:
        """Give a signed notification that carries a text; `age` is in seconds."""
        unsigned = notification(
            message,
            topic_arn=self.topic,
            message_id=message_id or str(uuid4()),
            published_at=time() - age,
        )
        return self._signed(unsigned)

    def confirmation(self, kind: str = "SubscriptionConfirmation", *, token: str = TOKEN) -> bytes:
        """Give a signed request to confirm that a topic was subscribed to, or left."""
        unsigned = notification("You chose.", topic_arn=self.topic, message_id=str(uuid4()), published_at=time())
        del unsigned["Subject"]
        unsigned |= {"Type": kind, "Token": token, "SubscribeURL": f"{HOST}/?Action=ConfirmSubscription&Token={token}"}
        return self._signed(unsigned)

    def _signed(self, unsigned: dict[str, str]) -> bytes:
        where = f"{self.origin}{self.signer.certificate_path}"
        return json.dumps(self.signer.envelope(unsigned, certificate_url=where)).encode()


async def address_to(connection: asyncpg.Connection, message: MessageRef, address: Address, key: str) -> None:
    """Let a message's primary recipient be findable by an address, which the factories leave out."""
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE recipients SET address = $2, address_hash = $3 WHERE message_id = $1 AND role = 'to'",
            message.id,
            address.spec,
            address.hashed(key.encode()),
        )


@asynccontextmanager
async def certificate_server() -> AsyncIterator[Publisher]:
    """Serve the certificate on a port of its own, and give a publisher that says so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        found = head.startswith(f"GET {signer().certificate_path} ".encode())
        body = signer().certificate_pem if found else b""
        status = b"200 OK" if found else b"404 Not Found"
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Publisher(origin=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    finally:
        server.close()
        await server.wait_closed()
