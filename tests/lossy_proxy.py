"""A proxy before Postgres that loses exactly the reply to a COMMIT, or the COMMIT itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto


class Loss(Enum):
    """What the proxy loses, together with its connection."""

    REPLY = auto()  #: the COMMIT happens, and nobody hears of it
    COMMIT = auto()  #: the COMMIT never arrives: Postgres rolls back


@dataclass(slots=True)
class LossyProxy:
    """A proxy that is armed for the next COMMIT that goes through it."""

    port: int
    armed: Loss | None = None
    lost: int = 0
    meanwhile: Callable[[], Awaitable[object]] | None = None  #: runs after a loss, before the client hears of it

    def take(self) -> Loss | None:
        """Give what is to be lost now, once."""
        armed, self.armed = self.armed, None
        self.lost += armed is not None
        return armed


@asynccontextmanager
async def lossy_proxy(postgres_port: int) -> AsyncIterator[LossyProxy]:
    """Listen on a port of its own and pass everything on to Postgres."""
    proxy = LossyProxy(port=0)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", postgres_port)
        back = asyncio.create_task(_pump(server, to_client))
        tasks.add(back)
        try:
            while data := await client.read(65536):
                loss = proxy.take() if b"COMMIT;" in data and proxy.armed else None
                if loss is not None:
                    back.cancel()
                    await asyncio.gather(back, return_exceptions=True)  # two can't read from one stream
                    if loss is Loss.REPLY:
                        to_server.write(data)
                        await server.read(65536)  # Postgres has committed
                    to_server.close()
                    if proxy.meanwhile is not None:
                        await proxy.meanwhile()
                    break
                to_server.write(data)
                await to_server.drain()
        finally:
            back.cancel()
            for writer in (to_server, to_client):
                writer.close()

    async def guarded(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await serve(client, to_client)

    listener = await asyncio.start_server(guarded, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()
