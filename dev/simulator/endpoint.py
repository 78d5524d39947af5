"""The SES endpoint: takes SendEmail requests, records them, and answers as their recipients ask for."""

import asyncio
import contextlib
import socket
from typing import Final, assert_never

import h11

from dev.simulator import replies
from dev.simulator.connection import Connection
from dev.simulator.events import SLOW_SECONDS, plan
from dev.simulator.faults import AcceptedFault, Fault, first_fault
from dev.simulator.publisher import Publisher
from dev.simulator.record import Answer, Record
from dev.simulator.send_email import SendEmail, parse, refusal

HOST: Final = "127.0.0.1"

_SEND_EMAIL: Final = ("POST", "/v2/email/outbound-emails")
_THROTTLES: Final = 2


def listen(port: int) -> socket.socket:
    """Listen on this port of 127.0.0.1; on any free one where it is 0.

    Raises:
        OSError: the port is in use.
    """
    # The protocol is named because asyncio only then switches Nagle's algorithm off, which would hold back every answer
    # that is written in two parts for 40 ms; socket.create_server() leaves it out.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


class Endpoint:
    """A listener that can be stopped and started again on its port.

    The port is chosen by the system at the first start where it was given as 0. `delay` is how long every answer takes,
    in seconds. Without a publisher, no events are planned.
    """

    def __init__(self, record: Record, port: int, publisher: Publisher | None) -> None:
        self.port = port
        self.delay = 0.0
        self._record = record
        self._publisher = publisher
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def listening(self) -> bool:
        """Whether connections are taken."""
        return self._server is not None

    async def start(self) -> None:
        """Take connections; nothing changes where that is so already.

        Raises:
            OSError: the port is in use.
        """
        if self._server is None:
            listener = listen(self.port)
            self.port = listener.getsockname()[1]
            self._server = await asyncio.start_server(self._connected, sock=listener)

    async def stop(self) -> None:
        """Refuse connections and close those that are open, whatever they wait for."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            # This one was taken in the moment before the stop.
            writer.transport.abort()
            return
        connection = asyncio.create_task(self._serve(Connection(reader, writer)))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, connection: Connection) -> None:
        # A client that goes away in the middle, or is made to, is what this endpoint is for.
        with contextlib.closing(connection), contextlib.suppress(ConnectionError):
            try:
                while (request := await connection.next_request()) is not None:
                    due = asyncio.get_running_loop().time() + self.delay
                    if (request.method, request.path) == _SEND_EMAIL:
                        await self._send_email(connection, request.body, due)
                    else:
                        await connection.answer(replies.UNKNOWN_OPERATION, due)
            except h11.RemoteProtocolError as error:
                await connection.answer_and_close(replies.protocol_error(error.error_status_hint))

    async def _send_email(self, connection: Connection, body: bytes, due: float) -> None:
        mail = parse(body)
        if mail is None:
            await self._record.add(SendEmail(), Answer.REJECTED)
            await connection.answer(replies.UNREADABLE, due)
        elif (text := refusal(mail)) is not None:
            await self._record.add(mail, Answer.REJECTED)
            await connection.answer(replies.bad_request(text), due)
        else:
            await self._judge(connection, mail, due)

    async def _judge(self, connection: Connection, mail: SendEmail, due: float) -> None:
        fault, address = first_fault(mail.recipients) or (None, "")
        match fault:
            case Fault.THROTTLE:
                await self._record.add(mail, Answer.THROTTLED)
                await connection.answer(replies.THROTTLED, due)
            case Fault.THROTTLE_TWICE:
                key = mail.tags.get("fencepost_message", address)
                if await self._record.add_throttled(mail, key=key, at_most=_THROTTLES):
                    await connection.answer(replies.THROTTLED, due)
                else:
                    await self._accept(connection, mail, None, due)
            case Fault.REJECT:
                await self._record.add(mail, Answer.REJECTED)
                await connection.answer(replies.message_rejected(address), due)
            case Fault.ERROR500:
                await self._record.add(mail, Answer.FAILED)
                await connection.answer(replies.INTERNAL_FAILURE, due)
            case Fault.UNAVAILABLE:
                await self._record.add(mail, Answer.FAILED)
                await connection.answer(replies.UNAVAILABLE, due)
            case Fault.RESET_BEFORE:
                # Only the body names the recipient, so it has been read after all. It is not recorded: the client sees
                # what it would see had the connection broken when the headers had come, and nothing was accepted.
                connection.reset()
            case (
                None
                | Fault.SLOW
                | Fault.HANG
                | Fault.DRIP
                | Fault.RESET
                | Fault.GARBAGE
                | Fault.EMPTY
                | Fault.LOST
                | Fault.SILENT
                | Fault.LATE_BOUNCE
                | Fault.DISORDER
            ):
                await self._accept(connection, mail, fault, due)
            case _:
                assert_never(fault)

    async def _accept(self, connection: Connection, mail: SendEmail, fault: AcceptedFault | None, due: float) -> None:
        ses_message_id = replies.new_message_id()
        if self._publisher is None:
            await self._record.add(mail, Answer.ACCEPTED, ses_message_id)
        else:
            await self._record.add(mail, Answer.ACCEPTED, ses_message_id, plan(mail.recipients, fault))
            self._publisher.wake()
        accepted = replies.accepted(ses_message_id)
        match fault:
            case None | Fault.SILENT | Fault.LATE_BOUNCE | Fault.DISORDER:
                await connection.answer(accepted, due)
            case Fault.SLOW:
                await connection.answer(accepted, due + SLOW_SECONDS)
            case Fault.HANG | Fault.LOST:
                await connection.outlast()
            case Fault.DRIP:
                await connection.drip(accepted)
            case Fault.RESET:
                connection.reset()
            case Fault.GARBAGE:
                await connection.answer(replies.GARBAGE, due)
            case Fault.EMPTY:
                await connection.answer(replies.EMPTY, due)
            case _:
                assert_never(fault)
