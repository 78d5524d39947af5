"""Senders: made once, listed, changed member by member, and switched off and on."""

import asyncio
import itertools
import json
import re
from typing import Any

import asyncpg
import pytest

from db.ids import TenantId
from tests.api.conftest import Api, make_key
from tests.api.test_messages import problem
from tests.api.test_tenants import ALWAYS, BODY, LACKING, LIST, documented, followed
from tests.factories import make_tenant

_numbers = itertools.count(1)
FULL = {
    "key": "news",
    "address": "News@EXAMPLE.com",
    "name": "The Néws",
    "reply_to": ["Help Desk <help@example.com>", {"address": "x@BÜCHER.example.com"}],
}


@pytest.fixture
async def tenant(api: Api, superuser: asyncpg.Connection) -> TenantId:
    """Give a tenant of this test's own, and the API a key of it."""
    tenant_id = TenantId(f"senders-{next(_numbers)}")
    await make_tenant(superuser, tenant_id)
    api.key = await make_key(superuser, tenant_id)
    return tenant_id


async def made(api: Api, **members: Any) -> dict[str, Any]:
    answer = await api.ask("POST", "/v1/senders", FULL | members)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_openapi_has_every_status_and_code(api: Api) -> None:
    calls = await documented(api)

    writing = {**ALWAYS, **BODY, "403": {"forbidden", "tenant_disabled"}, "429": {"rate_limited"}}
    assert {name: calls[name] for name in calls if name.endswith(("sender", "senders"))} == {
        "create_sender": {"200": set(), "201": set(), **writing, "409": {"sender_exists"}},
        "list_senders": {**ALWAYS, **LIST},
        "get_sender": {"200": set(), **ALWAYS, **LACKING},
        "change_sender": {"200": set(), **writing, **LACKING},
    }


