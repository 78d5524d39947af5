"""A client that asks as fast as the answers come, over a few kept connections, and costs next to nothing itself."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.correctness import WrongRun
from bench.measuring import Stopwatch

_LENGTH: Final = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)
#: Far beyond any answer.
_ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to one request."""

    status: int
    head: bytes
    body: bytes
    seconds: float


def post(path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """Return a request as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
    lines += [f"content-length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


async def ask(port: int, requests: Sequence[bytes], *, connections: int) -> tuple[list[Answer], float]:
    """Ask over so many connections, each one request at a time; return the answers, in order, and the seconds in all.

    Raises:
        WrongRun: A connection broke, or nothing came.

    """
    waiting = iter(enumerate(requests))
    answers: list[Answer | None] = [None] * len(requests)

    async def lane(waiting: Iterator[tuple[int, bytes]], connection: "_Connection") -> None:
        for number, request in waiting:
            answers[number] = await asyncio.wait_for(connection.exchange(request), _ANSWER_SECONDS)

    opened = [_Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(connections)]
    watch = Stopwatch()
    try:
        await asyncio.gather(*(lane(waiting, connection) for connection in opened))
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise WrongRun(f"a request had no answer ({type(error).__name__})") from None
    finally:
        for connection in opened:
            connection.close()
    return [answer for answer in answers if answer], watch.seconds


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def exchange(self, request: bytes) -> Answer:
        watch = Stopwatch()
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1]) if length else 0)
        return Answer(status=int(head.split(b" ", 2)[1]), head=head, body=body, seconds=watch.seconds)

    def close(self) -> None:
        self._writer.close()
