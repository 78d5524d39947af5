"""The only way out for a fetch: a CONNECT proxy with a TLS server behind it that stands for SNS. Both keep a record."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter, Task
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server says; `endless` goes on with the body until the client is gone, `every` so many seconds."""

    status: int = 200
    body: bytes = b""
    headers: tuple[str, ...] = ()
    endless: bool = False
    every: float = 0
    held: asyncio.Event | None = None  #: no answer before this is set


@dataclass(slots=True)
class Trap:
    """What came: the first line that the proxy saw of each connection, and each request that reached the server."""

    answers: dict[str, Answer] = field(default_factory=dict)  #: by path; anything else is 404
    connections: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    written: int = 0  #: bytes of bodies
    refuses: bool = False  #: the proxy lets nobody through
    proxy_url: str = ""
    _server_port: int = 0
    _tasks: set[Task[None]] = field(default_factory=set)

    def nothing_was_fetched(self) -> bool:
        return not self.connections and not self.requests

    async def _proxy(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.split(b"\r\n")[0].decode()
        self.connections.append(line)
        if self.refuses or not line.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        finally:
            far_writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.split(b"\r\n")[0].decode()
        self.requests.append(line)
        answer = self.answers.get(line.split(" ")[1], Answer(status=404))
        if answer.held is not None:
            await answer.held.wait()
        length = () if answer.endless else (f"Content-Length: {len(answer.body)}",)
        lines = (f"HTTP/1.1 {answer.status} x", *answer.headers, *length, "Connection: close", "", "")
        writer.write("\r\n".join(lines).encode())
        while True:
            writer.write(answer.body)
            await writer.drain()
            self.written += len(answer.body)
            if not answer.endless:
                return
            await asyncio.sleep(answer.every)

    def _session(self, body: Callable[[StreamReader, StreamWriter], Coroutine[Any, Any, None]]) -> Any:
        async def run(reader: StreamReader, writer: StreamWriter) -> None:
            try:
                await body(reader, writer)
            except (OSError, asyncio.IncompleteReadError):
                pass  # the client is gone
            finally:
                writer.close()

        def start(reader: StreamReader, writer: StreamWriter) -> None:
            task = asyncio.create_task(run(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return start


async def _pipe(reader: StreamReader, writer: StreamWriter) -> None:
    while part := await reader.read(4096):
        writer.write(part)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def trap(tls: ssl.SSLContext) -> AsyncIterator[Trap]:
    """Run both; the server speaks with the certificate of `tls`."""
    caught = Trap()
    server = await asyncio.start_server(caught._session(caught._serve), "127.0.0.1", 0, ssl=tls)  # noqa: SLF001 (its maker)
    proxy = await asyncio.start_server(caught._session(caught._proxy), "127.0.0.1", 0)  # noqa: SLF001 (its maker)
    caught._server_port = server.sockets[0].getsockname()[1]  # noqa: SLF001 (its maker)
    caught.proxy_url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    try:
        yield caught
    finally:
        server.close()
        proxy.close()
        tasks = list(caught._tasks)  # noqa: SLF001 (its maker)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        await proxy.wait_closed()
