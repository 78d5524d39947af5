"""The list of a tenant's messages: newest first, filtered, a page at a time, and nobody else's."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from db.ids import TenantId
from db.lifecycle import State
from tests.api.conftest import Api, make_key
from tests.factories import AttemptRow, make_message, make_tenant

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def tenant(superuser: asyncpg.Connection, api: Api) -> TenantId:
    """Give a tenant of this test's own, and the API a key of it."""
    count = await superuser.fetchval("SELECT count(*) FROM tenants")
    tenant_id = TenantId(f"list-{count}")
    await make_tenant(superuser, tenant_id)
    api.key = await make_key(superuser, tenant_id)
    return tenant_id


async def ask(api: Api, **parameters: str | int) -> httpx.Response:
    return await api.http.get("/v1/messages", params=parameters, headers=api.authorized({}))


async def ids(api: Api, **parameters: str | int) -> list[str]:
    answer = await ask(api, **parameters)
    assert answer.status_code == 200, answer.text
    return [message["id"] for message in answer.json()["data"]]


async def pages(api: Api, **parameters: str | int) -> list[list[str]]:
    """Follow `Link` from the first page to the last."""
    found = []
    answer = await ask(api, **parameters)
    while True:
        body = answer.json()
        found.append([message["id"] for message in body["data"]])
        if "next" not in answer.links:
            assert body["next_cursor"] is None
            return found
        answer = await api.http.get(answer.links["next"]["url"], headers=api.authorized({}))
        assert answer.status_code == 200, answer.text


