"""Every hostile input on a real socket of the real API process: refused in the agreed way, and nothing else happens."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
import pytest

from api.faults import FaultCode
from api.rendering import check_template
from dev.environment import inherited
from tests.api import hostile_addresses, hostile_members, hostile_requests
from tests.api.conftest import PEPPER, make_key
from tests.api.hostile_inputs import CANARY, GOOD, HARMLESS, TEMPLATES, Hostile
from tests.conftest import Database, free_port
from tests.factories import TENANT, make_tenant
from tests.waiting import until

ROOT: Final = Path(__file__).parents[2]
INPUTS: Final = (*hostile_requests.ROWS, *hostile_addresses.ROWS, *hostile_members.ROWS)

#: One for each way in which a command is refused.
OF_EACH_KIND: Final = tuple({(each.status, each.code, *each.faults): each for each in INPUTS}.values())
UNKNOWN_TEMPLATE: Final = {**GOOD, "template": {"key": "welcome", "version": 99}}

#: What is said when a template is published, and never of a command.
OF_PUBLISHING: Final = {FaultCode.SCHEMA_INVALID, FaultCode.TEMPLATE_SYNTAX}
#: What is said of a CSV list alone.
OF_IMPORTING: Final = {
    FaultCode.CSV_ENCODING,
    FaultCode.CSV_MALFORMED,
    FaultCode.CSV_HEADER,
    FaultCode.CSV_COLUMNS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as its bytes came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def members(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def code(self) -> str:
        return str(self.members.get("code"))


@dataclass(slots=True, kw_only=True)
class Server:
    """The API process, and what it has logged."""

    port: int
    key: str = field(repr=False)
    database: asyncpg.Connection
    log: Path
    read: int = 0

    async def post(self, hostile: Hostile, key: bytes) -> Answer | None:
        """Send a request byte by byte as it is written; None if the connection ends without an answer."""
        keys = hostile.keys if hostile.keys is not None else (key,)
        lines = [
            b"POST /v1/messages HTTP/1.1",
            b"Host: fencepost.example",
            b"Authorization: Bearer " + self.key.encode(),
            *(b"Idempotency-Key: " + each for each in keys),
            *([] if hostile.content_type is None else [b"Content-Type: " + hostile.content_type]),
            b"Content-Length: %d" % len(hostile.body) if hostile.framing is None else hostile.framing,
        ]
        return await self.exchange(b"\r\n".join(lines) + b"\r\n\r\n" + hostile.body, leaves=hostile.leaves)

    async def send(self, command: Mapping[str, Any], key: bytes) -> Answer:
        """Send a command in the usual way."""
        answer = await self.post(Hostile(name="", body=json.dumps(command).encode()), key)
        assert answer is not None
        return answer

    async def exchange(self, request: bytes, *, leaves: bool) -> Answer | None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            if leaves:
                writer.write_eof()
            async with asyncio.timeout(10):
                return await _answer(reader)
        finally:
            writer.close()
            await writer.wait_closed()

    async def written(self) -> list[int]:
        """Count the rows of everything that a command writes."""
        tables = ("messages", "message_contents", "recipients", "timeline")
        counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)
        found: list[int] = await self.database.fetchval(f"SELECT ARRAY[{counts}]")
        return found

    def logged(self) -> str:
        """Give what was logged since the last time."""
        with self.log.open() as log:
            log.seek(self.read)
            text = log.read()
            self.read = log.tell()
        return text


async def _answer(reader: asyncio.StreamReader) -> Answer | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        assert error.partial == b""  # noqa: PT017  # half an answer would be a bug of its own
        return None
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length")
    body = await (reader.read() if length is None else reader.readexactly(int(length)))
    return Answer(status=int(first.split()[1]), headers=headers, body=body)


@pytest.fixture(scope="module")
async def server(database: Database, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """Run `fencepost api` for a tenant with a template for each way in which a context can be wrong."""
    connection = await asyncpg.connect(database.superuser_url)
    await make_tenant(connection)
    for name, (subject, text, schema) in TEMPLATES.items():
        await connection.execute(
            """INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
            VALUES ($1, $2, 1, $3, $4, 'transactional', $5)""",
            *(TENANT, name, subject, text, json.dumps(schema)),
        )
    key = await make_key(connection)
    port, log = free_port(), tmp_path_factory.mktemp("api") / "log"
    settings = {
        "FENCEPOST_DATABASE_URL": database.url("fencepost_api"),
        "FENCEPOST_KEY_PEPPER": PEPPER,
        "FENCEPOST_ADDRESS_KEY": "address-key-address-key-address-key",
        "FENCEPOST_ENVIRONMENT": "test",
        "FENCEPOST_API_PORT": str(port),
        "TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}",
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cli", "api"),
            cwd=ROOT,
            env={**inherited(os.environ), **settings},
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        await until(lambda: "Uvicorn running" in log.read_text() or process.returncode is not None, within=30)
        assert process.returncode is None, log.read_text()
        yield Server(port=port, key=key, database=connection, log=log)
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 30)
        await connection.close()


def new_key() -> bytes:
    return f"{CANARY}-{uuid4()}".encode()


def check(answer: Answer | None, hostile: Hostile) -> None:
    """Compare an answer with the one that is expected."""
    if hostile.status is None:
        assert answer is None
        return
    assert answer is not None
    assert answer.status == hostile.status
    assert CANARY not in f"{answer.headers} {answer.body.decode()}".lower()
    if hostile.code is not None:
        assert answer.headers["content-type"] == "application/problem+json"
        members = answer.members
        assert (members["status"], members["code"]) == (hostile.status, hostile.code)
        assert members["request_id"] == answer.headers["x-request-id"]
        errors = members.get("errors", [])
        assert {(error["pointer"], error["code"]) for error in errors} == hostile.faults
        assert len(errors) == len(hostile.faults)


@pytest.mark.parametrize("hostile", INPUTS, ids=lambda hostile: hostile.name)
async def test_a_hostile_input_is_refused_and_leaves_nothing_behind(server: Server, hostile: Hostile) -> None:
    key = new_key()
    before = await server.written()

    answer = await server.post(hostile, key)

    check(answer, hostile)
    assert await server.written() == before
    # Were the key used up, this would be a conflict: it is looked up before the template is.
    assert (await server.send(UNKNOWN_TEMPLATE, key)).code == "template_not_found"
    assert CANARY not in server.logged().lower()


@pytest.mark.parametrize("hostile", OF_EACH_KIND, ids=lambda hostile: hostile.name)
async def test_the_key_of_a_refused_command_goes_with_a_good_one(server: Server, hostile: Hostile) -> None:
    key = new_key()
    await server.post(hostile, key)

    assert (await server.send(GOOD, key)).status == 202


@pytest.mark.parametrize("members", HARMLESS.values(), ids=HARMLESS.keys())
async def test_what_only_looks_hostile_is_accepted(server: Server, members: Mapping[str, Any]) -> None:
    answer = await server.send({**GOOD, **members}, new_key())

    assert answer.status == 202, answer.body


@pytest.mark.parametrize("key", [b"canary, canary", b"canary" + b"k" * 249, b'"%b"' % (b"k" * 255), b'"', b" ~ "])
async def test_what_only_looks_like_a_bad_key_is_a_key(server: Server, key: bytes) -> None:
    first, again = [await server.send(GOOD, key) for _ in range(2)]

    assert (first.status, again.status) == (202, 200)


async def test_a_body_of_just_the_allowed_size_is_read_with_and_without_a_length(server: Server) -> None:
    body = json.dumps(GOOD).encode().ljust(256 * 1024)
    chunked = Hostile(name="", body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body), framing=b"Transfer-Encoding: chunked")

    answers = [await server.post(hostile, new_key()) for hostile in (Hostile(name="", body=body), chunked)]

    assert [answer and answer.status for answer in answers] == [202, 202]


def test_the_table_is_as_large_as_was_promised_and_names_each_row_once() -> None:
    assert len({hostile.name for hostile in INPUTS}) == len(INPUTS) >= 150


def test_every_fault_of_a_command_is_in_the_table() -> None:
    assert {code for hostile in INPUTS for _, code in hostile.faults} == set(FaultCode) - OF_PUBLISHING - OF_IMPORTING


def test_the_templates_of_the_table_can_be_published() -> None:
    for subject, text, schema in TEMPLATES.values():
        assert check_template(subject, text, None, dict(schema)) == ()
