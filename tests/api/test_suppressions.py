"""Suppressions: added, looked up and removed one at a time, whoever asks at the same time."""

import asyncio
import itertools
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from api.addresses import parse
from db.ids import TenantId
from db.lifecycle import State
from tests.api.conftest import ADDRESS_KEY, Api, make_key
from tests.api.test_messages import problem
from tests.api.test_tenants import ALWAYS, BODY, LACKING, LIST, documented, followed
from tests.factories import make_message, make_tenant

#: An id that nothing has; not a new one each time, since it names tests that two processes share out.
NOBODYS = "01920000-0000-7000-8000-000000000000"
PATH = "/v1/suppressions"
_numbers = itertools.count(1)


@pytest.fixture
async def tenant(api: Api, superuser: asyncpg.Connection) -> TenantId:
    """Give a tenant of this test's own, and the API a key of it."""
    return await another(api, superuser)


async def another(api: Api, superuser: asyncpg.Connection) -> TenantId:
    """Make a tenant, and give the API its key."""
    tenant_id = TenantId(f"suppressions-{next(_numbers)}")
    await make_tenant(superuser, tenant_id)
    api.key = await make_key(superuser, tenant_id, scopes=["suppressions"])
    return tenant_id


async def added(api: Api, address: str = "ada@example.com", **members: Any) -> dict[str, Any]:
    answer = await api.ask("POST", PATH, {"address": address, **members})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def removed(api: Api, suppression: dict[str, Any], reason: str = "Works again") -> None:
    answer = await api.ask("DELETE", f"{PATH}/{suppression['id']}", {"reason": reason})
    assert (answer.status_code, answer.content) == (204, b"")


async def listed(api: Api, address: str) -> list[dict[str, Any]]:
    answer = await api.http.get(PATH, params={"address": address}, headers=api.authorized({}))
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def test_openapi_has_every_status_and_code(api: Api) -> None:
    calls = await documented(api)

    writing = {**ALWAYS, **BODY, "403": {"forbidden", "tenant_disabled"}, "429": {"rate_limited"}}
    assert {name: calls[name] for name in calls if "suppression" in name} == {
        "add_suppression": {"200": set(), "201": set(), **writing},
        "list_suppressions": {**ALWAYS, **LIST},
        "get_suppression": {"200": set(), **ALWAYS, **LACKING},
        "remove_suppression": {"204": set(), **writing, **LACKING},
        "export_suppressions": {"200": set(), **ALWAYS, "422": {"invalid_request"}},
        "import_suppressions": {"200": set(), **writing},
    }


@pytest.mark.usefixtures("tenant")
async def test_an_address_is_suppressed_for_everything_and_can_be_read(api: Api) -> None:
    answer = await api.ask("POST", PATH, {"address": "Ada@BÜCHER.example.com", "reason": "manual"})

    suppression = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{PATH}/{suppression['id']}"
    assert (await api.ask("GET", answer.headers["location"])).json() == suppression
    assert suppression == {
        "id": suppression["id"],
        "address": "Ada@xn--bcher-kva.example.com",
        "scope": "all",
        "reason": "manual",
        "message_id": None,
        "created_at": suppression["created_at"],
        "removed_at": None,
        "removed_reason": None,
    }


async def test_what_is_kept_is_what_a_message_s_recipient_is_compared_with(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection
) -> None:
    await added(api, "ADA@example.com")
    api.key = await make_key(superuser, tenant)

    sent = await api.send(to="ada@Example.com")

    assert sent.status_code == 202
    same = await superuser.fetchval(
        """SELECT count(*) FROM suppressions JOIN recipients USING (tenant_id, address_hash)
        WHERE recipients.message_id = $1""",
        sent.json()["id"],
    )
    assert same == 1


@pytest.mark.usefixtures("tenant")
async def test_an_address_that_is_suppressed_already_is_given_as_it_stands(api: Api) -> None:
    first = await added(api, "Ada@example.com")

    for address in ("Ada@example.com", "aDA@EXAMPLE.com"):
        again = await api.ask("POST", PATH, {"address": address, "scope": None, "reason": None})

        assert (again.status_code, again.json()) == (200, first)
        assert again.headers["location"] == f"{PATH}/{first['id']}"
    assert (await added(api, "ada@example.com", scope="newsletter"))["scope"] == "newsletter"
    assert len(await listed(api, "ada@EXAMPLE.com")) == 2


@pytest.mark.usefixtures("tenant")
async def test_an_address_is_given_as_it_is_suppressed_in_the_scope_that_was_asked_for(api: Api) -> None:
    made = {scope: await added(api, scope=scope) for scope in ("newsletter", "all", "receipts")}

    for scope, suppression in made.items():
        again = await api.ask("POST", PATH, {"address": "ada@example.com", "scope": scope})

        assert (again.status_code, again.json()) == (200, suppression)


