"""A tenant's API keys: issued, listed, limited, rotated and revoked, each with its row in the audit."""

import asyncio
import itertools
import json
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from db.ids import TenantId
from tests.api.conftest import Api
from tests.api.test_messages import problem
from tests.api.test_tenants import audited, followed, made
from tests.conftest import Database
from tests.factories import make_tenant
from tests.waiting import somebody_waits, until

DAY = timedelta(days=1)
_numbers = itertools.count(1)


@pytest.fixture
async def keys_path(operator: Api) -> str:
    """Make a tenant of this test's own; give where its keys are."""
    return f"/v1/tenants/{await made(operator)}/keys"


async def issued(operator: Api, path: str, *scopes: str, expires_at: str | None = None) -> dict[str, Any]:
    """Issue a key."""
    body = {"scopes": list(scopes or ("messages:send", "messages:read")), "expires_at": expires_at}
    answer = await operator.ask("POST", path, body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def listed(operator: Api, path: str) -> dict[str, dict[str, Any]]:
    """List keys, by id."""
    return {key["id"]: key for key in (await operator.ask("GET", path)).json()["data"]}


async def opens(operator: Api, key: str) -> bool:
    """Try a key on what needs a scope that it has."""
    answer = await Api(http=operator.http, key=key).ask("GET", "/v1/messages")
    assert answer.status_code in (200, 401), answer.text
    return answer.status_code == 200


async def postgres_now(connection: asyncpg.Connection) -> datetime:
    moment: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return moment


def moment(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


async def test_a_key_is_shown_once_and_opens_what_its_scopes_say(operator: Api, keys_path: str) -> None:
    answer = await operator.ask("POST", keys_path, {"scopes": ["messages:read", "senders"]})

    key = answer.json()
    assert answer.status_code == 201
    assert set(key) == {"id", "key", "scopes", "expires_at"}
    assert (key["scopes"], key["expires_at"]) == (["messages:read", "senders"], None)
    assert key["key"].startswith(f"fp_test_{key['id']}_")
    assert answer.headers["cache-control"] == "no-store"
    holder = Api(http=operator.http, key=key["key"])
    assert (await holder.ask("GET", "/v1/senders")).status_code == 200
    assert problem(await holder.send()) == (403, "forbidden")
    assert problem(await holder.ask("GET", keys_path)) == (403, "forbidden")


async def test_a_key_opens_nothing_of_another_tenant(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    other = TenantId(f"other-{next(_numbers)}")
    await make_tenant(superuser, other)
    key = await issued(operator, keys_path, "senders")

    holder = Api(http=operator.http, key=key["key"])

    assert problem(await holder.ask("GET", "/v1/senders/main")) == (404, "not_found")
    for method, path, body in (
        ("PATCH", "", {"scopes": ["senders"]}),
        ("POST", "/rotate", None),
        ("DELETE", "", None),
    ):
        answer = await operator.ask(method, f"/v1/tenants/{other}/keys/{key['id']}{path}", body)
        assert problem(answer) == (404, "not_found")
    assert (await holder.ask("GET", "/v1/senders")).status_code == 200


async def test_a_key_expires_by_the_clock_of_postgres(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    soon = await postgres_now(superuser) + timedelta(seconds=2)

    key = await issued(operator, keys_path, expires_at=soon.isoformat())

    assert moment(key["expires_at"]) == soon
    assert await opens(operator, key["key"])
    await until(lambda: _shut(operator, key["key"]), within=10, every=0.1)
    assert await postgres_now(superuser) >= soon
    assert (await listed(operator, keys_path))[key["id"]]["state"] == "expired"


async def _shut(operator: Api, key: str) -> bool:
    return not await opens(operator, key)


@pytest.mark.parametrize("ago", [timedelta(0), timedelta(days=365)], ids=str)
async def test_a_key_that_would_have_expired_already_is_refused(
    operator: Api, keys_path: str, superuser: asyncpg.Connection, ago: timedelta
) -> None:
    past = await postgres_now(superuser) - ago

    answer = await operator.ask("POST", keys_path, {"scopes": ["senders"], "expires_at": past.isoformat()})

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [("/expires_at", "out_of_range")]
    assert await listed(operator, keys_path) == {}


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/scopes", "required"),
        ({"scopes": None}, "/scopes", "required"),
        ({"scopes": "senders"}, "/scopes", "wrong_type"),
        ({"scopes": []}, "/scopes", "too_few"),
        ({"scopes": ["senders", 7]}, "/scopes/1", "wrong_type"),
        ({"scopes": ["operator"]}, "/scopes/0", "not_allowed"),
        ({"scopes": ["senders", "messages:"]}, "/scopes/1", "not_allowed"),
        ({"scopes": ["senders", "templates", "senders"]}, "/scopes/2", "duplicate"),
        ({"scopes": ["senders"], "expires_at": "tomorrow"}, "/expires_at", "invalid_format"),
        ({"scopes": ["senders"], "expires_at": "2036-01-01T00:00:00"}, "/expires_at", "invalid_format"),
        ({"scopes": ["senders"], "expires_at": "9999-12-31T23:59:59-23:59"}, "/expires_at", "invalid_format"),
        ({"scopes": ["senders"], "expires_at": 4}, "/expires_at", "wrong_type"),
        ({"scopes": ["senders"], "key": "fp_test_mine"}, "", "unknown_field"),
    ],
    ids=str,
)
async def test_what_is_no_key_is_refused(
    operator: Api, keys_path: str, body: dict[str, Any], pointer: str, code: str
) -> None:
    answer = await operator.ask("POST", keys_path, body)

    assert problem(answer) == (422, "invalid_request")
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert await listed(operator, keys_path) == {}


async def test_keys_are_listed_newest_first_with_their_states_and_without_their_secrets(
    operator: Api, keys_path: str
) -> None:
    keys = [await issued(operator, keys_path) for _ in range(5)]
    await operator.ask("DELETE", f"{keys_path}/{keys[0]['id']}")
    await operator.ask("POST", f"{keys_path}/{keys[1]['id']}/rotate", {"overlap_seconds": 0})

    pages = await followed(operator, f"{keys_path}?limit=2")

    assert [len(items) for items in pages] == [2, 2, 2]
    shown = [key for items in pages for key in items]
    assert [key["id"] for key in shown[1:]] == [key["id"] for key in reversed(keys)]
    assert [key["state"] for key in shown] == ["active"] * 4 + ["expired", "revoked"]
    assert [key["replaced_by"] for key in shown] == [None] * 4 + [shown[0]["id"], None]
    assert [key["revoked_at"] is not None for key in shown] == [False] * 5 + [True]
    assert set(shown[0]) == {
        "id", "scopes", "state", "created_at", "expires_at", "revoked_at", "last_used_at", "replaced_by",
    }  # fmt: skip


async def test_a_keys_scopes_change_at_once(operator: Api, keys_path: str, superuser: asyncpg.Connection) -> None:
    key = await issued(operator, keys_path, "messages:read")
    holder = Api(http=operator.http, key=key["key"])

    changed = await operator.ask("PATCH", f"{keys_path}/{key['id']}", {"scopes": ["senders", "templates"]})
    same = await operator.ask("PATCH", f"{keys_path}/{key['id']}", {"scopes": ["templates", "senders"]})

    assert (changed.status_code, changed.json()["scopes"]) == (200, ["senders", "templates"])
    assert same.json() == changed.json()
    assert problem(await holder.ask("GET", "/v1/messages")) == (403, "forbidden")
    assert (await holder.ask("GET", "/v1/senders")).status_code == 200
    assert await audited(superuser, key["id"]) == ["key_issued", "key_scopes_changed"]


async def test_a_key_is_followed_by_one_with_its_scopes_and_its_expiry(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    expiry = await postgres_now(superuser) + 400 * DAY
    old = await issued(operator, keys_path, "messages:read", "senders", expires_at=expiry.isoformat())

    answer = await operator.ask("POST", f"{keys_path}/{old['id']}/rotate", {"overlap_seconds": 3600})

    new = answer.json()
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert set(new) == {"id", "key", "scopes", "expires_at"}
    assert (new["scopes"], moment(new["expires_at"])) == (["messages:read", "senders"], expiry)
    keys = await listed(operator, keys_path)
    left = moment(keys[old["id"]]["expires_at"]) - await postgres_now(superuser)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    assert (keys[old["id"]]["replaced_by"], keys[old["id"]]["state"]) == (new["id"], "active")
    assert await opens(operator, old["key"])
    assert await opens(operator, new["key"])
    assert await audited(superuser, old["id"]) == ["key_issued", "key_rotated"]


async def test_an_overlap_never_makes_a_key_live_longer(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    expiry = await postgres_now(superuser) + timedelta(minutes=5)
    old = await issued(operator, keys_path, expires_at=expiry.isoformat())

    await operator.ask("POST", f"{keys_path}/{old['id']}/rotate", {"overlap_seconds": 3600})

    assert moment((await listed(operator, keys_path))[old["id"]]["expires_at"]) == expiry


@pytest.mark.parametrize("body", [None, b"", {}, {"overlap_seconds": None}], ids=str)
async def test_a_key_goes_on_for_a_day_where_nobody_says_otherwise(
    operator: Api, keys_path: str, superuser: asyncpg.Connection, body: Any
) -> None:
    old = await issued(operator, keys_path)

    answer = await operator.ask("POST", f"{keys_path}/{old['id']}/rotate", body)

    assert (answer.status_code, answer.json()["expires_at"]) == (201, None)
    left = moment((await listed(operator, keys_path))[old["id"]]["expires_at"]) - await postgres_now(superuser)
    assert DAY - timedelta(minutes=1) < left <= DAY


async def test_without_an_overlap_a_key_ends_at_once(operator: Api, keys_path: str) -> None:
    old = await issued(operator, keys_path)

    new = (await operator.ask("POST", f"{keys_path}/{old['id']}/rotate", {"overlap_seconds": 0})).json()

    assert not await opens(operator, old["key"])
    assert await opens(operator, new["key"])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"overlap_seconds": -1}, "out_of_range"),
        ({"overlap_seconds": 30 * 86400 + 1}, "out_of_range"),
        ({"overlap_seconds": 0.5}, "wrong_type"),
        ({"overlap_seconds": "60"}, "wrong_type"),
        ({"overlap_seconds": True}, "wrong_type"),
        ({"overlap": 60}, "unknown_field"),
        (b"[]", "wrong_type"),
        (b"{", "json_malformed"),
    ],
    ids=str,
)
async def test_an_overlap_is_whole_seconds_up_to_thirty_days(
    operator: Api, keys_path: str, body: Any, code: str
) -> None:
    old = await issued(operator, keys_path)

    answer = await operator.ask("POST", f"{keys_path}/{old['id']}/rotate", body)
    longest = await operator.ask("POST", f"{keys_path}/{old['id']}/rotate", {"overlap_seconds": 30 * 86400})

    assert problem(answer) == (422, "invalid_request")
    assert [error["code"] for error in answer.json()["errors"]] == [code]
    assert longest.status_code == 201


