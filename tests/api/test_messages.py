"""The contract of POST and GET: every case of its table, in its order of judgement."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from db.ids import TenantId
from db.lifecycle import State
from tests.api.conftest import COMMAND, Api, make_key
from tests.factories import TENANT, AttemptRow, make_message, make_tenant

MEMBERS = {
    "id", "state", "idempotent_replay", "request_hash", "workflow_id", "purpose", "template", "sender", "tags",
    "recipients", "attempts", "timeline", "lease", "retry", "ambiguity", "provider_accepted_at", "delivered_at",
    "created_at", "updated_at",
}  # fmt: skip


def problem(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, body["code"]


async def messages_of(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM messages"))


async def test_a_first_command_is_accepted(api: Api) -> None:
    answer = await api.send(
        cc=["bob@example.com"], bcc=["eve@example.com"], tags={"order": "17"}, headers={"X-Order": "17"}
    )

    assert answer.status_code == 202
    message = answer.json()
    assert set(message) == MEMBERS
    assert answer.headers["location"] == f"/v1/messages/{message['id']}"
    assert "idempotent-replayed" not in answer.headers
    assert message["state"] == "queued"
    assert message["idempotent_replay"] is False
    assert message["workflow_id"] == f"{TENANT}/{message['request_hash']}"
    assert message["template"] == {"key": "welcome", "version": 1}
    assert message["sender"] == {"key": "main"}
    assert message["tags"] == {"order": "17"}
    assert message["recipients"] == [
        {"role": "to", "address": "a***@example.com", "outcome": None},
        {"role": "cc", "address": "b***@example.com", "outcome": None},
        {"role": "bcc", "address": "e***@example.com", "outcome": None},
    ]
    (line,) = message["timeline"]
    assert line.pop("at").endswith("Z")
    assert line == {
        "seq": 1, "from": None, "to": "queued", "move": "intake", "reason": None, "attempt": None, "actor": "client",
    }  # fmt: skip
    assert message["retry"] == {"eligible": False, "due_at": None}


async def test_the_answer_to_a_new_command_is_to_the_byte_what_reading_its_message_gives(api: Api) -> None:
    answer = await api.send(
        cc=["bob@example.com", "carol@example.com"],
        bcc=["eve@example.com"],
        tags={"the_longest": "1", "b": "2", "a": "3"},
        headers={"X-Order": "17"},
        purpose="receipts",
    )

    read = await api.read(answer.json()["id"])
    assert answer.content == read.content
    assert answer.headers["content-type"] == read.headers["content-type"]


async def test_everything_is_stored_before_anything_is_queued(api: Api, superuser: asyncpg.Connection) -> None:
    answer = await api.send(
        to={"address": "Ada.L@EXAMPLE.com", "name": "Ada"}, headers={"X-Order": "17"}, reply_to=["help@example.com"]
    )

    message_id = UUID(answer.json()["id"])
    content = await superuser.fetchrow("SELECT * FROM message_contents WHERE message_id = $1", message_id)
    assert content is not None
    assert (content["subject"], content["text"], content["html"]) == ("Hello Ada", "Dear Ada", None)
    assert json.loads(content["headers"]) == [["X-Order", "17"]]
    assert json.loads(content["reply_to"]) == [{"address": "help@example.com", "name": None}]
    to = await superuser.fetchrow("SELECT * FROM recipients WHERE message_id = $1", message_id)
    assert to is not None
    assert (to["address"], to["name"], to["redacted"]) == ("Ada.L@example.com", "Ada", "A***@example.com")


async def test_an_address_is_looked_up_by_a_keyed_hash_of_its_folded_form(
    api: Api, superuser: asyncpg.Connection
) -> None:
    for to in ("Ada@Example.com", "ada@example.com", "grace@example.com"):
        await api.send(to=to, tags={"hash": "test"})

    hashes = await superuser.fetch(
        """SELECT address_hash FROM recipients JOIN messages ON messages.id = message_id
        WHERE tags @> '{"hash": "test"}' ORDER BY messages.id"""
    )
    first, second, other = (row["address_hash"] for row in hashes)
    assert first == second != other
    assert len(first) == 32


async def test_a_replay_gives_the_same_message_as_it_now_stands(api: Api, superuser: asyncpg.Connection) -> None:
    first = await api.send(key="replayed")
    message_id = first.json()["id"]
    await superuser.execute("UPDATE messages SET state = 'dead' WHERE id = $1", UUID(message_id))
    before = await messages_of(superuser)

    again = await api.send(key="replayed")

    assert again.status_code == 200
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert again.json()["idempotent_replay"] is True
    assert (again.json()["id"], again.json()["state"]) == (message_id, "dead")
    assert await messages_of(superuser) == before


@pytest.mark.parametrize(
    "change",
    [
        {"to": "bob@example.com"},
        {"to": "Ada Lovelace <ada@example.com>"},
        {"to": "Ada <Ada@example.com>"},
        {"cc": ["bob@example.com"]},
        {"reply_to": ["bob@example.com"]},
        {"context": {"name": "Ada "}},
        {"purpose": "receipt"},
        {"headers": {"X-Order": "18"}},
        {"tags": {"order": "18"}},
        {"template": {"key": "welcome", "version": 2}},
        {"template": {"key": "never-published", "version": 1}},
        {"sender": "never-made"},
    ],
    ids=str,
)
async def test_the_same_key_with_another_command_is_a_conflict_and_writes_nothing(
    api: Api, superuser: asyncpg.Connection, change: dict[str, Any]
) -> None:
    key = f"conflict-{change}"
    await api.send(key=key)
    before = await messages_of(superuser)

    answer = await api.send(key=key, **change)

    assert problem(answer) == (409, "idempotency_conflict")
    assert await messages_of(superuser) == before


async def test_the_same_content_under_two_keys_is_two_messages(api: Api) -> None:
    one, other = await api.send(key="first-of-two"), await api.send(key="second-of-two")

    assert (one.status_code, other.status_code) == (202, 202)
    assert one.json()["id"] != other.json()["id"]
    assert one.json()["workflow_id"] != other.json()["workflow_id"]


async def test_a_quoted_key_is_the_same_key(api: Api) -> None:
    first = await api.send(key="quoted")

    assert (await api.send(key='"quoted"')).json()["id"] == first.json()["id"]


async def test_the_key_belongs_to_the_tenant_and_not_to_the_credential(api: Api, superuser: asyncpg.Connection) -> None:
    first = await api.send(key="shared")
    api.key = await make_key(superuser)

    assert (await api.send(key="shared")).json()["id"] == first.json()["id"]


async def test_one_key_of_two_tenants_is_two_messages(api: Api, superuser: asyncpg.Connection) -> None:
    first = await api.send(key="everybodys")
    await make_tenant(superuser, TenantId("neighbour"))
    api.key = await make_key(superuser, TenantId("neighbour"))
    other = await api.send(key="everybodys")

    assert (first.status_code, other.status_code) == (202, 202)
    assert first.json()["id"] != other.json()["id"]


async def test_what_was_taken_from_the_sender_at_intake_is_what_a_replay_is_compared_with(
    api: Api, superuser: asyncpg.Connection
) -> None:
    await superuser.execute(
        """INSERT INTO senders (tenant_id, key, address, reply_to)
        VALUES ($1, 'moving', 'old@acme.example.com', '[{"address": "help@acme.example.com", "name": null}]')""",
        TENANT,
    )
    first = await api.send(sender="moving", key="moved")
    await superuser.execute(
        """UPDATE senders SET address = 'new@acme.example.com', name = 'New', reply_to = '[]', state = 'disabled'
        WHERE key = 'moving'"""
    )

    again = await api.send(sender="moving", key="moved")
    spelled_out = await api.send(sender="moving", key="moved", reply_to=["help@acme.example.com"])

    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert spelled_out.json()["id"] == first.json()["id"]
    assert problem(await api.send(sender="moving")) == (403, "sender_disabled")


async def test_a_reply_to_that_was_given_is_not_taken_for_the_senders(api: Api) -> None:
    await api.send(key="explicit", reply_to=["help@example.com"])

    assert problem(await api.send(key="explicit")) == (409, "idempotency_conflict")


async def test_a_disabled_tenant_may_read_and_replay_but_send_nothing_new(
    api: Api, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("disabled")
    await make_tenant(superuser, tenant_id)
    api.key = await make_key(superuser, tenant_id)
    first = await api.send(key="before")
    await superuser.execute("UPDATE tenants SET state = 'disabled' WHERE id = $1", tenant_id)

    assert (await api.send(key="before")).status_code == 200
    assert (await api.read(first.json()["id"])).status_code == 200
    assert problem(await api.send(key="after")) == (403, "tenant_disabled")


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"template": {"key": "welcome", "version": 9}}, "/template", "template_not_found"),
        ({"template": {"key": "nothing", "version": 1}}, "/template", "template_not_found"),
        ({"sender": "nobody"}, "/sender", "sender_not_found"),
    ],
)
async def test_what_a_new_command_refers_to_has_to_be_there(
    api: Api, change: dict[str, Any], pointer: str, code: str
) -> None:
    answer = await api.send(**change)

    assert problem(answer) == (422, code)
    assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"template": {"key": "theirs", "version": 1}}, "template_not_found"),
        ({"sender": "theirs"}, "sender_not_found"),
    ],
)
async def test_what_is_another_tenants_is_not_found(
    api: Api, superuser: asyncpg.Connection, change: dict[str, Any], code: str
) -> None:
    other = TenantId("with-more")
    if not await superuser.fetchval("SELECT true FROM tenants WHERE id = $1", other):
        await make_tenant(superuser, other)
        for table in ("senders", "template_versions"):
            columns = "address" if table == "senders" else "version, subject, text, purpose, context_schema"
            await superuser.execute(
                f"INSERT INTO {table} (tenant_id, key, {columns}) SELECT tenant_id, 'theirs', {columns}"
                f" FROM {table} WHERE tenant_id = $1",
                other,
            )

    assert problem(await api.send(**change)) == (422, code)


async def test_a_context_that_lacks_what_the_template_uses_is_refused_and_the_key_not_used_up(api: Api) -> None:
    refused = await api.send(key="mended", context={})

    assert problem(refused) == (422, "invalid_request")
    assert refused.json()["errors"][0]["pointer"].startswith("/context")
    assert (await api.send(key="mended")).status_code == 202


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"{", ""),
        (b"", ""),
        (b'{"to": "a@example.com", "to": "b@example.com"}', ""),
        (b"[" * 100_000, ""),
        (json.dumps(COMMAND | {"surprise": 1}).encode(), ""),
        (json.dumps(COMMAND | {"to": "nobody"}).encode(), "/to"),
        (json.dumps(COMMAND | {"to": ["a@example.com"]}).encode(), "/to"),
        (json.dumps(COMMAND | {"headers": {"Bcc": "eve@example.com"}}).encode(), "/headers"),
        (json.dumps(COMMAND | {"headers": {"X-A": "1\r\nBcc: eve@example.com"}}).encode(), "/headers"),
        (json.dumps(COMMAND | {"tags": {"fencepost_message": "x"}}).encode(), "/tags"),
        (json.dumps({key: value for key, value in COMMAND.items() if key != "sender"}).encode(), "/sender"),
    ],
    ids=range(11),
)
async def test_a_malformed_command_is_refused_with_a_pointer(api: Api, body: bytes, pointer: str) -> None:
    answer = await api.send(body)

    assert problem(answer) == (422, "invalid_request")
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]
    assert "eve@" not in answer.text


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "idempotency_key_missing"),
        ("", "idempotency_key_invalid"),
        ("   ", "idempotency_key_invalid"),
        ('""', "idempotency_key_invalid"),
        ("x" * 256, "idempotency_key_invalid"),
        ("a\tb", "idempotency_key_invalid"),
    ],
)
async def test_a_key_that_is_none_is_refused(api: Api, key: str | None, code: str) -> None:
    headers = api.authorized({} if key is None else {"Idempotency-Key": key})

    answer = await api.http.post("/v1/messages", headers=headers, json=COMMAND)

    assert problem(answer) == (400, code)


async def test_two_keys_are_refused(api: Api) -> None:
    headers = [*api.authorized({}).items(), ("Idempotency-Key", "one"), ("Idempotency-Key", "two")]

    answer = await api.http.post("/v1/messages", headers=headers, json=COMMAND)

    assert problem(answer) == (400, "idempotency_key_invalid")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_another_content_type_is_refused(api: Api, kind: str) -> None:
    headers = api.authorized({"Idempotency-Key": api.new_key(), "Content-Type": kind})

    answer = await api.http.post("/v1/messages", headers=headers, content=json.dumps(COMMAND))

    assert problem(answer) == (415, "unsupported_media_type")


async def test_two_content_types_are_refused(api: Api) -> None:
    headers = [*api.authorized({"Idempotency-Key": api.new_key()}).items()]
    kinds = [("Content-Type", "application/json"), ("Content-Type", "text/plain")]

    answer = await api.http.post("/v1/messages", headers=headers + kinds, content=json.dumps(COMMAND))

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_charset_beside_the_content_type_does_not_matter(api: Api) -> None:
    headers = api.authorized({"Idempotency-Key": api.new_key(), "Content-Type": "Application/JSON; charset=utf-8"})

    answer = await api.http.post("/v1/messages", headers=headers, content=json.dumps(COMMAND))

    assert answer.status_code == 202


async def test_a_body_over_the_limit_is_refused_with_and_without_a_length(api: Api) -> None:
    large = b'{"to": "' + b"x" * 256 * 1024 + b'"}'

    async def chunks() -> Any:
        for start in range(0, len(large), 65536):
            yield large[start : start + 65536]

    headers = api.authorized({"Idempotency-Key": "large", "Content-Type": "application/json"})
    announced = await api.http.post("/v1/messages", headers=headers, content=large)
    chunked = await api.http.post("/v1/messages", headers=headers, content=chunks())

    assert problem(announced) == (413, "request_too_large")
    assert problem(chunked) == (413, "request_too_large")


async def test_every_kind_of_wrong_caller_is_refused(api: Api, superuser: asyncpg.Connection) -> None:
    good = api.key
    wrong_secret = (await make_key(superuser))[:25] + good[25:]
    cases = {
        "": (401, "unauthenticated"),
        "nonsense": (401, "unauthenticated"),
        good[:-1] + ("a" if good[-1] != "a" else "b"): (401, "unauthenticated"),
        await make_key(superuser, environment="live"): (401, "unauthenticated"),
        wrong_secret: (401, "unauthenticated"),
        await make_key(superuser, expired=True): (401, "unauthenticated"),
        await make_key(superuser, revoked=True): (401, "unauthenticated"),
        await make_key(superuser, scopes=["messages:read"]): (403, "forbidden"),
        await make_key(superuser, None, scopes=["operator"]): (403, "forbidden"),
    }

    for key, expected in cases.items():
        api.key = key
        answer = await api.send(b"not even JSON", key="")
        assert problem(answer) == expected
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_reading_needs_its_own_scope(api: Api, superuser: asyncpg.Connection) -> None:
    message_id = (await api.send()).json()["id"]
    api.key = await make_key(superuser, scopes=["messages:send"])

    assert problem(await api.read(message_id)) == (403, "forbidden")


async def test_somebody_elses_message_an_unknown_id_and_a_malformed_one_look_alike(
    api: Api, superuser: asyncpg.Connection
) -> None:
    await make_tenant(superuser, TenantId("other"))
    theirs = await make_message(superuser, tenant_id=TenantId("other"))

    answers = [await api.read(str(wanted)) for wanted in (theirs.id, uuid4(), "nonsense", "%00", "1" * 1000)]

    assert [problem(answer) for answer in answers] == [(404, "not_found")] * 5


async def test_an_id_has_one_form(api: Api) -> None:
    """`UUID` itself reads more."""
    message_id = (await api.send()).json()["id"]

    answers = [
        await api.read(form) for form in (f"{{{message_id}}}", f"urn:uuid:{message_id}", message_id.replace("-", ""))
    ]

    assert [problem(answer) for answer in answers] == [(404, "not_found")] * 3
    assert (await api.read(message_id)).status_code == 200


async def test_other_paths_and_methods_are_problems_too(api: Api) -> None:
    assert problem(await api.http.get("/nothing")) == (404, "not_found")
    assert problem(await api.http.delete("/v1/messages")) == (405, "method_not_allowed")


BEGUN = UUID("33333333-3333-4333-8333-333333333333")


async def test_what_goes_wrong_on_our_side_is_a_problem_with_the_request_id_that_the_log_has(
    api: Api, superuser: asyncpg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    await superuser.execute("REVOKE SELECT ON timeline FROM fencepost_api")
    try:
        answer = await api.send(to="canary@example.com")
    finally:
        await superuser.execute("GRANT SELECT ON timeline TO fencepost_api")

    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "internal"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "timeline" not in answer.text
    logged = capsys.readouterr().out
    assert answer.headers["x-request-id"] in logged
    assert "canary" not in logged


async def test_a_leased_message_shows_its_lease(api: Api, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(token=9_876_543_210))

    answer = await api.read(str(message.id))

    assert answer.json()["lease"]["attempt"] == 1
    assert answer.json()["lease"]["expires_at"].endswith("Z")
    assert "9876543210" not in answer.text
    assert "claim-1" not in answer.text
    assert "worker" not in answer.text


async def test_a_retryable_message_shows_when_it_is_tried_again(api: Api, superuser: asyncpg.Connection) -> None:
    refused = AttemptRow(begin_id=BEGUN, outcome="refused", reason="throttled", closed=True)
    message = await make_message(superuser, State.RETRYABLE, refused)

    shown = (await api.read(str(message.id))).json()

    assert shown["retry"]["eligible"] is True
    assert shown["retry"]["due_at"] is not None
    assert (shown["attempts"][0]["outcome"], shown["attempts"][0]["reason"]) == ("refused", "throttled")


async def test_a_final_refusal_is_shown_as_refused(api: Api, superuser: asyncpg.Connection) -> None:
    rejected = AttemptRow(begin_id=BEGUN, outcome="rejected", reason="rejected", closed=True)
    message = await make_message(superuser, State.DEAD, rejected)

    (attempt,) = (await api.read(str(message.id))).json()["attempts"]

    assert (attempt["outcome"], attempt["reason"]) == ("refused", "rejected")


async def test_an_ambiguous_message_shows_since_when_and_what_is_known(api: Api, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(begin_id=BEGUN, lease=timedelta(seconds=-1)))
    assert (await api.read(str(message.id))).json()["ambiguity"] is None
    await superuser.execute(
        f"""UPDATE attempts SET outcome = 'unknown', ended_at = now(), closed_at = now()
        WHERE message_id = '{message.id}';
        UPDATE messages SET state = 'ambiguous' WHERE id = '{message.id}';
        INSERT INTO timeline (message_id, seq, from_state, to_state, move, attempt, actor)
        VALUES ('{message.id}', 2, 'leased', 'ambiguous', 'quarantine', 1, 'machine');
        INSERT INTO evidence (id, message_id, attempt, kind, outcome, provider_message_id)
        VALUES ('{uuid4()}', '{message.id}', 1, 'late_result', 'accepted', 'ses-1')"""
    )

    ambiguity = (await api.read(str(message.id))).json()["ambiguity"]

    assert ambiguity.pop("since").endswith("Z")
    assert ambiguity["evidence"][0].pop("at").endswith("Z")
    assert ambiguity == {"attempt": 1, "evidence": [{"kind": "late_result", "provider_message_id": "ses-1"}]}
