"""Tenants: made, listed, named and switched by operators, each change with its row in the audit."""

import asyncio
import re
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from db.ids import TenantId
from tests.api.conftest import Api, make_key
from tests.api.test_messages import problem
from tests.factories import TENANT, make_tenant

NOBODY = "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d"


async def made(operator: Api, name: str = "Acme") -> str:
    """Make a tenant; give its id."""
    answer = await operator.ask("POST", "/v1/tenants", {"name": name})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def audited(connection: asyncpg.Connection, subject: str) -> list[str]:
    """Give what was done to something, in order."""
    rows = await connection.fetch("SELECT action FROM operator_audit WHERE subject = $1 ORDER BY at", subject)
    return [row["action"] for row in rows]


async def followed(api: Api, path: str) -> list[list[dict[str, Any]]]:
    """Follow `Link` from the first page to the last; give each page's items."""
    pages = []
    answer = await api.ask("GET", path)
    while True:
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["data"])
        if "next" not in answer.links:
            assert answer.json()["next_cursor"] is None
            return pages
        assert answer.json()["next_cursor"] is not None
        answer = await api.ask("GET", answer.links["next"]["url"])


async def documented(api: Api) -> dict[str, dict[str, set[str]]]:
    """Give the codes that OpenAPI has for each call, by operation and status."""
    paths = (await api.http.get("/openapi.json")).json()["paths"]
    return {
        call["operationId"]: {
            status: set(response.get("content", {}).get("application/problem+json", {}).get("examples", {}))
            for status, response in call["responses"].items()
        }
        for calls in paths.values()
        for call in calls.values()
    }


#: What every call may answer.
ALWAYS = {
    "401": {"unauthenticated"},
    "403": {"forbidden"},
    "500": {"internal"},
    "503": {"unavailable"},
}
#: What every call with a body may answer.
BODY = {"413": {"request_too_large"}, "415": {"unsupported_media_type"}, "422": {"invalid_request"}}
LIST = {"200": set[str](), "400": {"cursor_invalid"}, "422": {"invalid_request"}}
LACKING = {"404": {"not_found"}}
INACTIVE = {"409": {"key_not_active"}}


async def test_openapi_has_every_status_and_code(api: Api) -> None:
    calls = await documented(api)

    assert {name: calls[name] for name in calls if name.endswith(("tenant", "tenants", "key", "keys"))} == {
        "create_tenant": {"201": set(), **ALWAYS, **BODY},
        "list_tenants": {**ALWAYS, **LIST},
        "get_tenant": {"200": set(), **ALWAYS, **LACKING},
        "change_tenant": {"200": set(), **ALWAYS, **BODY, **LACKING},
        "issue_key": {"201": set(), **ALWAYS, **BODY, **LACKING},
        "list_keys": {**ALWAYS, **LIST, **LACKING},
        "change_key": {"200": set(), **ALWAYS, **BODY, **LACKING, **INACTIVE},
        "rotate_key": {"201": set(), **ALWAYS, **BODY, **LACKING, **INACTIVE},
        "revoke_key": {"204": set(), **ALWAYS, **LACKING},
    }


async def test_every_link_leads_to_a_call_with_its_parameters(api: Api) -> None:
    calls = [
        call for calls in (await api.http.get("/openapi.json")).json()["paths"].values() for call in calls.values()
    ]
    parameters = {call["operationId"]: {taken["name"] for taken in call.get("parameters", [])} for call in calls}
    links = [
        link for call in calls for response in call["responses"].values() for link in response.get("links", {}).values()
    ]

    assert {"get_tenant", "issue_key", "change_key", "rotate_key", "revoke_key", "get_sender", "change_sender"} <= {
        link["operationId"] for link in links
    }
    for link in links:
        names = {name.rpartition(".")[2] for name in link.get("parameters", {})}
        assert names <= parameters[link["operationId"]]


async def test_a_tenant_is_made_active_and_can_be_read(operator: Api, superuser: asyncpg.Connection) -> None:
    answer = await operator.ask("POST", "/v1/tenants", {"name": "Grüße & Söhne 🎈"})

    tenant = answer.json()
    assert answer.status_code == 201
    assert set(tenant) == {"id", "name", "state", "created_at"}
    assert (tenant["name"], tenant["state"]) == ("Grüße & Söhne 🎈", "active")
    assert UUID(tenant["id"]).version == 7
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z", tenant["created_at"])
    assert answer.headers["location"] == f"/v1/tenants/{tenant['id']}"
    assert (await operator.ask("GET", answer.headers["location"])).json() == tenant
    row = await superuser.fetchrow("SELECT * FROM operator_audit WHERE subject = $1", tenant["id"])
    assert row is not None
    assert (row["action"], row["tenant_id"], row["credential_id"]) == (
        "tenant_created",
        tenant["id"],
        operator.key.split("_")[2],
    )