@pytest.mark.usefixtures("tenant")
async def test_a_sender_is_made_in_its_normal_form_and_can_be_read(api: Api) -> None:
    answer = await api.ask("POST", "/v1/senders", FULL)

    sender = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/senders/news"
    assert (await api.ask("GET", "/v1/senders/news")).json() == sender
    times = sender.pop("created_at"), sender.pop("updated_at")
    assert all(re.fullmatch(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z", time) for time in times)
    assert sender == {
        "key": "news",
        "address": "News@example.com",
        "name": "The Néws",
        "reply_to": [
            {"address": "help@example.com", "name": "Help Desk"},
            {"address": "x@xn--bcher-kva.example.com", "name": None},
        ],
        "state": "active",
    }


async def test_what_was_made_is_what_a_message_takes(api: Api, tenant: TenantId, superuser: asyncpg.Connection) -> None:
    await made(api)

    first = await api.send(sender="news", key="taken")
    spelled_out = await api.send(sender="news", key="taken", reply_to=FULL["reply_to"])

    assert first.status_code == 202
    assert spelled_out.status_code == 200
    row = await superuser.fetchrow(
        """SELECT sender_address, sender_name, sender_reply_to, reply_to
        FROM messages JOIN message_contents ON message_id = id WHERE tenant_id = $1""",
        tenant,
    )
    assert row is not None
    assert (row["sender_address"], row["sender_name"]) == ("News@example.com", "The Néws")
    assert json.loads(row["sender_reply_to"]) == json.loads(row["reply_to"])
    assert json.loads(row["reply_to"])[0] == {"address": "help@example.com", "name": "Help Desk"}


@pytest.mark.usefixtures("tenant")
async def test_the_same_sender_again_is_the_one_that_there_is(api: Api) -> None:
    first = await made(api)
    await api.ask("PATCH", "/v1/senders/news", {"state": "disabled"})

    again = await api.ask(
        "POST",
        "/v1/senders",
        {
            "key": "news",
            "address": "News@example.COM",
            "name": " The Néws ",
            "reply_to": [{"address": "help@example.com", "name": "Help Desk"}, "x@xn--bcher-kva.example.com"],
        },
    )

    assert (again.status_code, again.headers["location"]) == (200, "/v1/senders/news")
    assert (again.json()["state"], again.json()["created_at"]) == ("disabled", first["created_at"])


@pytest.mark.usefixtures("tenant")
async def test_an_absent_member_null_and_an_empty_one_are_the_same(api: Api) -> None:
    bare = {"key": "bare", "address": "bare@example.com"}

    answers = [
        await api.ask("POST", "/v1/senders", bare | more)
        for more in ({}, {"name": None, "reply_to": None}, {"name": "", "reply_to": []}, {"name": "  "})
    ]

    assert [answer.status_code for answer in answers] == [201, 200, 200, 200]
    assert (answers[0].json()["name"], answers[0].json()["reply_to"]) == (None, [])


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(
    "change",
    [
        {"address": "news@example.com"},
        {"name": "the néws"},
        {"name": None},
        {"reply_to": []},
        {"reply_to": list(reversed(FULL["reply_to"]))},
        {"reply_to": ["help@example.com", FULL["reply_to"][1]]},
    ],
    ids=str,
)
async def test_another_sender_under_a_key_that_is_taken_is_a_conflict_and_changes_nothing(
    api: Api, change: dict[str, Any]
) -> None:
    before = await made(api)

    answer = await api.ask("POST", "/v1/senders", FULL | change)

    assert problem(answer) == (409, "sender_exists")
    assert (await api.ask("GET", "/v1/senders/news")).json() == before


@pytest.mark.usefixtures("tenant")
async def test_of_many_at_once_one_makes_the_sender(api: Api) -> None:
    answers = await asyncio.gather(*(api.ask("POST", "/v1/senders", FULL) for _ in range(10)))

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.usefixtures("tenant")
async def test_of_two_senders_under_one_key_one_wins(api: Api) -> None:
    bodies = [FULL | {"address": f"{'ab'[number % 2]}@example.com"} for number in range(10)]

    answers = await asyncio.gather(*(api.ask("POST", "/v1/senders", body) for body in bodies))

    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [201] + [409] * 5
    assert len({answer.text for answer in answers if answer.status_code < 300}) == 1


async def test_one_key_of_two_tenants_is_two_senders(api: Api, tenant: TenantId, superuser: asyncpg.Connection) -> None:
    await made(api, address="one@example.com")
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)
    api.key = await make_key(superuser, other)

    unseen = [await api.ask("GET", "/v1/senders/news"), await api.ask("PATCH", "/v1/senders/news", {})]
    second = await made(api, address="two@example.com")

    assert [problem(answer) for answer in unseen] == [(404, "not_found")] * 2
    assert second["address"] == "two@example.com"


@pytest.mark.usefixtures("tenant")
async def test_senders_are_listed_by_key_and_each_once(api: Api) -> None:
    for key in ("b", "a-1", "z_9", "0", "a1"):
        await made(api, key=key)

    pages = await followed(api, "/v1/senders?limit=2")

    keys = [sender["key"] for items in pages for sender in items]
    assert [len(items) for items in pages] == [2, 2, 2]
    assert len(keys) == 6
    assert set(keys) == {"b", "a-1", "z_9", "0", "a1", "main"}
    assert keys == [sender["key"] for (sender,) in await followed(api, "/v1/senders?limit=1")]


async def test_a_cursor_is_the_tenants_own(api: Api, tenant: TenantId, superuser: asyncpg.Connection) -> None:
    await made(api)
    cursor = (await api.ask("GET", "/v1/senders?limit=1")).json()["next_cursor"]
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)
    api.key = await make_key(superuser, other)

    assert problem(await api.ask("GET", f"/v1/senders?limit=1&cursor={cursor}")) == (400, "cursor_invalid")
    assert problem(await api.ask("GET", "/v1/senders?limit=101")) == (422, "invalid_request")


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"address": "New@Example.com"}, {"address": "New@example.com"}),
    ({"name": "New"}, {"name": "New"}),
    ({"name": None}, {"name": None}),
    ({"name": " "}, {"name": None}),
    ({"reply_to": ["Desk <d@example.com>"]}, {"reply_to": [{"address": "d@example.com", "name": "Desk"}]}),
    ({"reply_to": None}, {"reply_to": []}),
    ({"reply_to": []}, {"reply_to": []}),
    ({"state": "disabled"}, {"state": "disabled"}),
    ({"name": "New", "state": "disabled"}, {"name": "New", "state": "disabled"}),
]


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(("change", "after"), CHANGES, ids=str)
async def test_only_what_is_named_changes(api: Api, change: dict[str, Any], after: dict[str, Any]) -> None:
    before = await made(api)

    answer = await api.ask("PATCH", "/v1/senders/news", change)

    assert answer.status_code == 200
    sender = answer.json()
    assert sender["updated_at"] > before["updated_at"]
    assert sender == before | after | {"updated_at": sender["updated_at"]}
    assert (await api.ask("GET", "/v1/senders/news")).json() == sender


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(
    "change",
    [{}, {"state": "active"}, {"address": "News@example.com"}, {"name": "The Néws"}, {"reply_to": FULL["reply_to"]}],
    ids=str,
)
async def test_a_change_that_changes_nothing_leaves_even_the_time(api: Api, change: dict[str, Any]) -> None:
    before = await made(api)

    answer = await api.ask("PATCH", "/v1/senders/news", change)

    assert (answer.status_code, answer.json()) == (200, before)