async def _rotate(operator: Api, path: str, key_id: str) -> httpx.Response:
    return await operator.ask("POST", f"{path}/{key_id}/rotate", {"overlap_seconds": 0})


async def test_a_key_that_is_not_active_is_not_rotated(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    rotated, revoked, expired = [(await issued(operator, keys_path))["id"] for _ in range(3)]
    await operator.ask("POST", f"{keys_path}/{rotated}/rotate")
    await operator.ask("DELETE", f"{keys_path}/{revoked}")
    await superuser.execute("UPDATE credentials SET expires_at = clock_timestamp() WHERE id = $1", expired)
    before = await superuser.fetch("SELECT * FROM credentials ORDER BY id")

    answers = [await _rotate(operator, keys_path, key_id) for key_id in (rotated, revoked, expired)]

    assert [problem(answer) for answer in answers] == [(409, "key_not_active")] * 3
    assert await superuser.fetch("SELECT * FROM credentials ORDER BY id") == before


async def test_the_scopes_of_a_revoked_key_stay_and_those_of_another_may_change(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    """Also an expired key's: without `messages:send`, what it queued does not go out."""
    revoked, expired = [(await issued(operator, keys_path))["id"] for _ in range(2)]
    await operator.ask("DELETE", f"{keys_path}/{revoked}")
    await superuser.execute("UPDATE credentials SET expires_at = clock_timestamp() WHERE id = $1", expired)

    refused = await operator.ask("PATCH", f"{keys_path}/{revoked}", {"scopes": ["senders"]})
    changed = await operator.ask("PATCH", f"{keys_path}/{expired}", {"scopes": ["senders"]})

    assert problem(refused) == (409, "key_not_active")
    assert (changed.status_code, changed.json()["scopes"]) == (200, ["senders"])
    assert (await listed(operator, keys_path))[revoked]["scopes"] == ["messages:send", "messages:read"]
    assert await audited(superuser, revoked) == ["key_issued", "key_revoked"]


async def test_of_many_rotations_at_once_one_gets_a_key(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    old = (await issued(operator, keys_path))["id"]

    answers = await asyncio.gather(*(_rotate(operator, keys_path, old) for _ in range(10)))

    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 9
    keys = await listed(operator, keys_path)
    (winner,) = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    assert set(keys) == {old, winner}
    assert keys[old]["replaced_by"] == winner
    assert await audited(superuser, old) == ["key_issued", "key_rotated"]


async def test_a_rotation_that_waited_sees_the_revocation_that_it_has_waited_for(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    old = (await issued(operator, keys_path))["id"]
    async with superuser.transaction():
        await superuser.execute("UPDATE credentials SET revoked_at = clock_timestamp() WHERE id = $1", old)
        rotating = asyncio.create_task(_rotate(operator, keys_path, old))
        await somebody_waits(superuser)

    assert problem(await rotating) == (409, "key_not_active")
    assert set(await listed(operator, keys_path)) == {old}


async def test_a_rotation_that_waited_sees_that_the_key_has_expired_meanwhile(
    operator: Api, keys_path: str, superuser: asyncpg.Connection, database: Database
) -> None:
    """The holder of the row changes nothing, so that the row is the same: only a new statement sees the time."""
    other = await asyncpg.connect(database.superuser_url)
    expiry = await postgres_now(superuser) + timedelta(seconds=1)
    old = (await issued(operator, keys_path, expires_at=expiry.isoformat()))["id"]
    async with superuser.transaction():
        await superuser.execute("SELECT FROM credentials WHERE id = $1 FOR UPDATE", old)
        rotating = asyncio.create_task(_rotate(operator, keys_path, old))
        await somebody_waits(other)
        await until(lambda: _is_past(other, expiry), within=5)
    await other.close()

    assert problem(await rotating) == (409, "key_not_active")


async def _is_past(connection: asyncpg.Connection, when: datetime) -> bool:
    return await postgres_now(connection) > when


async def test_a_key_is_revoked_at_once_and_for_ever(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    key = await issued(operator, keys_path)
    assert await opens(operator, key["key"])

    first = await operator.ask("DELETE", f"{keys_path}/{key['id']}")
    revoked_at = (await listed(operator, keys_path))[key["id"]]["revoked_at"]
    again = await operator.ask("DELETE", f"{keys_path}/{key['id']}")

    assert (first.status_code, first.content, again.status_code) == (204, b"", 204)
    assert not await opens(operator, key["key"])
    assert (await listed(operator, keys_path))[key["id"]]["revoked_at"] == revoked_at
    assert await audited(superuser, key["id"]) == ["key_issued", "key_revoked"]


async def test_of_many_revocations_at_once_one_is_audited(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    key = await issued(operator, keys_path)

    answers = await asyncio.gather(*(operator.ask("DELETE", f"{keys_path}/{key['id']}") for _ in range(10)))

    assert {answer.status_code for answer in answers} == {204}
    assert await audited(superuser, key["id"]) == ["key_issued", "key_revoked"]


async def test_revoking_a_key_leaves_the_one_that_followed_it(operator: Api, keys_path: str) -> None:
    old = await issued(operator, keys_path)
    new = (await operator.ask("POST", f"{keys_path}/{old['id']}/rotate")).json()

    await operator.ask("DELETE", f"{keys_path}/{old['id']}")

    assert not await opens(operator, old["key"])
    assert await opens(operator, new["key"])


@pytest.mark.parametrize("key_id", ["0" * 16, "nobody", "%00", "a%2Fb", "x" * 65, "ä"])
async def test_a_key_that_the_tenant_does_not_have_is_not_there(operator: Api, keys_path: str, key_id: str) -> None:
    path = f"{keys_path}/{key_id}"

    answers = [
        await operator.ask("PATCH", path, {"scopes": ["senders"]}),
        await operator.ask("POST", f"{path}/rotate"),
        await operator.ask("DELETE", path),
    ]

    assert [problem(answer) for answer in answers] == [(404, "not_found")] * 3


async def test_an_operators_key_is_no_tenants_key(operator: Api, keys_path: str) -> None:
    own = operator.key.split("_")[2]

    answer = await operator.ask("DELETE", f"{keys_path}/{own}")

    assert problem(answer) == (404, "not_found")
    assert (await operator.ask("GET", "/v1/tenants")).status_code == 200


async def test_nothing_is_done_to_a_key_without_its_row_in_the_audit(
    operator: Api, keys_path: str, superuser: asyncpg.Connection
) -> None:
    key_id = (await issued(operator, keys_path))["id"]
    before = await superuser.fetch("SELECT * FROM credentials WHERE tenant_id IS NOT NULL ORDER BY id")
    await superuser.execute("REVOKE INSERT ON operator_audit FROM fencepost_api")
    try:
        answers = [
            await operator.ask("POST", keys_path, {"scopes": ["senders"]}),
            await operator.ask("PATCH", f"{keys_path}/{key_id}", {"scopes": ["senders"]}),
            await _rotate(operator, keys_path, key_id),
            await operator.ask("DELETE", f"{keys_path}/{key_id}"),
        ]
    finally:
        await superuser.execute("GRANT INSERT ON operator_audit TO fencepost_api")

    assert [answer.status_code for answer in answers] == [500] * 4
    assert await superuser.fetch("SELECT * FROM credentials WHERE tenant_id IS NOT NULL ORDER BY id") == before


async def test_a_keys_secret_and_its_hash_are_nowhere_but_in_the_one_answer(
    operator: Api, keys_path: str, superuser: asyncpg.Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    old = await issued(operator, keys_path)
    new = (await operator.ask("POST", f"{keys_path}/{old['id']}/rotate")).json()
    await opens(operator, new["key"])
    answers = [
        await operator.ask("GET", keys_path),
        await operator.ask("PATCH", f"{keys_path}/{old['id']}", {"scopes": ["senders"]}),
        await _rotate(operator, keys_path, old["id"]),
        await operator.ask("DELETE", f"{keys_path}/{old['id']}"),
        await operator.ask("PATCH", f"{keys_path}/{new['key']}", {"scopes": ["senders"]}),
        await operator.ask("PATCH", f"{keys_path}/{new['id']}", {"scopes": [new["key"]]}),
    ]
    audit = await superuser.fetchval("SELECT jsonb_agg(to_jsonb(a))::text FROM operator_audit a")
    stored = await superuser.fetchval("SELECT jsonb_agg(to_jsonb(c) - 'secret_hash')::text FROM credentials c")
    hashes = await superuser.fetch("SELECT secret_hash FROM credentials WHERE id IN ($1, $2)", old["id"], new["id"])
    written = capfd.readouterr()

    places = [answer.text + str(answer.headers) for answer in answers] + [audit, stored, written.out + written.err]
    canaries = [key["key"].split("_")[3][:43] for key in (old, new)] + [row["secret_hash"].hex() for row in hashes]
    assert "request_served" in written.out + written.err
    assert [json.dumps(place) for place in places for canary in canaries if canary in place] == []
