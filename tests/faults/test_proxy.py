"""The fault proxy itself: each switch does what it says, and it loses exactly the COMMIT that it was asked to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import asyncpg
import pytest

from tests.conftest import Database
from tests.faults.postgres_wire import ClientSide, Frames
from tests.faults.proxy import FaultProxy, Loss, Way, fault_proxy
from tests.waiting import until

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Echo:
    """A server that sends back what it got, and remembers it."""

    port: int = 0
    heard: bytearray = field(default_factory=bytearray)
    clients: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients += 1
        try:
            while data := await reader.read(1000):
                self.heard += data
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            self.clients -= 1
            writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    yield echo
    server.close()
    await until(lambda: echo.clients == 0, within=5)


@pytest.fixture
async def proxy(echo: Echo) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(echo.port) as proxy:
        yield proxy


@asynccontextmanager
async def connected(proxy: FaultProxy) -> AsyncIterator[Streams]:
    """Connect, and be answered once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await said((reader, writer), b"hello") == b"hello"
    yield reader, writer
    writer.close()


async def said(streams: Streams, words: bytes) -> bytes:
    """Say something and give what comes back."""
    reader, writer = streams
    writer.write(words)
    return await asyncio.wait_for(reader.read(1000), 5)


async def is_refused(proxy: FaultProxy) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_a_cut_resets_what_is_open_and_refuses_what_is_new(proxy: FaultProxy, echo: Echo) -> None:
    async with connected(proxy) as (reader, _):
        await proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)

    assert await is_refused(proxy)
    await until(lambda: echo.clients == 0, within=5)
    await proxy.heal()
    async with connected(proxy):
        pass


@pytest.mark.parametrize("ways", [(Way.TO_SERVER,), (Way.TO_CLIENT,), ()], ids=str)
async def test_a_delay_holds_bytes_back_that_arrive_all_the_same(proxy: FaultProxy, ways: tuple[Way, ...]) -> None:
    clock = asyncio.get_running_loop().time
    async with connected(proxy) as streams:
        await proxy.delay(100, *ways)
        begun = clock()
        answer = await said(streams, b"slow")
        spent = clock() - begun
        await proxy.heal()

        assert answer == b"slow"
        assert spent >= 0.1 * (len(ways) or 2)
        assert await said(streams, b"as ever") == b"as ever"


@pytest.mark.parametrize("way", Way)
async def test_a_black_hole_takes_bytes_one_way_and_what_lost_some_is_reset_when_it_heals(
    proxy: FaultProxy, echo: Echo, way: Way
) -> None:
    async with connected(proxy) as untouched, connected(proxy) as (reader, writer):
        await proxy.swallow(way)
        writer.write(b"into the dark")
        waiting = asyncio.create_task(reader.read(1))
        await until(lambda: b"dark" in echo.heard or way is Way.TO_SERVER, within=5)
        silent, _ = await asyncio.wait({waiting}, timeout=0.1)

        assert silent == set()
        assert (b"dark" in echo.heard) is (way is Way.TO_CLIENT)
        await proxy.heal()
        with pytest.raises(ConnectionResetError):
            await waiting
        assert await said(untouched, b"still here") == b"still here"


async def test_a_server_does_not_hear_through_a_black_hole_that_its_client_has_left(
    proxy: FaultProxy, echo: Echo
) -> None:
    async with connected(proxy) as (_, writer):
        await proxy.swallow(Way.TO_SERVER)
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(5):
            reader, other = await asyncio.open_connection("127.0.0.1", proxy.port)
            other.write(b"unheard")
        assert echo.clients >= 1
        assert b"unheard" not in echo.heard
        assert not reader.at_eof()

    await proxy.heal()
    other.close()
    await until(lambda: echo.clients == 0, within=5)


async def test_a_half_open_connection_has_no_server_and_stays_silent(proxy: FaultProxy, echo: Echo) -> None:
    async with connected(proxy) as (reader, writer):
        await proxy.half_open()
        await until(lambda: echo.clients == 0, within=5)
        writer.write(b"anybody?")
        late, late_writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        reads = {asyncio.create_task(each.read(1)) for each in (reader, late)}
        answered, _ = await asyncio.wait(reads, timeout=0.1)

        assert answered == set()
        assert b"anybody?" not in echo.heard
        await proxy.heal()
        for ended in await asyncio.gather(*reads, return_exceptions=True):
            assert isinstance(ended, ConnectionResetError)
        late_writer.close()


@pytest.fixture
async def table(superuser: asyncpg.Connection) -> str:
    name = f"lost_{uuid4().hex}"
    await superuser.execute(f"CREATE TABLE {name} (n int)")
    return name


