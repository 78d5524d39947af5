"""What operators settle: the list of ambiguous messages, the decision about one, and the switch of a provider."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from api.starter import Starter
from db.ids import TenantId
from db.records import MessageRef
from tests.api.conftest import Api, application, serving
from tests.api.operations import make_ambiguous
from tests.api.test_messages import problem
from tests.api.test_tenants import ALWAYS, BODY, LACKING, LIST, documented, followed
from tests.conftest import Database
from tests.factories import TENANT, make_message, make_tenant
from tests.faults.proxy import Loss, fault_proxy

NOBODY = "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d"
RESEND = {"decision": "resend", "attempt": 1, "reason": "they got nothing", "acknowledge_duplicate_risk": True}
ACCEPTED = {"decision": "accepted", "attempt": 1, "reason": "it is in their inbox"}
ABANDON = {"decision": "abandon", "attempt": 1, "reason": "no longer of use"}


def resolution(message_id: object) -> str:
    return f"/v1/operator/messages/{message_id}/resolution"


async def decided(connection: asyncpg.Connection, message_id: object) -> list[str]:
    rows = await connection.fetch("SELECT decision FROM operator_audit WHERE message_id = $1", message_id)
    return [row["decision"] for row in rows]


@pytest.fixture
async def provider(superuser: asyncpg.Connection) -> AsyncIterator[str]:
    """Name the provider that every deployment has; at the end it is on."""
    yield "ses"
    await superuser.execute("UPDATE providers SET paused = false")


async def test_openapi_has_every_status_and_code(api: Api) -> None:
    calls = await documented(api)
    switch = {"200": set[str](), **ALWAYS, **BODY, **LACKING}

    assert {
        name: calls[name] for name in calls if name.endswith(("ambiguous", "provider", "providers", "e_message"))
    } == {
        "list_ambiguous": {**ALWAYS, **LIST},
        "resolve_message": {
            **switch,
            "409": {"not_ambiguous"},
            "422": {"invalid_request", "duplicate_risk_not_acknowledged"},
        },
        "list_providers": {**ALWAYS, **LIST},
        "pause_provider": switch,
        "resume_provider": switch,
    }


async def test_the_list_has_every_tenants_ambiguous_messages_oldest_first_with_what_is_known(
    operator: Api, superuser: asyncpg.Connection
) -> None:
    other = TenantId("other")
    await make_tenant(superuser, other)
    made = [await make_ambiguous(superuser, tenant_id=tenant) for tenant in (TENANT, other, TENANT, TENANT, other)]
    settled = await make_message(superuser)
    # Three that came into doubt at one moment stand in the order of their ids.
    await superuser.execute(
        "UPDATE messages SET updated_at = (SELECT updated_at FROM messages WHERE id = $1) WHERE id = ANY($2)",
        made[3].id,
        [message.id for message in made[1:3]],
    )
    made[1:4] = sorted(made[1:4], key=lambda message: message.id)
    await superuser.execute(
        """INSERT INTO evidence (id, message_id, attempt, kind, outcome, provider_message_id)
        VALUES ($1, $2, 1, 'late_result', 'accepted', 'ses-17')""",
        uuid4(),
        made[0].id,
    )

    pages = await followed(operator, "/v1/operator/ambiguous?limit=2")

    items = [item for items in pages for item in items]
    ids = [item["id"] for item in items]
    ours = [item for item in items if item["id"] in {str(message.id) for message in made}]
    assert [(item["id"], item["tenant"]) for item in ours] == [(str(each.id), each.tenant_id) for each in made]
    assert str(settled.id) not in ids
    assert len(ids) == len(set(ids))
    assert all(set(item) == {"id", "tenant", "recipients", "ambiguity"} for item in items)
    assert ours[0]["recipients"] == [{"role": "to", "address": "a***@example.com", "outcome": None}]
    (piece,) = ours[0]["ambiguity"]["evidence"]
    assert (ours[0]["ambiguity"]["attempt"], piece["kind"], piece["provider_message_id"]) == (
        1,
        "late_result",
        "ses-17",
    )
    assert ours[1]["ambiguity"]["evidence"] == []
    assert ours[1]["ambiguity"]["since"].endswith("Z")


@pytest.mark.parametrize("path", ["ambiguous", "providers"])
async def test_a_cursor_is_good_for_its_own_list_only(operator: Api, superuser: asyncpg.Connection, path: str) -> None:
    for _ in range(2):
        await make_ambiguous(superuser)
    await superuser.execute("INSERT INTO providers (name) VALUES ('another') ON CONFLICT DO NOTHING")
    page = await operator.ask("GET", f"/v1/operator/{path}?limit=1")
    cursor = page.json()["next_cursor"]

    assert page.headers["link"] == f'</v1/operator/{path}?limit=1&cursor={cursor}>; rel="next"'
    assert problem(await operator.ask("GET", f"/v1/operator/{path}?cursor={cursor[:-1]}")) == (400, "cursor_invalid")
    assert problem(await operator.ask("GET", f"/v1/tenants?cursor={cursor}")) == (400, "cursor_invalid")
    assert problem(await operator.ask("GET", f"/v1/operator/{path}?state=queued")) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("body", "state"), [(ACCEPTED, "provider_accepted"), (RESEND, "queued"), (ABANDON, "dead")], ids=str
)
async def test_a_decision_is_answered_with_the_message_as_its_tenant_reads_it(
    api: Api, operator: Api, superuser: asyncpg.Connection, body: dict[str, Any], state: str
) -> None:
    message = await make_ambiguous(superuser)
    before = (await api.read(str(message.id))).json()

    answer = await operator.ask("POST", resolution(message.id), body)

    assert (answer.status_code, answer.json()["state"]) == (200, state)
    assert answer.json() == (await api.read(str(message.id))).json()
    assert before["ambiguity"]["attempt"] == 1
    assert answer.json()["ambiguity"] is None
    assert answer.json()["timeline"][:-1] == before["timeline"]
    line = answer.json()["timeline"][-1]
    assert (line["from"], line["to"], line["attempt"]) == ("ambiguous", state, 1)
    assert (line["move"], line["reason"], line["actor"]) == (f"resolve_{body['decision']}", "operator", "operator")
    assert await decided(superuser, message.id) == [body["decision"]]
    assert body["reason"] not in answer.text


async def test_a_decision_stands_in_the_audit_with_whose_it_is_and_why(
    operator: Api, superuser: asyncpg.Connection
) -> None:
    message = await make_ambiguous(superuser)

    await operator.ask("POST", resolution(message.id), {**ACCEPTED, "provider_message_id": "0100-abc"})

    row = await superuser.fetchrow("SELECT * FROM operator_audit WHERE message_id = $1", message.id)
    assert row is not None
    assert (row["credential_id"], row["attempt"]) == (operator.key.split("_")[2], 1)
    assert (row["reason"], row["provider_message_id"]) == (ACCEPTED["reason"], "0100-abc")


@pytest.mark.parametrize(
    "acknowledged", [{}, {"acknowledge_duplicate_risk": False}, {"acknowledge_duplicate_risk": None}]
)
async def test_a_resend_needs_the_risk_acknowledged(
    operator: Api, superuser: asyncpg.Connection, acknowledged: dict[str, Any]
) -> None:
    message = await make_ambiguous(superuser)
    bare = {name: value for name, value in RESEND.items() if name != "acknowledge_duplicate_risk"}

    refused = await operator.ask("POST", resolution(message.id), bare | acknowledged)

    assert problem(refused) == (422, "duplicate_risk_not_acknowledged")
    assert await decided(superuser, message.id) == []
    assert await superuser.fetchval("SELECT state FROM messages WHERE id = $1", message.id) == "ambiguous"


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"decision": None}, "/decision", "required"),
    ({"decision": "retry"}, "/decision", "not_allowed"),
    ({"decision": 1}, "/decision", "wrong_type"),
    ({"attempt": None}, "/attempt", "required"),
    ({"attempt": "1"}, "/attempt", "wrong_type"),
    ({"attempt": True}, "/attempt", "wrong_type"),
    ({"attempt": 1.5}, "/attempt", "wrong_type"),
    ({"attempt": 0}, "/attempt", "out_of_range"),
    ({"attempt": -1}, "/attempt", "out_of_range"),
    ({"attempt": 2**31}, "/attempt", "out_of_range"),
    ({"reason": None}, "/reason", "required"),
    ({"reason": 17}, "/reason", "wrong_type"),
    ({"reason": ""}, "/reason", "invalid_format"),
    ({"reason": " \u2003"}, "/reason", "invalid_format"),
    ({"reason": "two\nlines"}, "/reason", "invalid_format"),
    ({"reason": "\x1b[31m"}, "/reason", "invalid_format"),
    ({"reason": "x" * 501}, "/reason", "invalid_format"),
    ({"provider_message_id": ""}, "/provider_message_id", "invalid_format"),
    ({"provider_message_id": "a b"}, "/provider_message_id", "invalid_format"),
    ({"provider_message_id": "x" * 256}, "/provider_message_id", "invalid_format"),
    ({"provider_message_id": 1}, "/provider_message_id", "wrong_type"),
    ({"decision": "abandon", "provider_message_id": "0100"}, "/provider_message_id", "not_allowed"),
    ({"decision": "resend", "provider_message_id": "0100"}, "/provider_message_id", "not_allowed"),
    ({"acknowledge_duplicate_risk": "true"}, "/acknowledge_duplicate_risk", "wrong_type"),
    ({"acknowledge_duplicate_risk": 1}, "/acknowledge_duplicate_risk", "wrong_type"),
    ({"surprise": "canary"}, "", "unknown_field"),
]


async def test_a_body_that_is_no_decision_is_told_where_it_is_wrong_and_changes_nothing(
    operator: Api, superuser: asyncpg.Connection
) -> None:
    message = await make_ambiguous(superuser)
    for change, pointer, code in WRONG:
        refused = await operator.ask("POST", resolution(message.id), ACCEPTED | change)

        assert problem(refused) == (422, "invalid_request"), change
        assert (pointer, code) in [(fault["pointer"], fault["code"]) for fault in refused.json()["errors"]], change
        assert "canary" not in refused.text
    for content in (b"[]", b"{", b""):
        assert problem(await operator.ask("POST", resolution(message.id), content)) == (422, "invalid_request")

    assert problem(await operator.ask("POST", resolution(message.id))) == (415, "unsupported_media_type")
    assert await decided(superuser, message.id) == []


async def test_the_longest_reason_and_any_letters_are_taken(operator: Api, superuser: asyncpg.Connection) -> None:
    message = await make_ambiguous(superuser)
    reason = "Grüße 🎈 " + "ä" * 492

    answer = await operator.ask("POST", resolution(message.id), {**ABANDON, "reason": reason, "attempt": 1.0})

    assert answer.status_code == 200
    assert await superuser.fetchval("SELECT reason FROM operator_audit WHERE message_id = $1", message.id) == reason


async def test_what_is_not_ambiguous_any_more_or_in_another_attempt_is_told(
    operator: Api, superuser: asyncpg.Connection
) -> None:
    message = await make_ambiguous(superuser)
    queued = await make_message(superuser)

    another_attempt = await operator.ask("POST", resolution(message.id), {**ABANDON, "attempt": 2})
    never = await operator.ask("POST", resolution(queued.id), ABANDON)
    first = await operator.ask("POST", resolution(message.id), ABANDON)
    again = await operator.ask("POST", resolution(message.id), ABANDON)

    assert problem(another_attempt) == problem(never) == problem(again) == (409, "not_ambiguous")
    assert first.status_code == 200
    assert await decided(superuser, message.id) == ["abandon"]


@pytest.mark.parametrize("message_id", [NOBODY, "x", "%20", "%00"])
async def test_an_id_that_nobody_has_is_not_found(operator: Api, message_id: str) -> None:
    assert problem(await operator.ask("POST", resolution(message_id), ABANDON)) == (404, "not_found")


async def test_an_id_in_another_form_is_nobodys(operator: Api, superuser: asyncpg.Connection) -> None:
    message = await make_ambiguous(superuser)

    for other in (f"{{{message.id}}}", message.id.hex, f"urn:uuid:{message.id}", f"{message.id}%0A"):
        assert problem(await operator.ask("POST", resolution(other), ABANDON)) == (404, "not_found")


async def test_an_id_in_capitals_is_the_same(operator: Api, superuser: asyncpg.Connection) -> None:
    message = await make_ambiguous(superuser)

    answer = await operator.ask("POST", resolution(str(message.id).upper()), ABANDON)

    assert (answer.status_code, answer.json()["id"]) == (200, str(message.id))


async def test_a_tenants_key_decides_nothing_not_even_about_its_own(api: Api, superuser: asyncpg.Connection) -> None:
    message = await make_ambiguous(superuser)

    answers = [
        await api.ask("GET", "/v1/operator/ambiguous"),
        await api.ask("POST", resolution(message.id), ABANDON),
        await api.ask("GET", "/v1/operator/providers"),
        await api.ask("POST", "/v1/operator/providers/ses/pause"),
        await api.ask("POST", "/v1/operator/providers/ses/resume"),
    ]

    assert [problem(answer) for answer in answers] == [(403, "forbidden")] * 5
    assert await decided(superuser, message.id) == []


async def test_of_ten_decisions_at_once_one_counts(operator: Api, superuser: asyncpg.Connection) -> None:
    message = await make_ambiguous(superuser)

    answers = await asyncio.gather(
        *(operator.ask("POST", resolution(message.id), body) for body in [ACCEPTED, RESEND, ABANDON] * 3 + [RESEND])
    )

    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    assert len(await decided(superuser, message.id)) == 1


@pytest.mark.parametrize(("loss", "status"), [(Loss.REPLY, 200), (Loss.COMMIT, 503)])
async def test_a_decision_whose_commit_got_no_reply_is_looked_up(
    database: Database, operator: Api, superuser: asyncpg.Connection, loss: Loss, status: int
) -> None:
    message = await make_ambiguous(superuser)
    async with (
        fault_proxy(database.server.port, postgres=True) as proxy,
        serving(proxy.url(database.url("fencepost_api")), operator.key) as behind,
    ):
        await behind.ask("GET", "/v1/operator/ambiguous")
        proxy.lose(loss, containing="operator_audit")
        answer = await behind.ask("POST", resolution(message.id), RESEND)

    assert proxy.lost == 1
    assert answer.status_code == status
    assert await decided(superuser, message.id) == (["resend"] if status == 200 else [])


async def test_a_resend_asks_for_a_run_and_no_other_decision_does(
    database: Database, operator: Api, superuser: asyncpg.Connection
) -> None:
    messages = [await make_ambiguous(superuser) for _ in range(4)]
    asked_for: list[MessageRef] = []

    async def start(message: MessageRef) -> None:
        asked_for.append(message)

    async with application(database.url("fencepost_api")) as app:
        app.state.starter = Starter(start)
        app.state.starter.open()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://fencepost") as http:
            for message, body in zip(messages, (ABANDON, ACCEPTED, RESEND | {"attempt": 2}, RESEND), strict=True):
                await Api(http=http, key=operator.key).ask("POST", resolution(message.id), body)
        await app.state.starter.close()

    assert asked_for == [messages[3]]


async def test_a_provider_is_switched_off_and_on(operator: Api, superuser: asyncpg.Connection, provider: str) -> None:
    path = f"/v1/operator/providers/{provider}"

    off = await operator.ask("POST", f"{path}/pause", {"reason": "SES has an incident"})
    listed = await operator.ask("GET", "/v1/operator/providers")
    again = await operator.ask("POST", f"{path}/pause", {"reason": "said twice"})
    on = await operator.ask("POST", f"{path}/resume")

    assert [answer.status_code for answer in (off, listed, again, on)] == [200] * 4
    assert set(off.json()) == {"name", "paused", "changed_at"}
    assert (off.json()["name"], off.json()["paused"], on.json()["paused"]) == (provider, True, False)
    assert off.json() in listed.json()["data"]
    assert again.json() == off.json()
    rows = await superuser.fetch("SELECT * FROM operator_audit WHERE subject = $1 ORDER BY at", provider)
    assert [(row["action"], row["reason"]) for row in rows] == [
        ("provider_paused", "SES has an incident"),
        ("provider_resumed", None),
    ]
    assert {row["credential_id"] for row in rows} == {operator.key.split("_")[2]}


@pytest.mark.parametrize("how", ["pause", "resume"])
async def test_a_switch_takes_a_reason_or_nothing(operator: Api, provider: str, how: str) -> None:
    path = f"/v1/operator/providers/{provider}/{how}"

    assert [(await operator.ask("POST", path, body)).status_code for body in ({}, {"reason": None})] == [200, 200]
    wrong: list[Any] = [{"reason": ""}, {"reason": "two\nlines"}, {"reason": 1}, {"until": "tomorrow"}, [], b"{"]
    for body in wrong:
        assert problem(await operator.ask("POST", path, body)) == (422, "invalid_request")


@pytest.mark.parametrize("name", ["nobody", "SES", "a.b", "%00", "x" * 300])
@pytest.mark.parametrize("how", ["pause", "resume"])
async def test_a_provider_that_there_is_not_is_not_found(operator: Api, name: str, how: str) -> None:
    assert problem(await operator.ask("POST", f"/v1/operator/providers/{name}/{how}")) == (404, "not_found")
