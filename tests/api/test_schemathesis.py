"""OpenAPI against the API itself: thousands of requests that schemathesis makes of the document, over real sockets."""

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from api.command_schema import DOMAIN
from db.ids import TenantId
from tests.api.conftest import application, make_key
from tests.api.operations import TENANT_SCOPES, Operation, furnish, operations_of, schemas_in
from tests.conftest import Database, free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the application answered to a method of a route."""

    method: str
    path: str
    status: int
    headers: frozenset[str]


@dataclass(slots=True)
class Witness:
    """Counts what an application answers, apart from who asks."""

    app: ASGIApp
    answers: Counter[Answer] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = frozenset(name.decode().lower() for name, _ in message["headers"])
                path = getattr(scope.get("route"), "path_format", "")
                self.answers[Answer(scope["method"], path, message["status"], headers)] += 1
            await send(message)

        await self.app(scope, receive, noted)


class _Server(uvicorn.Server):
    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to pytest."""
        yield


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application on a port of its own, and give its address."""
    port = free_port()
    server = _Server(uvicorn.Config(app, port=port, log_config=None, access_log=False))
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started, within=10)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await serving


def told(document: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """Add what the document can't know and this tenant does; and take it that no answer has more than it says."""
    # No call of an operator's makes what these are about, so that no link leads to them; and by chance none may lead to
    # the end of a key.
    for operation in operations_of(document):
        if operation.raw["tags"] == ["operators"] or operation.raw["operationId"] == "revoke_key":
            for parameter in [each for each in operation.raw["parameters"] if each["in"] == "path"]:
                (place,) = [each for each in operation.places if each.endswith(f"/{parameter['name']}")]
                parameter["schema"] = {"type": "string", "enum": [ids[place]]}
    call = document["paths"]["/v1/messages"]["post"]
    # With one key for all, most commands would be conflicts.
    del call["parameters"][0]["example"]
    (sending,) = call["requestBody"]["content"].values()
    sending["schema"]["required"].append("context")
    sending["schema"]["properties"] |= {
        "sender": {"type": "string", "enum": ["demo"]},
        "template": {"type": "object", "enum": [{"key": "welcome", "version": 1}]},
        "context": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    }
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    for _, schema in schemas_in(document):
        if isinstance(schema.get("pattern"), str):
            # Most of what looks like a domain is none.
            schema["pattern"] = schema["pattern"].replace(DOMAIN, "example[.]com")
    return document


async def schemathesis(*arguments: str, environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run schemathesis; give its exit status and what it says, without keys."""
    child = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        "--config-file",
        CONFIGURATION,
        "run",
        *arguments,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "120", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await child.communicate()
    return await child.wait(), re.sub(r"fp_(live|test)_\w+", "[a key]", output.decode())


@pytest.mark.parametrize(
    ("tags", "requests"),
    [
        (["messages", "senders", "suppressions", "templates", "health", "provider events"], 1250),
        (["tenants", "operators"], 750),
    ],
    ids=["a tenant's calls", "an operator's calls"],
)
async def test_what_is_asked_of_the_document_is_answered_as_it_says(
    database: Database, superuser: asyncpg.Connection, tmp_path: Path, tags: list[str], requests: int
) -> None:
    tenant_id = TenantId(f"tenant-{len(tags)}")
    ids = await furnish(superuser, tenant_id)
    environment = {
        "FENCEPOST_TENANT_KEY": await make_key(superuser, tenant_id, scopes=TENANT_SCOPES),
        "FENCEPOST_OPERATOR_KEY": await make_key(superuser, None, scopes=["operator"]),
    }
    async with application(database.url("fencepost_api")) as app:
        witness = Witness(app)
        document = told(json.loads(json.dumps(app.openapi())), ids)
        (tmp_path / "openapi.json").write_text(json.dumps(document))
        async with listening(witness) as url:
            status, output = await schemathesis(
                str(tmp_path / "openapi.json"),
                f"--url={url}",
                *(f"--include-tag={tag}" for tag in tags),
                environment=environment,
                folder=tmp_path,
            )

    print(output, table(witness))  # noqa: T201  (shown with `-s`, or where this fails)
    assert status == 0
    assert untrue(witness, [each for each in operations_of(document) if each.raw["tags"][0] in tags]) == []
    assert witness.answers.total() >= requests


def untrue(witness: Witness, operations: list[Operation]) -> list[str]:
    """Say where the answers differ from the document, and which calls were never answered with success."""
    described = {(operation.method.upper(), operation.path): operation for operation in operations}
    found = []
    for answer in witness.answers:
        operation = described.get((answer.method, answer.path))
        if operation is None:
            # Another method, or an address that schemathesis tries out to see what a server is like.
            found += [] if answer.status in (404, 405) else [f"{answer}: nobody described it"]
            continue
        response = operation.raw["responses"].get(str(answer.status))
        if response is None or answer.status >= 500:
            found.append(f"{answer}: another status")
            continue
        headers = {name.lower() for name in response["headers"]}
        if answer.headers - headers - {"content-type", "content-length"}:
            found.append(f"{answer}: another header")
    # Nobody can make SNS's signature up; what is signed is tests/api/test_openapi.py's.
    opened = {place for place, operation in described.items() if not operation.signed}
    succeeded = {(answer.method, answer.path) for answer in witness.answers if answer.status < 300}
    signed = described.keys() - opened
    found += [f"{method} {path}: let in without a signature" for method, path in succeeded & signed]
    return found + [f"{method} {path}: no success" for method, path in opened - succeeded]


def table(witness: Witness) -> str:
    """Draw how often each call was answered with each status."""
    statuses: dict[str, Counter[int]] = {}
    for answer, times in witness.answers.items():
        statuses.setdefault(f"{answer.method} {answer.path}", Counter())[answer.status] += times
    lines = [
        f"{name}: {', '.join(f'{status} x {times}' for status, times in sorted(counted.items()))}"
        for name, counted in statuses.items()
    ]
    return "\n".join([*sorted(lines), f"{witness.answers.total()} requests"])