@asynccontextmanager
async def through_a_proxy(database: Database) -> AsyncIterator[tuple[FaultProxy, asyncpg.Connection]]:
    async with fault_proxy(database.server.port, postgres=True) as proxy:
        connection = await asyncpg.connect(proxy.url(database.superuser_url))
        yield proxy, connection
        connection.terminate()


Write = Callable[[asyncpg.Connection, str], Awaitable[object]]
WRITES: list[Write] = [
    lambda connection, table: connection.execute(f"INSERT INTO {table} VALUES (1)"),
    lambda connection, table: connection.execute(f"INSERT INTO {table} VALUES ($1)", 1),
    lambda connection, table: connection.executemany(f"INSERT INTO {table} VALUES ($1)", [(1,)]),
]


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("write", WRITES, ids=["simple", "prepared", "many"])
async def test_it_loses_the_commit_of_the_transaction_that_it_was_asked_for_and_no_other(
    database: Database, superuser: asyncpg.Connection, table: str, loss: Loss, write: Write
) -> None:
    async with through_a_proxy(database) as (proxy, connection):
        proxy.lose(loss, containing=f"INTO {table}")
        async with connection.transaction():
            await connection.fetchval(f"SELECT count(*) FROM {table} WHERE 'COMMIT;' <> $1", "COMMIT;")
        assert proxy.lost == 0
        with pytest.raises((asyncpg.ConnectionDoesNotExistError, OSError)):
            async with connection.transaction():
                await write(connection, table)

    assert proxy.lost == 1

    async def has_ended() -> bool:
        return not await superuser.fetchval("SELECT count(*) FROM pg_locks WHERE relation = $1::regclass", table)

    await until(has_ended, within=5)
    assert await superuser.fetchval(f"SELECT count(*) FROM {table}") == (loss is Loss.REPLY)


async def test_it_loses_once_and_then_passes_everything(
    database: Database, superuser: asyncpg.Connection, table: str
) -> None:
    async with through_a_proxy(database) as (proxy, lost):
        proxy.lose(Loss.COMMIT)
        with pytest.raises((asyncpg.ConnectionDoesNotExistError, OSError)):
            await lost.execute("COMMIT")
        connection = await asyncpg.connect(proxy.url(database.superuser_url))
        async with connection.transaction():
            await connection.execute(f"INSERT INTO {table} VALUES (1)")
        await connection.close()

    assert proxy.lost == 1
    assert await superuser.fetchval(f"SELECT count(*) FROM {table}") == 1


def typed(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


#: What asyncpg sends for a transaction with one prepared statement, after it has asked for TLS.
CONVERSATION = [
    (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big"),
    (17).to_bytes(4, "big") + (196608).to_bytes(4, "big") + b"user\0ada\0",
    typed(b"Q", b"BEGIN;\0"),
    typed(b"P", b"s1\0UPDATE attempts SET outcome = $1\0\0\0"),
    typed(b"S", b""),
    typed(b"B", b"\0s1\0\0\1\0\1\0\1\0\0\0\7COMMIT;\0\0"),
    typed(b"E", b"\0\0\0\0\0"),
    typed(b"S", b""),
    typed(b"Q", b"COMMIT;\0"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_messages_are_read_whole_however_they_are_split(size: int) -> None:
    stream = b"".join(CONVERSATION)
    client = ClientSide()

    read = [found for at in range(0, len(stream), size) for found in client.feed(stream[at : at + size])]

    assert read == [(message, message is CONVERSATION[-1]) for message in CONVERSATION]
    assert client.transaction == ["BEGIN;", "UPDATE attempts SET outcome = $1", "COMMIT;"]


def test_a_statement_that_writes_without_a_begin_commits_with_its_sync_and_one_that_reads_commits_nothing() -> None:
    client = ClientSide(frames=Frames(typed=True))
    prepared = [
        typed(b"P", b"w\0WITH made AS (INSERT INTO messages) SELECT 1\0\0\0"),
        typed(b"P", b"r\0SELECT 1\0\0\0"),
    ]
    executed = [typed(b"S", b""), typed(b"B", b"\0w\0\0\0"), typed(b"E", b"\0\0\0\0\0"), typed(b"S", b"")]
    read = [typed(b"S", b""), typed(b"B", b"\0r\0\0\0"), typed(b"E", b"\0\0\0\0\0"), typed(b"S", b"")]
    stream = [*prepared, *executed, *read]

    commits = [commits for message in stream for _, commits in client.feed(message)]

    assert [number for number, commits in enumerate(commits) if commits] == [len(prepared) + len(executed) - 1]
