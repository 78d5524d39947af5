"""One client's HTTP/1.1 connection to the SES endpoint, with ways to answer badly."""

import asyncio
import contextlib
import socket
import struct
import uuid
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

import h11

from dev.simulator.replies import Reply

# The largest message that SES v2 takes, 40 MB.
MAX_BODY_BYTES: Final = 40 * 1024 * 1024

_READ_BYTES: Final = 65536
_SECONDS_BETWEEN_DRIPS: Final = 1.0
_SECONDS_TO_LINGER: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request, read whole."""

    method: str
    path: str
    body: bytes


class Connection:
    """Requests in, one after the other, and each one's answer, or something worse, out.

    Every method may raise ConnectionError where the client has gone.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)
        self._method = b""

    async def next_request(self) -> Request | None:
        """Read the next request; None where the connection is at its end.

        Raises:
            h11.RemoteProtocolError: what comes is not HTTP/1.1, breaks off, or is too large.
        """
        if self._http.our_state is h11.MUST_CLOSE:
            return None
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        self._method = head.method
        body = bytearray()
        while isinstance(part := await self._next_event(), h11.Data):
            body += part.data
            if len(body) > MAX_BODY_BYTES:
                raise h11.RemoteProtocolError("too large", error_status_hint=413)
        return Request(method=head.method.decode(), path=head.target.decode(), body=bytes(body))

    async def answer(self, reply: Reply, due: float) -> None:
        """Answer the request when the loop's clock says `due`, or at once where that is over."""
        await asyncio.sleep(due - asyncio.get_running_loop().time())
        self._writer.write(self._framed(reply))
        await self._writer.drain()

    async def answer_and_close(self, reply: Reply) -> None:
        """Answer what could not be read, where an answer still makes sense, and say that nothing more follows."""
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._writer.write(self._framed(reply, closes=True))
            self._writer.write_eof()
            # A close over bytes that were not read would reset the connection, and could take the answer along.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_LINGER):
                    await self.outlast()

    async def drip(self, reply: Reply) -> None:
        """Answer the request one byte a second."""
        for byte in self._framed(reply):
            self._writer.write(bytes([byte]))
            await self._writer.drain()
            await asyncio.sleep(_SECONDS_BETWEEN_DRIPS)

    async def outlast(self) -> None:
        """Say nothing until the client closes the connection."""
        while await self._reader.read(_READ_BYTES):
            pass

    def reset(self) -> None:
        """End the connection with a TCP reset instead of an orderly close."""
        # Lingering for zero seconds makes the close discard everything and send RST (socket(7)).
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        """End the connection, after what was written."""
        self._writer.close()

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_on = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                self._writer.write(go_on or b"")
            self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event

    def _framed(self, reply: Reply, *, closes: bool = False) -> bytes:
        headers = [
            ("Date", formatdate(usegmt=True)),
            ("Content-Type", reply.content_type),
            ("Content-Length", str(len(reply.body))),
            ("x-amzn-RequestId", str(uuid.uuid4())),
        ]
        if reply.error_type is not None:
            headers.append(("x-amzn-ErrorType", reply.error_type))
        if closes:
            headers.append(("Connection", "close"))
        events: list[h11.Event] = [h11.Response(status_code=reply.status, headers=headers)]
        if self._method != b"HEAD":
            events.append(h11.Data(data=reply.body))
        events.append(h11.EndOfMessage())
        return b"".join(self._http.send(event) or b"" for event in events)