async def test_tenants_are_listed_oldest_first_and_each_once(operator: Api) -> None:
    new = [await made(operator, f"tenant {number}") for number in range(5)]

    pages = await followed(operator, "/v1/tenants?limit=2")

    ids = [tenant["id"] for items in pages for tenant in items]
    assert [tenant_id for tenant_id in ids if tenant_id in new] == new
    assert len(ids) == len(set(ids))
    assert {len(items) for items in pages[:-1]} == {2}


async def test_a_cursor_is_good_for_its_own_list_only(operator: Api) -> None:
    tenant_id = await made(operator)
    cursor = (await operator.ask("GET", "/v1/tenants?limit=1")).json()["next_cursor"]

    tampered = await operator.ask("GET", f"/v1/tenants?cursor={cursor[:-1]}")
    elsewhere = await operator.ask("GET", f"/v1/tenants/{tenant_id}/keys?cursor={cursor}")
    unknown = await operator.ask("GET", "/v1/tenants?limit=0&surprise=1")

    assert problem(tampered) == (400, "cursor_invalid")
    assert problem(elsewhere) == (400, "cursor_invalid")
    assert problem(unknown) == (422, "invalid_request")


async def test_a_tenant_is_switched_off_and_on_and_renamed(operator: Api, superuser: asyncpg.Connection) -> None:
    tenant_id = await made(operator, "Before")

    off = await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"state": "disabled"})
    renamed = await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"name": "After"})
    both = await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"name": "Last", "state": "active"})

    assert [(answer.status_code, answer.json()["name"], answer.json()["state"]) for answer in (off, renamed, both)] == [
        (200, "Before", "disabled"),
        (200, "After", "disabled"),
        (200, "Last", "active"),
    ]
    assert await audited(superuser, tenant_id) == [
        "tenant_created",
        "tenant_disabled",
        "tenant_renamed",
        "tenant_enabled",
        "tenant_renamed",
    ]


async def test_a_change_that_changes_nothing_is_not_audited(operator: Api, superuser: asyncpg.Connection) -> None:
    tenant_id = await made(operator, "Same")

    answers = [
        await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", change)
        for change in ({}, {"name": "Same"}, {"state": "active"}, {"name": "Same", "state": "active"})
    ]

    assert {answer.status_code for answer in answers} == {200}
    assert await audited(superuser, tenant_id) == ["tenant_created"]


async def test_of_many_switches_at_once_one_is_audited(operator: Api, superuser: asyncpg.Connection) -> None:
    tenant_id = await made(operator)

    answers = await asyncio.gather(
        *(operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"state": "disabled"}) for _ in range(10))
    )

    assert {(answer.status_code, answer.json()["state"]) for answer in answers} == {(200, "disabled")}
    assert await audited(superuser, tenant_id) == ["tenant_created", "tenant_disabled"]


async def test_a_tenant_that_is_switched_off_takes_nothing_new_until_it_is_on_again(
    api: Api, operator: Api, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("switched")
    await make_tenant(superuser, tenant_id)
    api.key = await make_key(superuser, tenant_id)
    await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"state": "disabled"})
    off = await api.send()
    await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"state": "active"})

    assert problem(off) == (403, "tenant_disabled")
    assert (await api.send()).status_code == 202


async def test_nothing_happens_without_its_row_in_the_audit(operator: Api, superuser: asyncpg.Connection) -> None:
    tenant_id = await made(operator, "Audited")
    before = await superuser.fetch("SELECT * FROM tenants ORDER BY id")
    await superuser.execute("REVOKE INSERT ON operator_audit FROM fencepost_api")
    try:
        answers = [
            await operator.ask("POST", "/v1/tenants", {"name": "Unaudited"}),
            await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"state": "disabled"}),
        ]
    finally:
        await superuser.execute("GRANT INSERT ON operator_audit TO fencepost_api")

    assert [answer.status_code for answer in answers] == [500, 500]
    assert await superuser.fetch("SELECT * FROM tenants ORDER BY id") == before


async def test_nothing_stands_in_the_audit_that_did_not_happen(operator: Api, superuser: asyncpg.Connection) -> None:
    """Not where the commit itself fails, either."""
    tenant_id = await made(operator)
    await superuser.execute(
        """CREATE FUNCTION refuse_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
        CREATE CONSTRAINT TRIGGER refuse_commit AFTER UPDATE ON tenants DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refuse_commit()"""
    )
    try:
        answer = await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", {"state": "disabled"})
    finally:
        await superuser.execute("DROP TRIGGER refuse_commit ON tenants; DROP FUNCTION refuse_commit()")

    assert answer.status_code == 503
    assert (await operator.ask("GET", f"/v1/tenants/{tenant_id}")).json()["state"] == "active"
    assert await audited(superuser, tenant_id) == ["tenant_created"]