@pytest.mark.usefixtures("tenant")
async def test_changes_of_different_members_at_once_all_hold(api: Api) -> None:
    await made(api)
    changes = [{"address": "new@example.com"}, {"name": None}, {"reply_to": []}, {"state": "disabled"}]

    await asyncio.gather(*(api.ask("PATCH", "/v1/senders/news", change) for change in changes))

    sender = (await api.ask("GET", "/v1/senders/news")).json()
    assert (sender["address"], sender["name"], sender["reply_to"]) == ("new@example.com", None, [])
    assert sender["state"] == "disabled"


@pytest.mark.usefixtures("tenant")
async def test_nothing_new_is_accepted_from_a_sender_that_is_switched_off(api: Api) -> None:
    await made(api)
    first = await api.send(sender="news", key="before")
    await api.ask("PATCH", "/v1/senders/news", {"state": "disabled", "address": "moved@example.com"})

    replay = await api.send(sender="news", key="before")
    refused = await api.send(sender="news")
    await api.ask("PATCH", "/v1/senders/news", {"state": "active"})

    assert (replay.status_code, replay.json()["id"]) == (200, first.json()["id"])
    assert problem(refused) == (403, "sender_disabled")
    assert (await api.send(sender="news")).status_code == 202


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"address": 7}, "/address", "wrong_type"),
    ({"address": {"address": "a@example.com"}}, "/address", "wrong_type"),
    ({"address": ""}, "/address", "address_invalid"),
    ({"address": "Ada <ada@example.com>"}, "/address", "address_invalid"),
    ({"address": "a@example.com, b@example.com"}, "/address", "address_invalid"),
    ({"address": "a@example.com\r\nBcc: eve@example.com"}, "/address", "address_invalid"),
    ({"address": "a@localhost"}, "/address", "address_invalid"),
    ({"address": "a@" + "x" * 400 + ".com"}, "/address", "too_long"),
    ({"name": 7}, "/name", "wrong_type"),
    ({"name": "Ada\r\nBcc: eve@example.com"}, "/name", "name_invalid"),
    ({"name": "abc\u202ecba"}, "/name", "name_invalid"),
    ({"name": "x" * 201}, "/name", "too_long"),
    ({"reply_to": "help@example.com"}, "/reply_to", "wrong_type"),
    ({"reply_to": ["help@example.com", "nobody"]}, "/reply_to/1", "address_invalid"),
    ({"reply_to": [None]}, "/reply_to/0", "required"),
    ({"reply_to": [f"{number}@example.com" for number in range(11)]}, "/reply_to", "too_many"),
    ({"surprise": 1}, "", "unknown_field"),
]
ONLY_NEW: list[tuple[dict[str, Any], str, str]] = [
    ({"key": None}, "/key", "required"),
    ({"key": "News"}, "/key", "invalid_format"),
    ({"key": "-news"}, "/key", "invalid_format"),
    ({"key": "n" * 65}, "/key", "invalid_format"),
    ({"key": "news\n"}, "/key", "invalid_format"),
    ({"address": None}, "/address", "required"),
    ({"state": "active"}, "", "unknown_field"),
]
ONLY_CHANGED: list[tuple[dict[str, Any], str, str]] = [
    ({"key": "other"}, "", "unknown_field"),
    ({"address": None}, "/address", "required"),
    ({"state": None}, "/state", "required"),
    ({"state": "deleted"}, "/state", "not_allowed"),
]


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(("change", "pointer", "code"), [*FAULTS, *ONLY_NEW], ids=str)
async def test_what_is_no_sender_is_refused(api: Api, change: dict[str, Any], pointer: str, code: str) -> None:
    answer = await api.ask("POST", "/v1/senders", FULL | change)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert "eve@" not in answer.text
    assert problem(await api.ask("GET", "/v1/senders/news")) == (404, "not_found")


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(("change", "pointer", "code"), [*FAULTS, *ONLY_CHANGED], ids=str)
async def test_a_change_that_makes_no_sense_is_refused(
    api: Api, change: dict[str, Any], pointer: str, code: str
) -> None:
    before = await made(api)

    answer = await api.ask("PATCH", "/v1/senders/news", change)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert "eve@" not in answer.text
    assert (await api.ask("GET", "/v1/senders/news")).json() == before