async def test_what_a_provider_reported_suppresses_already_too(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.HARD_BOUNCED, tenant_id=tenant)
    await superuser.execute(
        """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason, message_id)
        VALUES ($1, $2, 'eve@example.com', $3, 'all', 'hard_bounce', $4)""",
        uuid4(),
        tenant,
        parse("eve@example.com").hashed(ADDRESS_KEY.encode()),
        message.id,
    )

    answer = await api.ask("POST", PATH, {"address": "Eve@example.com"})

    assert (answer.status_code, answer.json()["reason"]) == (200, "hard_bounce")
    assert answer.json()["message_id"] == str(message.id)


@pytest.mark.usefixtures("tenant")
async def test_a_removed_suppression_stays_readable_and_its_address_can_be_suppressed_again(api: Api) -> None:
    first = await added(api)
    await removed(api, first, "They wrote in")
    await removed(api, first, "Another reason")

    kept = (await api.ask("GET", f"{PATH}/{first['id']}")).json()
    assert await listed(api, "ada@example.com") == []
    second = await added(api)

    assert kept["removed_at"] > first["created_at"]
    assert kept == first | {"removed_at": kept["removed_at"], "removed_reason": "They wrote in"}
    assert second["id"] != first["id"]
    assert await listed(api, "ada@example.com") == [second]


@pytest.mark.usefixtures("tenant")
async def test_a_reason_may_stand_in_the_query_and_be_a_long_line(api: Api) -> None:
    first = await added(api)
    path = f"{PATH}/{first['id']}"

    answer = await api.http.delete(path, params={"reason": "é" * 1000}, headers=api.authorized({}))

    assert answer.status_code == 204
    assert (await api.ask("GET", path)).json()["removed_reason"] == "é" * 1000


async def test_of_many_at_once_one_adds_the_suppression(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection
) -> None:
    bodies = [{"address": f"{'aA'[number % 2]}da@example.com"} for number in range(10)]

    answers = await asyncio.gather(*(api.ask("POST", PATH, body) for body in bodies))

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.text for answer in answers}) == 1
    assert await superuser.fetchval("SELECT count(*) FROM suppressions WHERE tenant_id = $1", tenant) == 1


async def test_a_suppression_is_the_tenants_own(api: Api, tenant: TenantId, superuser: asyncpg.Connection) -> None:
    theirs = await added(api)
    path = f"{PATH}/{theirs['id']}"
    await added(api, "bob@example.com")
    cursor = (await api.ask("GET", f"{PATH}?limit=1")).json()["next_cursor"]
    await another(api, superuser)

    unseen = [await api.ask("GET", path), await api.ask("DELETE", path, {"reason": "None of mine"})]
    moved = await api.ask("GET", f"{PATH}?limit=1&cursor={cursor}")
    nothing = await api.ask("GET", PATH)
    own = await added(api)

    assert [problem(answer) for answer in unseen] == [(404, "not_found")] * 2
    assert problem(moved) == (400, "cursor_invalid")
    assert nothing.json()["data"] == []
    assert own["id"] != theirs["id"]
    held = "SELECT count(*) FROM suppressions WHERE removed_at IS NULL AND tenant_id = $1"
    assert await superuser.fetchval(held, tenant) == 2


