"""The template calls: publishing, reading, listing, previewing, and every way to be refused."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from api.faults import FaultCode
from api.rendering import check_template
from db.ids import TenantId
from tests.api.conftest import Api, make_key, serving
from tests.api.test_intake_outages import through
from tests.api.test_messages import problem
from tests.conftest import Database
from tests.factories import make_tenant
from tests.faults.proxy import Loss, fault_proxy

PAGE = (Path(__file__).parents[2] / "docs" / "templates.md").read_text()
RACERS = 10
VERSION: dict[str, Any] = {
    "subject": "Hello {{ name }}",
    "text": "Dear {{ name }}",
    "html": "<p>Dear {{ name }}</p>",
    "purpose": "receipt",
    "context_schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    },
}


@pytest.fixture
def key() -> str:
    """Give a template's key that nobody has used yet."""
    return f"t{uuid4().hex}"


async def publish(api: Api, key: str, body: Any = None, **changes: Any) -> Any:
    return await api.ask("POST", f"/v1/templates/{key}/versions", VERSION | changes if body is None else body)


async def preview(api: Api, key: str, context: Any, version: int = 1) -> Any:
    return await api.ask("POST", f"/v1/templates/{key}/versions/{version}/preview", {"context": context})


def faults(answer: Any) -> list[tuple[str, str]]:
    assert problem(answer) == (422, "invalid_request")
    return [(error["pointer"], error["code"]) for error in answer.json()["errors"]]


async def test_a_version_is_published_and_can_be_read_and_never_changes(api: Api, key: str) -> None:
    first = await publish(api, key)
    second = await publish(api, key, subject="Goodbye {{ name }}")

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.headers["location"] == f"/v1/templates/{key}/versions/1"
    assert second.headers["location"] == f"/v1/templates/{key}/versions/2"
    body = first.json()
    assert body.pop("created_at").endswith("Z")
    assert body == {"key": key, "version": 1, **VERSION}
    for answer in (first, second):
        read = await api.ask("GET", answer.headers["location"])
        assert (read.status_code, read.json()) == (200, answer.json())


async def test_what_is_left_out_is_the_default(api: Api, key: str) -> None:
    by_absence = await publish(api, key, {"subject": "Hello", "html": "<p>a</p>"})
    nothing = {"text": None, "purpose": None, "context_schema": None}
    by_null = await publish(api, key, {"subject": "Hello", "html": "<p>a</p>", **nothing})

    body = by_absence.json()
    assert (body["text"], body["purpose"], body["context_schema"]) == (None, "transactional", {})
    assert (by_null.status_code, by_null.json()) == (200, body)


async def test_publishing_the_newest_again_gives_it_and_adds_nothing(api: Api, key: str) -> None:
    first = await publish(api, key)
    again = await publish(api, key)
    await publish(api, key, purpose="other")
    back = await publish(api, key)

    assert (again.status_code, again.headers["location"]) == (200, first.headers["location"])
    assert again.json() == first.json()
    assert (back.status_code, back.json()["version"]) == (201, 3)


async def test_many_who_publish_the_same_at_once_make_one_version(api: Api, key: str) -> None:
    answers = await asyncio.gather(*(publish(api, key) for _ in range(RACERS)))

    assert sorted(answer.status_code for answer in answers) == [200] * (RACERS - 1) + [201]
    assert {answer.json()["version"] for answer in answers} == {1}


async def test_many_who_publish_different_content_at_once_get_consecutive_numbers(api: Api, key: str) -> None:
    answers = await asyncio.gather(*(publish(api, key, subject=f"Hello {number}") for number in range(RACERS)))

    assert {answer.status_code for answer in answers} == {201}
    assert sorted(answer.json()["version"] for answer in answers) == list(range(1, RACERS + 1))


