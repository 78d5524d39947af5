"""A TCP proxy whose faults are switched while it runs, before Postgres, Temporal or the provider.

On Postgres it can also lose exactly one COMMIT or the reply to it: by reading messages, not by looking for bytes.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.faults.postgres_wire import ClientSide, Frames, is_ready_for_query


class Way(Enum):
    """Which way bytes go."""

    TO_SERVER = auto()
    TO_CLIENT = auto()


class Loss(Enum):
    """What the proxy loses, together with its connection."""

    REPLY = auto()  #: the COMMIT happens, and nobody hears of it
    COMMIT = auto()  #: the COMMIT never arrives: Postgres rolls back


@dataclass(slots=True, eq=False)
class _Connection:
    """One client, and its connection to the server."""

    client: asyncio.StreamReader
    to_client: asyncio.StreamWriter
    asked: ClientSide | None  #: what the client asks Postgres for
    to_server: asyncio.StreamWriter | None = None
    torn: bool = False  #: bytes of it are gone, so that it can't go on after the fault
    over: asyncio.Event = field(default_factory=asyncio.Event)
    reply: Frames | None = None  #: to the COMMIT that is being lost
    reply_ended: asyncio.Event = field(default_factory=asyncio.Event)

    def reset(self) -> None:
        self.over.set()
        _reset(self.to_client)
        _reset(self.to_server)

    def close(self) -> None:
        for writer in (self.to_client, self.to_server):
            if writer is not None:
                writer.close()


@dataclass(slots=True)
class FaultProxy:
    """Passes everything on, until it is told otherwise; each switch replaces the one before.

    `lose` is apart from the switches: it waits for its COMMIT, once.
    """

    server_port: int
    port: int
    postgres: bool
    lost: int = 0  #: how many COMMITs and replies were lost
    _listener: asyncio.Server | None = None
    _connections: set[_Connection] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _delays: dict[Way, float] = field(default_factory=dict)
    _swallowed: frozenset[Way] = frozenset()
    _half_open: bool = False
    _armed: Loss | None = None
    _armed_for: str = ""
    _meanwhile: Callable[[], Awaitable[object]] | None = None

    def url(self, url: str) -> str:
        """Point a URL of the server at this proxy."""
        return url.replace(f"127.0.0.1:{self.server_port}", f"127.0.0.1:{self.port}")

    async def heal(self) -> None:
        """Pass everything on again. What has lost bytes, or its server, is reset."""
        self._delays, self._swallowed, self._half_open = {}, frozenset(), False
        for connection in self._connections:
            if connection.torn:
                connection.reset()
        await self._listen()

    async def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        await self.heal()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in self._connections:
            connection.reset()

    async def delay(self, milliseconds: float, *ways: Way) -> None:
        """Hold all bytes back for so long; both ways where none is named."""
        await self.heal()
        self._delays = dict.fromkeys(ways or Way, milliseconds / 1000)

    async def swallow(self, *ways: Way) -> None:
        """Take bytes, and let them go nowhere; both ways where none is named."""
        await self.heal()
        self._swallowed = frozenset(ways or Way)

    async def half_open(self) -> None:
        """Close the server's side; the client's stays open and silent, and so do new ones."""
        await self.heal()
        self._half_open = True
        for connection in self._connections:
            connection.torn = True
            _reset(connection.to_server)

    def lose(
        self, loss: Loss, *, containing: str = "", meanwhile: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Lose the next COMMIT, or its reply, of a transaction with a statement in which this text stands.

        `meanwhile` runs after the loss, before the client hears of it.
        """
        self._armed, self._armed_for, self._meanwhile = loss, containing, meanwhile

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port, reuse_port=True)

    async def _close(self) -> None:
        await self.cut()
        await asyncio.gather(*self._tasks)

    def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        connection = _Connection(client, to_client, ClientSide() if self.postgres else None)
        self._connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: _Connection) -> None:
        back: asyncio.Task[None] | None = None
        try:
            if self._half_open:
                connection.torn = True
            else:
                server, connection.to_server = await asyncio.open_connection("127.0.0.1", self.server_port)
                back = asyncio.create_task(self._replies(connection, server))
            await self._requests(connection)
        except OSError:
            connection.reset()
        finally:
            self._connections.discard(connection)
            connection.close()
            if back is not None:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)

    async def _requests(self, connection: _Connection) -> None:
        while data := await _read(connection.client):
            if not await self._passes(connection, Way.TO_SERVER) or connection.to_server is None:
                continue
            if connection.asked is None:
                connection.to_server.write(data)
            else:
                for message, is_commit in connection.asked.feed(data):
                    if is_commit and (loss := self._take(connection.asked)):
                        await self._lose(loss, connection, connection.to_server, message)
                        return
                    connection.to_server.write(message)
            await connection.to_server.drain()
        if not await self._passes(connection, Way.TO_SERVER):
            await connection.over.wait()  # the server can't know that its client has left

    async def _replies(self, connection: _Connection, server: asyncio.StreamReader) -> None:
        while data := await _read(server):
            if connection.reply is not None:
                if any(is_ready_for_query(message) for message in connection.reply.feed(data)):
                    connection.reply_ended.set()
            elif await self._passes(connection, Way.TO_CLIENT):
                connection.to_client.write(data)
                with contextlib.suppress(OSError):
                    await connection.to_client.drain()
        connection.reply_ended.set()
        if connection.reply is None and await self._passes(connection, Way.TO_CLIENT):
            connection.to_client.close()

    async def _passes(self, connection: _Connection, way: Way) -> bool:
        """Wait as long as bytes that go this way are held back, and say whether they arrive."""
        if way in self._delays:
            await asyncio.sleep(self._delays[way])
        if self._half_open or way in self._swallowed:
            connection.torn = True
            return False
        return True

    def _take(self, asked: ClientSide) -> Loss | None:
        """Give what is to be lost with the COMMIT of this transaction, once."""
        if not any(self._armed_for in statement for statement in asked.transaction):
            return None
        armed, self._armed = self._armed, None
        return armed

    async def _lose(self, loss: Loss, connection: _Connection, to_server: asyncio.StreamWriter, message: bytes) -> None:
        connection.reply = Frames(typed=True)  # from now on nothing reaches the client, not even the end
        if loss is Loss.REPLY:
            to_server.write(message)
            await connection.reply_ended.wait()  # Postgres has committed
        to_server.close()
        self.lost += 1
        if self._meanwhile is not None:
            await self._meanwhile()
        connection.reset()


@asynccontextmanager
async def fault_proxy(server_port: int, *, postgres: bool = False) -> AsyncIterator[FaultProxy]:
    """Listen before a server of this machine, on a port that stays reserved while connections are refused."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        proxy = FaultProxy(server_port=server_port, port=reserved.getsockname()[1], postgres=postgres)
        await proxy.heal()
        try:
            yield proxy
        finally:
            await proxy._close()  # noqa: SLF001 - this is its other half


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Give what comes next; nothing at the end, however it came."""
    try:
        return await reader.read(65536)
    except OSError:
        return b""


def _reset(writer: asyncio.StreamWriter | None) -> None:
    """Have the peer see a reset connection, and not an orderly end."""
    if writer is None:
        return
    with contextlib.suppress(OSError):  # it is closed already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