async def test_messages_are_listed_newest_first_and_each_once(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    # Three moments for seven messages: where the times are equal, the ids decide.
    made = [
        await make_message(superuser, tenant_id=tenant, created_at=NOON + timedelta(seconds=number // 3))
        for number in range(7)
    ]
    newest = sorted(made, key=lambda ref: (made.index(ref) // 3, ref.id), reverse=True)

    found = await pages(api, limit=3)

    assert [len(page) for page in found] == [3, 3, 1]
    assert [message_id for page in found for message_id in page] == [str(ref.id) for ref in newest]


async def test_a_list_that_fills_its_last_page_exactly_has_no_empty_one(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    for _ in range(4):
        await make_message(superuser, tenant_id=tenant)

    assert [len(page) for page in await pages(api, limit=2)] == [2, 2]


@pytest.mark.usefixtures("tenant")
async def test_a_tenant_without_messages_has_an_empty_list(api: Api) -> None:
    answer = await ask(api)

    assert answer.json() == {"data": [], "next_cursor": None}
    assert "link" not in answer.headers


async def test_a_message_that_comes_meanwhile_disturbs_no_later_page(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    old = [str((await make_message(superuser, tenant_id=tenant)).id) for _ in range(4)]
    first = await ask(api, limit=2)
    await make_message(superuser, tenant_id=tenant)

    second = await api.http.get(first.links["next"]["url"], headers=api.authorized({}))

    listed = [message["id"] for message in first.json()["data"] + second.json()["data"]]
    assert sorted(listed) == sorted(old)


async def test_what_is_listed_is_the_message_without_attempts_and_timeline(api: Api, tenant: TenantId) -> None:
    del tenant
    sent = await api.send(tags={"order": "17"}, cc=["Grace <grace@example.com>"])

    (listed,) = (await ask(api)).json()["data"]

    whole = (await api.read(sent.json()["id"])).json()
    assert set(whole) - set(listed) == {"attempts", "timeline"}
    assert listed == {name: value for name, value in whole.items() if name in listed}
    assert [recipient["role"] for recipient in listed["recipients"]] == ["to", "cc"]


async def test_a_leased_and_an_ambiguous_message_say_so_in_the_list(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    leased = await make_message(superuser, State.LEASED, AttemptRow(number=2), tenant_id=tenant)
    ambiguous = await make_message(
        superuser, State.AMBIGUOUS, AttemptRow(begin_id=leased.id, outcome="unknown", closed=True), tenant_id=tenant
    )
    await superuser.execute(
        """INSERT INTO timeline (message_id, seq, from_state, to_state, move, attempt, actor)
        VALUES ($1, 2, 'leased', 'ambiguous', 'quarantine', 1, 'machine')""",
        ambiguous.id,
    )
    await superuser.execute(
        """INSERT INTO evidence (id, message_id, attempt, kind, outcome, provider_message_id)
        VALUES (gen_random_uuid(), $1, 1, 'late_result', 'accepted', 'ses-1')""",
        ambiguous.id,
    )

    by_id = {message["id"]: message for message in (await ask(api)).json()["data"]}

    assert by_id[str(leased.id)]["lease"]["attempt"] == 2
    assert by_id[str(leased.id)]["ambiguity"] is None
    assert by_id[str(ambiguous.id)]["lease"] is None
    assert by_id[str(ambiguous.id)]["ambiguity"]["attempt"] == 1
    assert [piece["provider_message_id"] for piece in by_id[str(ambiguous.id)]["ambiguity"]["evidence"]] == ["ses-1"]
    for ref in (leased, ambiguous):
        whole = (await api.read(str(ref.id))).json()
        assert {name: whole[name] for name in by_id[str(ref.id)]} == by_id[str(ref.id)]


@pytest.mark.parametrize("state", State)
async def test_the_state_filters(api: Api, superuser: asyncpg.Connection, tenant: TenantId, state: State) -> None:
    made = {each: await make_message(superuser, each, tenant_id=tenant) for each in State}

    assert await ids(api, state=state) == [str(made[state].id)]


async def test_purpose_and_tags_filter_and_hold_together(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    rows: list[dict[str, Any]] = [
        {"purpose": "billing", "tags": '{"order": "17", "shop": "1"}'},
        {"purpose": "billing", "tags": '{"order": "18"}'},
        {"purpose": "other", "tags": '{"order": "17"}'},
        {"purpose": "other", "tags": '{"17": "order"}'},
    ]
    made = [str((await make_message(superuser, tenant_id=tenant, **row)).id) for row in rows]

    assert set(await ids(api, purpose="billing")) == {made[0], made[1]}
    assert set(await ids(api, tag="order:17")) == {made[0], made[2]}
    assert await ids(api, tag="order:17", purpose="billing") == [made[0]]
    assert await ids(api, tag="order:1") == []


async def test_the_times_are_inclusive_and_exclusive(api: Api, superuser: asyncpg.Connection, tenant: TenantId) -> None:
    made = [
        str((await make_message(superuser, tenant_id=tenant, created_at=NOON + timedelta(microseconds=number))).id)
        for number in range(3)
    ]

    assert await ids(api, created_after="2026-03-01T12:00:00.000001Z") == [made[2], made[1]]
    assert await ids(api, created_before="2026-03-01T12:00:00.000001Z") == [made[0]]
    # The same moment in another zone.
    assert await ids(api, created_after="2026-03-01T13:00:00.000002+01:00") == [made[2]]


async def test_a_created_at_from_an_answer_is_a_filter(api: Api, tenant: TenantId) -> None:
    del tenant
    sent = (await api.send()).json()

    assert await ids(api, created_after=sent["created_at"]) == [sent["id"]]
    assert await ids(api, created_before=sent["created_at"]) == []


async def test_nobody_elses_messages_are_listed(api: Api, superuser: asyncpg.Connection, tenant: TenantId) -> None:
    await make_message(superuser, tenant_id=tenant)
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)
    api.key = await make_key(superuser, other)

    assert await ids(api) == []


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("limit=0", "/limit", "out_of_range"),
        ("limit=101", "/limit", "out_of_range"),
        ("limit=-1", "/limit", "out_of_range"),
        ("limit=1e1", "/limit", "out_of_range"),
        ("limit=%D9%A1", "/limit", "out_of_range"),
        ("limit=", "/limit", "out_of_range"),
        ("limit=" + "9" * 5000, "/limit", "out_of_range"),
        ("state=sent", "/state", "not_allowed"),
        ("state=", "/state", "not_allowed"),
        ("state=QUEUED", "/state", "not_allowed"),
        ("purpose=%00", "/purpose", "invalid_format"),
        ("purpose=a%0A", "/purpose", "invalid_format"),
        ("purpose=%ff", "/purpose", "invalid_format"),
        ("tag=order", "/tag", "invalid_format"),
        ("tag=:", "/tag", "invalid_format"),
        ("tag=a:b:c", "/tag", "invalid_format"),
        ("tag=a:%27%22", "/tag", "invalid_format"),
        ("created_after=yesterday", "/created_after", "invalid_format"),
        ("created_after=2026-03-01", "/created_after", "invalid_format"),
        ("created_after=2026-03-01T12:00:00", "/created_after", "invalid_format"),
        ("created_after=2026-13-01T12:00:00Z", "/created_after", "invalid_format"),
        ("created_after=2026-02-30T12:00:00Z", "/created_after", "invalid_format"),
        ("created_after=2026-03-01T25:00:00Z", "/created_after", "invalid_format"),
        ("created_after=0000-01-01T00:00:00Z", "/created_after", "invalid_format"),
        ("created_before=0001-01-01T00:00:00%2B23:59", "/created_before", "invalid_format"),
        ("created_before=9999-12-31T23:59:59-23:59", "/created_before", "invalid_format"),
        ("created_before=2026-03-01T12:00:00.1234567Z", "/created_before", "invalid_format"),
        ("order=asc", "", "unknown_field"),
        ("Limit=1", "", "unknown_field"),
        ("limit=1&limit=2", "", "duplicate"),
        ("state=dead&state=queued", "", "duplicate"),
    ],
)
@pytest.mark.usefixtures("tenant")
async def test_a_query_that_nobody_understands_is_refused(api: Api, query: str, pointer: str, code: str) -> None:
    answer = await api.http.get(f"/v1/messages?{query}", headers=api.authorized({}))

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "invalid_request"
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [(pointer, code)]


@pytest.fixture
async def cursor(api: Api, superuser: asyncpg.Connection, tenant: TenantId) -> str:
    """Give a cursor that holds."""
    for _ in range(2):
        await make_message(superuser, tenant_id=tenant)
    given: str = (await ask(api, limit=1)).json()["next_cursor"]
    assert (await ask(api, limit=1, cursor=given)).status_code == 200
    return given


async def refused(api: Api, **parameters: str | int) -> bool:
    answer = await ask(api, **parameters)
    return answer.status_code == 400 and answer.json()["code"] == "cursor_invalid"


async def test_a_cursor_with_any_character_changed_is_refused(api: Api, cursor: str) -> None:
    for place, character in enumerate(cursor):
        changed = cursor[:place] + ("A" if character != "A" else "B") + cursor[place + 1 :]
        assert await refused(api, cursor=changed), place


@pytest.mark.parametrize("text", ["", "x", "=", "====", "%", "\u0661", "a" * 4000, "..", "null", "[]"])
@pytest.mark.usefixtures("tenant")
async def test_what_was_never_a_cursor_is_refused(api: Api, text: str) -> None:
    assert await refused(api, cursor=text)


async def test_a_cursor_has_one_spelling(api: Api, cursor: str) -> None:
    whole = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))

    assert await refused(api, cursor=cursor + "=")
    assert await refused(api, cursor=cursor + "\n")
    assert await refused(api, cursor=base64.b64encode(whole + b"?").decode())
    assert await refused(api, cursor=cursor[:-1])


async def test_a_cursor_of_other_filters_is_refused(api: Api, cursor: str) -> None:
    assert await refused(api, cursor=cursor, state="queued")
    assert await refused(api, cursor=cursor, purpose="transactional")


async def test_a_cursor_goes_on_with_another_limit(api: Api, cursor: str) -> None:
    assert (await ask(api, cursor=cursor, limit=100)).status_code == 200


async def test_another_tenants_cursor_is_refused(
    api: Api, superuser: asyncpg.Connection, cursor: str, tenant: TenantId
) -> None:
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)
    api.key = await make_key(superuser, other)

    assert await refused(api, cursor=cursor)


async def test_listing_needs_the_scope_to_read(api: Api, superuser: asyncpg.Connection, tenant: TenantId) -> None:
    api.key = await make_key(superuser, tenant, scopes=["messages:send"])

    answer = await ask(api)

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_no_address_stands_in_the_list_or_in_a_cursor(api: Api, tenant: TenantId) -> None:
    del tenant
    for _ in range(2):
        await api.send(to="canary-local@example.com")

    answer = await ask(api, limit=1)

    cursor = answer.json()["next_cursor"]
    assert "canary-local" not in answer.text
    assert b"canary-local" not in base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


async def test_a_full_page_shows_each_message_with_its_own_lease_and_recipients(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    for _ in range(100):
        await make_message(superuser, State.LEASED, tenant_id=tenant)

    found = (await ask(api, limit=100)).json()["data"]

    assert len(found) == 100
    assert all(message["lease"]["attempt"] == 1 and len(message["recipients"]) == 1 for message in found)