@pytest.mark.parametrize("name", ["A", "x" * 200, "日本", "O'Neil & Co. <b>"])
async def test_a_name_is_any_printable_text(operator: Api, name: str) -> None:
    answer = await operator.ask("POST", "/v1/tenants", {"name": name})

    assert (answer.status_code, answer.json()["name"]) == (201, name)


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/name", "required"),
        ({"name": None}, "/name", "required"),
        ({"name": 7}, "/name", "wrong_type"),
        ({"name": ""}, "/name", "invalid_format"),
        ({"name": " \u00a0"}, "/name", "invalid_format"),
        ({"name": "x" * 201}, "/name", "invalid_format"),
        ({"name": "two\nlines"}, "/name", "invalid_format"),
        ({"name": "a\u2028b"}, "/name", "invalid_format"),
        ({"name": "\x7f"}, "/name", "invalid_format"),
        (b'{"name": "half \\ud800"}', "", "json_text"),
        ({"name": "Acme", "state": "active"}, "", "unknown_field"),
        (["Acme"], "", "wrong_type"),
    ],
    ids=str,
)
async def test_what_is_no_tenant_is_refused(operator: Api, body: Any, pointer: str, code: str) -> None:
    answer = await operator.ask("POST", "/v1/tenants", body)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"state": "deleted"}, "/state", "not_allowed"),
        ({"state": None}, "/state", "required"),
        ({"state": ["active"]}, "/state", "wrong_type"),
        ({"name": None}, "/name", "required"),
        ({"name": "two\r\nlines"}, "/name", "invalid_format"),
        ({"id": "other"}, "", "unknown_field"),
    ],
    ids=str,
)
async def test_a_change_that_makes_no_sense_is_refused(
    operator: Api, superuser: asyncpg.Connection, change: Any, pointer: str, code: str
) -> None:
    tenant_id = await made(operator)

    answer = await operator.ask("PATCH", f"/v1/tenants/{tenant_id}", change)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert await audited(superuser, tenant_id) == ["tenant_created"]


@pytest.mark.parametrize("tenant_id", [NOBODY, "nobody", "%00", "UPPER", "a%2Fb", "x" * 65, "ä", "%ff"])
async def test_an_id_that_nobody_has_and_one_that_nobody_can_have_look_alike(operator: Api, tenant_id: str) -> None:
    path = f"/v1/tenants/{tenant_id}"

    answers = [
        await operator.ask("GET", path),
        await operator.ask("PATCH", path, {"state": "disabled"}),
        await operator.ask("GET", f"{path}/keys"),
        await operator.ask("POST", f"{path}/keys", {"scopes": ["messages:send"]}),
        await operator.ask("PATCH", f"{path}/keys/{uuid4().hex[:16]}", {"scopes": ["messages:send"]}),
        await operator.ask("POST", f"{path}/keys/{uuid4().hex[:16]}/rotate"),
        await operator.ask("DELETE", f"{path}/keys/{uuid4().hex[:16]}"),
    ]

    assert [problem(answer) for answer in answers] == [(404, "not_found")] * len(answers)


OPERATORS_CALLS = [
    ("POST", "/v1/tenants"),
    ("GET", "/v1/tenants"),
    ("GET", f"/v1/tenants/{TENANT}"),
    ("PATCH", f"/v1/tenants/{TENANT}"),
    ("POST", f"/v1/tenants/{TENANT}/keys"),
    ("GET", f"/v1/tenants/{TENANT}/keys"),
    ("PATCH", f"/v1/tenants/{TENANT}/keys/{'0' * 16}"),
    ("POST", f"/v1/tenants/{TENANT}/keys/{'0' * 16}/rotate"),
    ("DELETE", f"/v1/tenants/{TENANT}/keys/{'0' * 16}"),
]


@pytest.mark.parametrize(("method", "path"), OPERATORS_CALLS)
async def test_a_tenants_key_does_nothing_that_operators_do(
    api: Api, superuser: asyncpg.Connection, method: str, path: str
) -> None:
    """It is judged before the body and the id, so that neither says anything to somebody without the scope."""
    every = ["messages:send", "messages:read", "templates", "senders", "suppressions", "content:read"]
    api.key = await make_key(superuser, scopes=every)
    forbidden = await api.ask(method, path, {"surprise": True})
    api.key = "nonsense"
    unauthenticated = await api.ask(method, path, {"surprise": True})

    assert problem(forbidden) == (403, "forbidden")
    assert problem(unauthenticated) == (401, "unauthenticated")


WITH_A_BODY = [(method, path) for method, path in OPERATORS_CALLS if method in ("POST", "PATCH")]


@pytest.mark.parametrize(("method", "path"), WITH_A_BODY)
async def test_a_body_is_json_and_not_too_large(operator: Api, method: str, path: str) -> None:
    async def ask(kind: str, content: bytes) -> httpx.Response:
        headers = operator.authorized({"Content-Type": kind})
        return await operator.http.request(method, path, headers=headers, content=content)

    text = await ask("text/plain", b"{}")
    large = await ask("application/json", b'{"name": "' + b"x" * 256 * 1024 + b'"}')
    broken = await ask("application/json", b'{"name": ')

    assert problem(text) == (415, "unsupported_media_type")
    assert problem(large) == (413, "request_too_large")
    assert problem(broken) == (422, "invalid_request")