@pytest.mark.usefixtures("tenant")
async def test_suppressions_are_listed_newest_first_and_each_once(api: Api) -> None:
    made = [await added(api, f"{name}@example.com") for name in "abcdef"]
    await removed(api, made.pop(2))

    pages = await followed(api, f"{PATH}?limit=2")

    assert [len(items) for items in pages] == [2, 2, 1]
    assert sorted((each for items in pages for each in items), key=lambda each: each["address"]) == made
    ids = [each["id"] for items in pages for each in items]
    assert ids == sorted(ids, reverse=True)


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("address=nobody", "/address", "address_invalid"),
        ("address=", "/address", "address_invalid"),
        ("address=Ada%20%3Cada@example.com%3E", "/address", "address_invalid"),
        ("address=%00@example.com", "/address", "address_invalid"),
        ("address=%FF@example.com", "/address", "address_invalid"),
        ("address=" + "a" * 321, "/address", "too_long"),
        ("address=a@example.com&address=b@example.com", "", "duplicate"),
        ("scope=all", "", "unknown_field"),
        ("limit=101", "/limit", "out_of_range"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(api: Api, query: str, pointer: str, code: str) -> None:
    answer = await api.ask("GET", f"{PATH}?{query}")

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"address": None}, "/address", "required"),
        ({"address": 7}, "/address", "wrong_type"),
        ({"address": "Canary <canary@example.com>"}, "/address", "address_invalid"),
        ({"address": {"address": "canary@example.com"}}, "/address", "wrong_type"),
        ({"address": "canary@example.com\n"}, "/address", "address_invalid"),
        ({"address": "canary@" + "x" * 400 + ".com"}, "/address", "too_long"),
        ({"scope": ""}, "/scope", "invalid_format"),
        ({"scope": "Canary"}, "/scope", "invalid_format"),
        ({"scope": "s" * 33}, "/scope", "invalid_format"),
        ({"scope": "canary\n"}, "/scope", "invalid_format"),
        ({"scope": ["all"]}, "/scope", "wrong_type"),
        ({"reason": "hard_bounce"}, "/reason", "not_allowed"),
        ({"reason": "canary"}, "/reason", "not_allowed"),
        ({"reason": 7}, "/reason", "not_allowed"),
        ({"message_id": NOBODYS}, "", "unknown_field"),
    ],
    ids=str,
)
async def test_what_is_no_suppression_is_refused(api: Api, change: dict[str, Any], pointer: str, code: str) -> None:
    answer = await api.ask("POST", PATH, {"address": "ada@example.com"} | change)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert "canary" not in answer.text.lower()
    assert (await api.ask("GET", PATH)).json()["data"] == []


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(
    ("query", "body", "pointer", "code"),
    [
        ("", None, "/reason", "required"),
        ("", {}, "/reason", "required"),
        ("", {"reason": None}, "/reason", "required"),
        ("", {"reason": " "}, "/reason", "invalid_format"),
        ("", {"reason": "two\nlines"}, "/reason", "invalid_format"),
        ("", {"reason": "x" * 1001}, "/reason", "invalid_format"),
        ("", {"reason": 7}, "/reason", "wrong_type"),
        ("", {"reason": "Works", "why": "canary"}, "", "unknown_field"),
        ("?reason=", None, "/reason", "invalid_format"),
        ("?reason=%00", None, "/reason", "invalid_format"),
        ("?reason=a&reason=a", None, "/reason", "duplicate"),
        ("?reason=a", {"reason": "a"}, "/reason", "duplicate"),
        ("?reason=a&why=canary", None, "", "unknown_field"),
    ],
    ids=str,
)
async def test_a_removal_without_one_good_reason_is_refused(
    api: Api, query: str, body: dict[str, Any] | None, pointer: str, code: str
) -> None:
    suppression = await added(api)

    answer = await api.ask("DELETE", f"{PATH}/{suppression['id']}{query}", body)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert "canary" not in answer.text
    assert await listed(api, "ada@example.com") == [suppression]


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("which", [NOBODYS, "nobody", "%00", "exports", "a%2Fb", "{" + NOBODYS + "}"])
async def test_an_id_that_no_suppression_has_or_can_have_is_not_there(api: Api, which: str) -> None:
    answers = [
        await api.ask("GET", f"{PATH}/{which}"),
        await api.ask("DELETE", f"{PATH}/{which}", {"reason": "Works again"}),
    ]

    assert [problem(answer) for answer in answers] == [(404, "not_found")] * 2


async def test_a_disabled_tenant_reads_its_suppressions_and_changes_none(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection
) -> None:
    before = await added(api)
    path = f"{PATH}/{before['id']}"
    await superuser.execute("UPDATE tenants SET state = 'disabled' WHERE id = $1", tenant)

    refused = [
        await api.ask("POST", PATH, {"address": "new@example.com"}),
        await api.ask("DELETE", path, {"reason": "Works again"}),
        await api.ask("DELETE", f"{PATH}/{uuid4()}", {"reason": "Works again"}),
    ]

    assert [problem(answer) for answer in refused] == [(403, "tenant_disabled")] * 3
    assert (await api.ask("GET", path)).json() == before
    assert await listed(api, "ada@example.com") == [before]


CALLS = [("POST", PATH), ("GET", PATH), ("GET", f"{PATH}/x"), ("DELETE", f"{PATH}/x"), ("GET", f"{PATH}/export")]


@pytest.mark.parametrize(("method", "path"), [*CALLS, ("POST", f"{PATH}/import")])
async def test_suppressions_need_their_own_scope(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection, method: str, path: str
) -> None:
    """It is judged before the body."""
    api.key = await make_key(superuser, tenant, scopes=["messages:send", "messages:read", "templates", "senders"])
    lacking = await api.ask(method, path, {"surprise": True})
    api.key = await make_key(superuser, None, scopes=["operator"])
    operators = await api.ask(method, path, {"surprise": True})
    api.key = "nonsense"
    unknown = await api.ask(method, path, {"surprise": True})

    assert [problem(answer) for answer in (lacking, operators)] == [(403, "forbidden")] * 2
    assert problem(unknown) == (401, "unauthenticated")


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(("method", "path"), [("POST", PATH), ("DELETE", f"{PATH}/x")])
async def test_a_body_is_json_and_not_too_large(api: Api, method: str, path: str) -> None:
    text = await api.http.request(method, path, headers=api.authorized({"Content-Type": "text/csv"}), content=b"{}")
    large = await api.ask(method, path, b'{"reason": "' + b"x" * 256 * 1024 + b'"}')
    broken = await api.ask(method, path, b'{"reason": ')

    assert problem(text) == (415, "unsupported_media_type")
    assert problem(large) == (413, "request_too_large")
    assert problem(broken) == (422, "invalid_request")
