"""How a baseline is told to drive messages: one connection, one line of JSON each way."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from bench.correctness import WrongRun

#: For a line with the ids of all messages that a run may have.
_LINE_LIMIT = 1024 * 1024

Drive = Callable[[Sequence[str]], Awaitable[Counter[str]]]


async def serve(port: int, drive: Drive) -> None:
    """Take orders on 127.0.0.1 until SIGTERM; say `ready` on the output once they can come.

    Args:
        port: Where.
        drive: Drives messages by their ids to their ends, and says how many ended in which state.

    """
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            ended = await drive(json.loads(await reader.readline()))
            writer.write(json.dumps({"ended": ended}).encode() + b"\n")
        except Exception as error:
            writer.write(json.dumps({"broke_down": type(error).__name__}).encode() + b"\n")
            raise
        finally:
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(obey, "127.0.0.1", port, limit=_LINE_LIMIT):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


async def give(port: int, message_ids: Sequence[str]) -> Counter[str]:
    """Have messages driven, and return how many ended in which state. Raises WrongRun where the baseline broke down."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(json.dumps(message_ids).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()
    answer = json.loads(line) if line else {"broke_down": "its process ended"}
    if "ended" not in answer:
        raise WrongRun(f"a baseline broke down: {answer['broke_down']}")
    return Counter(answer["ended"])
