"""A subscriber of the simulator's events: a small HTTP server that keeps what it was sent, and how to verify it."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

TAKEN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One HTTP request of SNS's kind."""

    headers: dict[str, str]
    body: bytes
    answer: int

    @property
    def envelope(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.body)
        return found

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.envelope["Message"])
        return found

    @property
    def type(self) -> str:
        return str(self.event["eventType"])


@dataclass(slots=True)
class Subscriber:
    """What came, in order; `answer` decides what the next delivery is answered, None being a broken connection.

    While `open` is not set, everything waits for its answer.
    """

    port: int = 0
    deliveries: list[Delivery] = field(default_factory=list)
    answer: Callable[[], int | None] = lambda: TAKEN
    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    most_waiting: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/provider-events/ses"

    def about(self, recipient: str) -> list[Delivery]:
        """Return the deliveries about mail to this recipient."""
        return [each for each in self.deliveries if recipient in each.event["mail"]["destination"]]

    def types(self, recipient: str) -> list[str]:
        return [each.type for each in self.about(recipient)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-1])}
            body = await reader.readexactly(int(headers["content-length"]))
            status = self.answer()
            await self._wait(reader)
            self.deliveries.append(Delivery(headers=headers, body=body, answer=status or 0))
            if status is not None:
                writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()

    async def _wait(self, reader: asyncio.StreamReader) -> None:
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        ends = [asyncio.create_task(self.open.wait()), asyncio.create_task(reader.read())]
        # Whoever waited too long has closed the connection.
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        self.waiting -= 1


@contextlib.asynccontextmanager
async def subscriber() -> AsyncIterator[Subscriber]:
    """Listen on a free port, and stop."""
    here = Subscriber()
    here.open.set()
    server = await asyncio.start_server(here.serve, "127.0.0.1", 0)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
        await server.wait_closed()


async def _public_key(delivery: Delivery) -> rsa.RSAPublicKey:
    """Fetch the certificate that the envelope names."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = (await client.get(delivery.envelope["SigningCertURL"])).raise_for_status()
    key = x509.load_pem_x509_certificate(answer.content).public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    return key


async def verify(delivery: Delivery, **changed: str) -> None:
    """Check the signature over the envelope, some fields changed, by SNS's rule."""
    fields = delivery.envelope | changed
    names = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
    canonical = "".join(f"{name}\n{fields[name]}\n" for name in names)
    signature = base64.b64decode(fields["Signature"])
    (await _public_key(delivery)).verify(signature, canonical.encode(), padding.PKCS1v15(), hashes.SHA256())