@pytest.mark.parametrize(("loss", "status"), [(Loss.REPLY, 200), (Loss.COMMIT, 201)])
async def test_publishing_again_after_a_lost_answer_is_safe(
    database: Database, superuser: asyncpg.Connection, key: str, loss: Loss, status: int
) -> None:
    await make_tenant(superuser)
    api_key = await make_key(superuser)
    async with (
        fault_proxy(database.server.port, postgres=True) as proxy,
        serving(through(proxy, database), api_key) as api,
    ):
        await publish(api, f"{key}-warm")
        proxy.lose(loss)
        lost = await publish(api, key)
        again = await publish(api, key)

    assert proxy.lost == 1
    assert problem(lost) == (503, "unavailable")
    assert (again.status_code, again.json()["version"]) == (status, 1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"subject": None}, [("/subject", "required")]),
        ({"subject": ""}, [("/subject", "required")]),
        ({"subject": "a\nb"}, [("/subject", "subject_not_one_line")]),
        ({"subject": 1}, [("/subject", "wrong_type")]),
        ({"text": None, "html": None}, [("/text", "required")]),
        ({"text": "", "html": " "}, [("/text", "required"), ("/html", "required")]),
        ({"text": None, "html": "<br>"}, [("/html", "required")]),
        ({"text": ["a"]}, [("/text", "wrong_type")]),
        ({"text": "{{"}, [("/text", "template_syntax")]),
        ({"html": "{{ name|safe }}"}, [("/html", "template_forbidden")]),
        ({"html": "{{ nam }}"}, [("/html", "template_undefined")]),
        ({"purpose": "No Purpose"}, [("/purpose", "invalid_format")]),
        ({"context_schema": []}, [("/context_schema", "wrong_type")]),
        ({"context_schema": {"type": "nothing"}}, [("/context_schema", "schema_invalid")]),
        ({"context_schema": {"$ref": "https://example.com/"}}, [("/context_schema", "schema_invalid")]),
        ({"canary": 1}, [("", "unknown_field")]),
    ],
    ids=str,
)
async def test_what_can_t_be_used_is_no_version(
    api: Api, key: str, changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    answer = await publish(api, key, **changes)

    assert faults(answer) == expected
    assert "canary" not in answer.text
    assert problem(await api.ask("GET", f"/v1/templates/{key}/versions/1")) == (404, "not_found")


async def test_every_fault_is_told_at_once(api: Api) -> None:
    bad = {"subject": "{{", "text": "{% if %}", "html": "{{ a|safe }}", "purpose": "", "context_schema": {"type": 1}}

    answer = await publish(api, "Bad_Key", {**bad, "more": 1})

    assert sorted(faults(answer)) == [
        ("", "unknown_field"),
        ("/context_schema", "schema_invalid"),
        ("/html", "template_forbidden"),
        ("/key", "invalid_format"),
        ("/purpose", "invalid_format"),
        ("/subject", "template_syntax"),
        ("/text", "template_syntax"),
    ]


@pytest.mark.parametrize("key", ["Welcome", "-a", "a" * 65, "a%20b", "%C3%A9", "a.b", "%00"])
async def test_a_malformed_key_is_told_to_who_publishes_and_is_no_template_to_who_reads(api: Api, key: str) -> None:
    assert faults(await publish(api, key)) == [("/key", "invalid_format")]
    assert problem(await api.ask("GET", f"/v1/templates/{key}/versions/1")) == (404, "not_found")
    assert problem(await preview(api, key, {})) == (404, "not_found")


@pytest.mark.parametrize("number", ["0", "-1", "01", "1.0", "+1", "%201", "x", "2", "2147483648", "9" * 5000, "%D9%A1"])
async def test_a_version_that_is_none_is_not_found(api: Api, number: str) -> None:
    assert (await api.ask("GET", "/v1/templates/welcome/versions/1")).status_code == 200

    for answer in (
        await api.ask("GET", f"/v1/templates/welcome/versions/{number}"),
        await api.ask("POST", f"/v1/templates/welcome/versions/{number}/preview", {}),
    ):
        assert problem(answer) == (404, "not_found")


async def test_somebody_elses_template_is_not_found_and_not_listed(
    api: Api, superuser: asyncpg.Connection, key: str
) -> None:
    await publish(api, key)
    neighbour = TenantId("neighbour")
    await make_tenant(superuser, neighbour)
    theirs = Api(http=api.http, key=await make_key(superuser, neighbour))

    assert problem(await theirs.ask("GET", f"/v1/templates/{key}/versions/1")) == (404, "not_found")
    assert problem(await preview(theirs, key, {"name": "Ada"})) == (404, "not_found")
    assert [each["key"] for each in (await theirs.ask("GET", "/v1/templates")).json()["data"]] == ["welcome"]
    assert (await publish(theirs, key, subject="Theirs")).json()["version"] == 1
    assert (await api.ask("GET", f"/v1/templates/{key}/versions/1")).json()["subject"] == VERSION["subject"]


async def test_templates_are_listed_by_key_with_their_newest_version_a_page_at_a_time(
    api: Api, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("lists")
    await make_tenant(superuser, tenant_id)
    api.key = await make_key(superuser, tenant_id)
    for key in ("b", "c", "a"):
        await publish(api, key)
    newest = (await publish(api, "b", purpose="newer")).json()

    found, pages, where = [], 0, "/v1/templates?limit=2"
    while where:
        answer = await api.ask("GET", where)
        found += answer.json()["data"]
        pages += 1
        where = answer.links.get("next", {}).get("url", "")
        assert bool(where) == (answer.json()["next_cursor"] is not None)

    assert pages == 2
    assert [(each["key"], each["version"]) for each in found] == [("a", 1), ("b", 2), ("c", 1), ("welcome", 1)]
    assert found[1] == {name: newest[name] for name in ("key", "version", "purpose", "created_at")}


async def test_a_cursor_of_another_tenant_or_with_nonsense_in_it_is_invalid(
    api: Api, superuser: asyncpg.Connection, key: str
) -> None:
    await publish(api, key)
    cursor = (await api.ask("GET", "/v1/templates?limit=1")).json()["next_cursor"]
    await make_tenant(superuser, TenantId("thief"))
    thief = Api(http=api.http, key=await make_key(superuser, TenantId("thief")))

    assert (await api.ask("GET", f"/v1/templates?cursor={cursor}")).status_code == 200
    assert problem(await thief.ask("GET", f"/v1/templates?cursor={cursor}")) == (400, "cursor_invalid")
    assert problem(await api.ask("GET", "/v1/templates?cursor=nonsense")) == (400, "cursor_invalid")
    assert faults(await api.ask("GET", "/v1/templates?limit=0&more=1")) == [
        ("", "unknown_field"),
        ("/limit", "out_of_range"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"text": None},
        {"html": None},
        {"html": "{{ name }} {{ list }} {{ object }} {{ number }}", "context_schema": {}, "text": None},
    ],
    ids=str,
)
async def test_a_preview_is_what_a_message_would_be(
    api: Api, superuser: asyncpg.Connection, key: str, changes: dict[str, Any]
) -> None:
    await publish(api, key, **changes)
    context: dict[str, Any] = {"name": "Ada & <Bob>"}
    if "context_schema" in changes:
        context |= {"list": [1.0, 1e20], "object": {"b": 1, "a": [True, None]}, "number": -0.0}

    shown = await preview(api, key, context)
    sent = await api.send(template={"key": key, "version": 1}, context=context)

    row = await superuser.fetchrow(
        "SELECT subject, text, html FROM message_contents WHERE message_id = $1", UUID(sent.json()["id"])
    )
    assert row is not None
    assert shown.json() == dict(row)
    assert sent.json()["purpose"] == "receipt"


async def test_a_preview_stores_nothing(api: Api, superuser: asyncpg.Connection) -> None:
    before = await superuser.fetchval("SELECT count(*) FROM messages")

    answer = await preview(api, "welcome", {"name": "Ada"})

    assert (answer.status_code, answer.json()) == (200, {"subject": "Hello Ada", "text": "Dear Ada", "html": None})
    assert await superuser.fetchval("SELECT count(*) FROM messages") == before


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("/context/name", "required")]),
        ({"context": None}, [("/context/name", "required")]),
        ({"context": {"name": 1}}, [("/context/name", "wrong_type")]),
        ({"context": {"name": "Ada", "canary": 1}}, [("/context", "unknown_field")]),
        ({"context": {"name": "a\nb"}}, [("/context", "subject_not_one_line")]),
        ({"context": {"name": "a" * 65_536}}, [("/context", "context_too_large")]),
        ({"context": []}, [("/context", "wrong_type")]),
        ({"context": {"name": "Ada"}, "canary": 1}, [("", "unknown_field")]),
        ([], [("", "wrong_type")]),
    ],
    ids=range(9),
)
async def test_a_context_that_does_not_fit_is_refused_with_a_pointer(
    api: Api, key: str, body: Any, expected: list[tuple[str, str]]
) -> None:
    await publish(api, key)

    answer = await api.ask("POST", f"/v1/templates/{key}/versions/1/preview", body)

    assert faults(answer) == expected
    assert "canary" not in answer.text