@pytest.mark.usefixtures("tenant")
async def test_all_faults_are_told_at_once(api: Api) -> None:
    answer = await api.ask("POST", "/v1/senders", {"key": "", "address": "x", "name": 7, "reply_to": 7})

    assert {error["pointer"] for error in answer.json()["errors"]} == {"/key", "/address", "/name", "/reply_to"}


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("key", ["nobody", "News", "%00", "a%2Fb", "n" * 65, "ä"])
async def test_a_key_that_no_sender_has_or_can_have_is_not_there(api: Api, key: str) -> None:
    answers = [
        await api.ask("GET", f"/v1/senders/{key}"),
        await api.ask("PATCH", f"/v1/senders/{key}", {"state": "disabled"}),
    ]

    assert [problem(answer) for answer in answers] == [(404, "not_found")] * 2


async def test_a_disabled_tenant_reads_its_senders_and_changes_none(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection
) -> None:
    before = await made(api)
    await superuser.execute("UPDATE tenants SET state = 'disabled' WHERE id = $1", tenant)

    refused = [
        await api.ask("POST", "/v1/senders", FULL | {"key": "new"}),
        await api.ask("PATCH", "/v1/senders/news", {"name": "New"}),
    ]

    assert [problem(answer) for answer in refused] == [(403, "tenant_disabled")] * 2
    assert (await api.ask("GET", "/v1/senders/news")).json() == before
    assert (await api.ask("GET", "/v1/senders")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/senders"), ("GET", "/v1/senders"), ("GET", "/v1/senders/main"), ("PATCH", "/v1/senders/main")],
)
async def test_senders_need_their_own_scope(
    api: Api, tenant: TenantId, superuser: asyncpg.Connection, method: str, path: str
) -> None:
    """It is judged before the body."""
    api.key = await make_key(superuser, tenant, scopes=["messages:send", "messages:read", "templates"])
    lacking = await api.ask(method, path, {"surprise": True})
    api.key = await make_key(superuser, None, scopes=["operator"])
    operators = await api.ask(method, path, {"surprise": True})
    api.key = "nonsense"
    unknown = await api.ask(method, path, {"surprise": True})

    assert [problem(answer) for answer in (lacking, operators)] == [(403, "forbidden")] * 2
    assert problem(unknown) == (401, "unauthenticated")


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/senders"), ("PATCH", "/v1/senders/main")])
async def test_a_body_is_json_and_not_too_large(api: Api, method: str, path: str) -> None:
    text = await api.http.request(method, path, headers=api.authorized({"Content-Type": "text/plain"}), content=b"{}")
    large = await api.ask(method, path, b'{"name": "' + b"x" * 256 * 1024 + b'"}')
    broken = await api.ask(method, path, b'{"name": ')

    assert problem(text) == (415, "unsupported_media_type")
    assert problem(large) == (413, "request_too_large")
    assert problem(broken) == (422, "invalid_request")