async def test_a_message_of_a_template_without_text_has_the_text_of_its_html(
    api: Api, superuser: asyncpg.Connection, key: str
) -> None:
    html = "<p>Dear {{ name }}, click <a href='{{ url }}'>here</a>.</p>"
    await publish(api, key, text=None, html=html, context_schema={})

    sent = await api.send(
        template={"key": key, "version": 1}, context={"name": "Ada", "url": "https://example.com/?a=1&copy=2"}
    )
    refused = await api.send(template={"key": key, "version": 1}, context={"name": "Ada"})

    text = await superuser.fetchval("SELECT text FROM message_contents WHERE message_id = $1", UUID(sent.json()["id"]))
    assert text == "Dear Ada, click here <https://example.com/?a=1&copy=2>."
    assert faults(refused) == [("/context", "template_undefined")]


async def test_a_disabled_tenant_reads_and_previews_and_publishes_nothing(
    api: Api, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("disabled")
    await make_tenant(superuser, tenant_id)
    api.key = await make_key(superuser, tenant_id)
    await superuser.execute("UPDATE tenants SET state = 'disabled' WHERE id = $1", tenant_id)

    assert problem(await publish(api, "welcome")) == (403, "tenant_disabled")
    assert (await api.ask("GET", "/v1/templates/welcome/versions/1")).status_code == 200
    assert (await api.ask("GET", "/v1/templates")).status_code == 200
    assert (await preview(api, "welcome", {"name": "Ada"})).status_code == 200


CALLS = [
    ("POST", "/v1/templates/welcome/versions"),
    ("GET", "/v1/templates"),
    ("GET", "/v1/templates/welcome/versions/1"),
    ("POST", "/v1/templates/welcome/versions/1/preview"),
]
WRITING = [call for call in CALLS if call[0] == "POST"]


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_each_call_needs_a_key_with_its_scope(
    api: Api, superuser: asyncpg.Connection, method: str, path: str
) -> None:
    for key in (
        await make_key(superuser, scopes=["messages:send", "messages:read", "senders"]),
        await make_key(superuser, None, scopes=["operator"]),
    ):
        assert problem(await Api(http=api.http, key=key).ask(method, path)) == (403, "forbidden")
    assert problem(await Api(http=api.http, key="nonsense").ask(method, path)) == (401, "unauthenticated")


@pytest.mark.parametrize(("method", "path"), WRITING)
async def test_each_body_is_json_of_a_bounded_size(api: Api, method: str, path: str) -> None:
    plain = await api.http.request(method, path, headers=api.authorized({"Content-Type": "text/plain"}), content=b"{}")

    assert problem(plain) == (415, "unsupported_media_type")
    assert problem(await api.ask(method, path, b" " * (256 * 1024 + 1))) == (413, "request_too_large")
    assert faults(await api.ask(method, path, b"{")) == [("", "json_malformed")]
    assert faults(await api.ask(method, path, b'{"context": {"a": "\\u0000"}}')) == [("", "json_text")]


@pytest.mark.parametrize(("method", "path"), WRITING)
async def test_each_call_with_a_body_is_counted_against_the_rate(
    database: Database, superuser: asyncpg.Connection, method: str, path: str
) -> None:
    tenant_id = TenantId(f"rate{uuid4()}")
    await make_tenant(superuser, tenant_id)
    key = await make_key(superuser, tenant_id)
    async with serving(database.url("fencepost_api"), key, rate_per_second=0.001, rate_burst=1) as api:
        first = await api.ask(method, path, {})
        second = await api.ask(method, path, {})
        read = await api.ask("GET", "/v1/templates")

    assert first.status_code != 429
    assert problem(second) == (429, "rate_limited")
    assert int(second.headers["retry-after"]) > 0
    assert read.status_code == 200


STATUSES = {
    ("/v1/templates/{key}/versions", "post"): {"200", "201", "401", "403", "413", "415", "422", "429", "500", "503"},
    ("/v1/templates", "get"): {"200", "400", "401", "403", "422", "500", "503"},
    ("/v1/templates/{key}/versions/{n}", "get"): {"200", "401", "403", "404", "500", "503"},
    ("/v1/templates/{key}/versions/{n}/preview", "post"): {
        "200", "401", "403", "404", "413", "415", "422", "429", "500", "503",
    },
}  # fmt: skip


async def test_openapi_has_every_status_of_each_call_and_its_examples_work(api: Api, key: str) -> None:
    document = (await api.http.get("/openapi.json")).json()
    calls = {(path, method): document["paths"][path][method] for path, method in STATUSES}
    publishing = calls["/v1/templates/{key}/versions", "post"]
    previewing = calls["/v1/templates/{key}/versions/{n}/preview", "post"]

    (version,) = publishing["requestBody"]["content"]["application/json"]["schema"]["examples"]
    (context,) = previewing["requestBody"]["content"]["application/json"]["schema"]["examples"]
    published = await publish(api, key, version)
    previewed = await api.ask("POST", f"{published.headers['location']}/preview", context)

    assert {call: set(calls[call]["responses"]) for call in calls} == STATUSES
    assert (published.status_code, previewed.status_code) == (201, 200)
    by_id = {call["operationId"]: path for (path, _), call in calls.items()}
    for status in ("200", "201"):
        links = publishing["responses"][status]["links"]
        assert set(links) == {"read", "preview", "list"}
        for link in links.values():
            wanted = re.findall(r"\{(\w+)\}", by_id[link["operationId"]])
            assert set(link.get("parameters", {})) == set(wanted)


def blocks() -> Iterator[tuple[str, str]]:
    """Give the page's examples, in order, each with its language."""
    yield from re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


async def test_every_example_of_the_page_works_as_it_is_printed(api: Api, superuser: asyncpg.Connection) -> None:
    """Without curl, which not every machine has: its arguments are read as a shell reads them."""
    tenant_id = TenantId("reader")
    await make_tenant(superuser, tenant_id)
    await superuser.execute(
        "INSERT INTO senders (tenant_id, key, address) VALUES ($1, 'demo', 'hello@demo.example.com')", tenant_id
    )
    key = await make_key(superuser, tenant_id)
    statuses = []

    answer: Any = None
    for language, example in blocks():
        if language == "sh":
            words = [word.replace("$KEY", key) for word in shlex.split(example)]
            assert words[:2] == ["curl", "-sS"]
            options = list(pairwise(words))
            headers = dict(word.split(": ", 1) for option, word in options if option == "-H")
            (content,) = (word for option, word in options if option == "-d")
            path = words[2].removeprefix("http://127.0.0.1:7480")
            answer = await api.http.post(path, headers=headers, content=content)
            statuses.append(answer.status_code)
        elif language == "json":
            expected, found = json.loads(example), answer.json()
            assert {**found, "request_id": expected.get("request_id")} == {"request_id": None, **expected}
        else:
            assert language == "jinja"
            assert check_template("Hello", example, example, {}) == ()

    assert statuses == [201, 200, 202, 422]


def test_the_page_has_every_code_that_a_template_can_give() -> None:
    told = set(re.findall(r"^\|(.*?)\| ", PAGE.partition("## Faults")[2], re.MULTILINE))
    codes = {code for cell in told for code in re.findall(r"`([a-z_]+)`", cell)} - {"code"}

    of_files = {code for code in FaultCode if code.startswith(("json_", "csv_"))}
    of_addresses = {FaultCode.ADDRESS_INVALID, FaultCode.NAME_INVALID, FaultCode.RESERVED}
    assert codes == set(FaultCode) - of_files - of_addresses
