"""The HTTP door of provider events: what SNS posts, in every order, and what nobody may post."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.certificates import Certificates
from api.sns import EventSettings, Verifier
from db.decisions import ClaimAnswer, FinalAnswer
from db.lifecycle import State
from db.records import MessageRef
from db.resolutions import Decision, Resolution, ResolutionStore
from db.store import MessageStore
from tests.api.conftest import ADDRESS_KEY, Api, make_key, serving
from tests.api.operations import make_ambiguous
from tests.api.sns_signing import tls_sides
from tests.api.trap import Answer, Trap, trap
from tests.conftest import Database
from tests.db.test_store import LIMITS, claim
from tests.factories import CREDENTIAL, AttemptRow, make_message, make_tenant, state_of
from tests.publishing import ADA, GOLDEN as GOLDEN_BODIES, TOPIC, Publisher, address_to

SETTINGS = EventSettings(topics=TOPIC)
KINDS = {
    "send": State.PROVIDER_ACCEPTED,
    "delivery": State.DELIVERED,
    "bounce_permanent_general": State.HARD_BOUNCED,
    "complaint": State.COMPLAINED,
}
ORDERS = list(permutations(KINDS))
MOVES = {"send": "event_send", "delivery": "deliver", "bounce_permanent_general": "bounce", "complaint": "complain"}
NOTES = {"delivery": "event_delivery", "bounce_permanent_general": "event_bounce", "complaint": "event_complaint"}
ACCEPTED = AttemptRow(begin_id=uuid4(), outcome="accepted", provider_message_id="ses-1", closed=True)


@dataclass(slots=True)
class Door:
    """A served API, with the trap as its only way out."""

    api: Api
    trap: Trap
    publisher: Publisher
    superuser: asyncpg.Connection

    async def post(self, body: bytes, **headers: str) -> httpx.Response:
        told = {"Content-Type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": "Notification"} | headers
        return await self.api.http.post("/v1/provider-events/ses", content=body, headers=told)

    async def take(self, body: bytes) -> str:
        """Post what is believed, and give what became of it."""
        answer = await self.post(body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["result"])

    async def tell(self, golden: str, message: MessageRef, *, times: int = 1, attempt: int = 1) -> list[str]:
        """Post one of SES's events about a message, and then repeats of the same notification."""
        body = self.publisher.notification(self.publisher.event(golden, message, attempt=attempt))
        return [await self.take(body) for _ in range(times)]

    async def moves(self, message: MessageRef) -> list[str]:
        rows = await self.superuser.fetch("SELECT move FROM timeline WHERE message_id = $1 ORDER BY seq", message.id)
        return [row["move"] for row in rows][1:]


@pytest.fixture
async def door(database: Database, superuser: asyncpg.Connection, tmp_path: Path) -> AsyncIterator[Door]:
    await make_tenant(superuser)
    serving_tls, trusting = tls_sides(tmp_path)
    async with trap(serving_tls) as caught:
        publisher = Publisher()
        caught.answers[publisher.signer.certificate_path] = Answer(body=publisher.signer.certificate_pem)
        certificates = Certificates(verify=trusting, proxy=caught.proxy_url)
        verifier = Verifier(SETTINGS, certificates)
        async with serving(database.url("fencepost_api"), await make_key(superuser), verifier=verifier) as api:
            yield Door(api=api, trap=caught, publisher=publisher, superuser=superuser)
        await certificates.aclose()


async def addressed(door: Door, state: State, *attempts: AttemptRow) -> MessageRef:
    message = await make_message(door.superuser, state, *attempts)
    await address_to(door.superuser, message, ADA, ADDRESS_KEY)
    return message


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
async def test_in_every_order_events_end_in_the_same_state_and_each_stands_once(door: Door, times: int) -> None:
    for order in ORDERS:
        message = await addressed(door, State.PROVIDER_ACCEPTED, ACCEPTED)
        reached = State.PROVIDER_ACCEPTED
        wanted = []
        for kind in order:
            assert await door.tell(kind, message, times=times) == ["applied", "duplicate"][:times]
            up = list(KINDS.values()).index(KINDS[kind]) > list(KINDS.values()).index(reached)
            reached = KINDS[kind] if up else reached
            wanted.append(MOVES[kind] if up or kind == "send" else NOTES[kind])
            assert await state_of(door.superuser, message) is reached, order
        assert await door.moves(message) == wanted, order


@pytest.mark.parametrize("recorded", [True, False], ids=["answered", "never answered"])
async def test_in_every_order_events_that_come_during_the_call_are_applied_by_settle(
    door: Door, worker_engine: AsyncEngine, recorded: bool
) -> None:
    store = MessageStore(worker_engine)
    begun = AttemptRow(begin_id=uuid4())
    answered = replace(begun, outcome="accepted", provider_message_id="ses-1")
    for order in ORDERS:
        message = await addressed(door, State.LEASED, answered if recorded else begun)
        for kind in order:
            assert await door.tell(kind, message, times=2) == ["applied", "duplicate"]
            assert await state_of(door.superuser, message) is State.LEASED

        final = await store.finalize(message.id, 1, limits=LIMITS)

        assert (final.answer, final.state) == (FinalAnswer.SETTLED, State.COMPLAINED), order
        notes = [NOTES.get(kind, "event_send") for kind in order]
        assert await door.moves(message) == [*notes, "accept" if recorded else "prove", "complain"], order


async def test_in_every_order_events_end_an_ambiguity(door: Door) -> None:
    for order in ORDERS:
        message = await make_ambiguous(door.superuser)
        await address_to(door.superuser, message, ADA, ADDRESS_KEY)
        for kind in order:
            await door.tell(kind, message, times=2)

        assert await state_of(door.superuser, message) is State.COMPLAINED, order
        moves = await door.moves(message)
        assert moves[:2] == ["quarantine", "prove"]
        # Each event once; the first is the proof, and a step of its own where it says more than that.
        assert len(moves) == 1 + len(order) + (order[0] != "send"), order


@pytest.mark.parametrize("decision", [Decision.RESEND, Decision.ABANDON])
async def test_in_every_order_events_end_what_a_person_gave_up_or_ordered_again(
    door: Door, api_engine: AsyncEngine, worker_engine: AsyncEngine, decision: Decision
) -> None:
    store = MessageStore(worker_engine)
    for order in ORDERS:
        message = await make_ambiguous(door.superuser)
        await address_to(door.superuser, message, ADA, ADDRESS_KEY)
        resolution = Resolution(attempt=1, decision=decision, reason="tried", by=CREDENTIAL)
        assert await ResolutionStore(api_engine).resolve(message.id, resolution) == message
        for kind in order:
            await door.tell(kind, message)
            # The claim finds the evidence and sends nothing.
            assert (await claim(store, message, claim_id=f"claim-{kind}")).answer is ClaimAnswer.SETTLED

        assert await state_of(door.superuser, message) is State.COMPLAINED, order
        count = "SELECT count(*) FROM attempts WHERE message_id = $1"
        assert await door.superuser.fetchval(count, message.id) == 1


async def test_a_hard_bounce_in_another_letter_case_suppresses_the_address_as_it_was_given(door: Door) -> None:
    message = await addressed(door, State.PROVIDER_ACCEPTED, ACCEPTED)
    body = json.loads(door.publisher.event("bounce_permanent_general", message))
    body["bounce"]["bouncedRecipients"][0]["emailAddress"] = "ADA@Example.COM"

    await door.take(door.publisher.notification(json.dumps(body)))

    assert await state_of(door.superuser, message) is State.HARD_BOUNCED
    row = await door.superuser.fetchrow("SELECT * FROM suppressions WHERE message_id = $1", message.id)
    assert row is None  # there is one since the first bounce, whatever the letter case
    active = await door.superuser.fetch("SELECT address, scope, reason FROM suppressions WHERE removed_at IS NULL")
    assert [tuple(each) for each in active] == [("ada@example.com", "all", "hard_bounce")]


SET_UP = (
    "Successfully validated SNS topic for Amazon SES event publishing.",
    '{"notificationType":"AmazonSnsSubscriptionSucceeded","message":"You have successfully subscribed."}',
    '{"eventType":"Send"}',
    "",
    "[]",
)


@pytest.mark.parametrize("text", SET_UP)
async def test_what_says_nothing_about_a_mail_is_taken_and_ignored(door: Door, text: str) -> None:
    assert await door.take(door.publisher.notification(text)) == "ignored"


async def test_an_event_of_a_type_that_nobody_knows_is_kept(door: Door) -> None:
    message = await addressed(door, State.PROVIDER_ACCEPTED, ACCEPTED)
    body = json.loads(door.publisher.event("send", message)) | {"eventType": "Teleport", "teleport": {"new": True}}

    assert await door.take(door.publisher.notification(json.dumps(body))) == "applied"

    assert await door.moves(message) == ["event_other"]


async def test_an_event_about_nobodys_mail_is_kept_and_waits(door: Door) -> None:
    body = door.publisher.notification(door.publisher.event("delivery", None))

    assert [await door.take(body), await door.take(body)] == ["unmatched", "duplicate"]

    assert await door.superuser.fetchval("SELECT count(*) FROM unmatched_events") == 1


async def test_a_subscription_is_kept_once_for_an_operator_and_its_address_is_never_called(door: Door) -> None:
    body = door.publisher.confirmation()

    taken = [await door.take(body), await door.take(door.publisher.confirmation())]

    assert taken == ["subscription_kept", "subscription_kept"]
    rows = await door.superuser.fetch("SELECT topic_arn, confirmed_at FROM event_subscriptions")
    assert [tuple(row) for row in rows] == [(TOPIC, None)]
    assert [line.split(" ")[1] for line in door.trap.requests] == [door.publisher.signer.certificate_path]
    assert await door.take(door.publisher.confirmation("UnsubscribeConfirmation")) == "ignored"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "", "application/octet-stream"])
async def test_content_types_are_not_looked_at(door: Door, kind: str) -> None:
    body = door.publisher.notification(door.publisher.event("send", None))

    answer = await door.post(body, **{"Content-Type": kind})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b'{"Type":"Notification"}', b"\xff\xfe", b"{" * 100_000, b'{"a":NaN}', b"\x00"],
    ids=repr,
)
async def test_what_sns_never_posts_is_400(door: Door, body: bytes) -> None:
    answer = await door.post(body[:200_000])

    assert (answer.status_code, answer.json()["code"]) == (400, "event_invalid")
    assert door.trap.nothing_was_fetched()


async def test_what_is_too_large_is_413(door: Door) -> None:
    answer = await door.post(b"x" * (600 * 1024))

    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")


async def test_what_sns_did_not_sign_changes_nothing_and_fetches_nothing_for_a_topic_that_is_not_ours(
    door: Door,
) -> None:
    message = await addressed(door, State.PROVIDER_ACCEPTED, ACCEPTED)
    event = door.publisher.event("complaint", message)
    elsewhere = Publisher(topic="arn:aws:sns:us-east-1:999999999999:ses-events")
    beside = Publisher(origin="https://sns.us-east-1.amazonaws.com.evil.example")
    refused = [
        elsewhere.notification(event),
        beside.notification(event),
        door.publisher.notification(event, age=3 * 3600),
    ]
    before = await door.superuser.fetchval("SELECT count(*) FROM provider_events")

    answers = [await door.post(body) for body in refused]
    assert door.trap.nothing_was_fetched()
    tampered = door.publisher.notification(event).replace(b"abuse", b"fraud")
    answers.append(await door.post(tampered))

    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(403, "event_unverified")}
    assert await door.superuser.fetchval("SELECT count(*) FROM provider_events") == before
    assert await door.moves(message) == []
    assert await door.tell("complaint", message) == ["applied"]


async def test_where_the_certificate_cannot_be_fetched_sns_is_asked_to_come_again(door: Door) -> None:
    door.trap.refuses = True
    body = door.publisher.notification(door.publisher.event("send", None))

    answer = await door.post(body)

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "Retry-After" in answer.headers
    door.trap.refuses = False
    assert await door.take(body) == "unmatched"


async def test_while_postgres_is_away_sns_is_asked_to_come_again(door: Door, database: Database) -> None:
    message = await addressed(door, State.PROVIDER_ACCEPTED, ACCEPTED)
    body = door.publisher.notification(door.publisher.event("delivery", message))
    admin = await asyncpg.connect(database.server.url())
    await admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS false')
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'fencepost_api'"
    try:
        await admin.execute(kill, database.name)
        answer = await door.post(body)
    finally:
        await admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS true')
        await admin.close()

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert await door.take(body) == "applied"


#: Where each of SES's bodies takes an accepted message, what becomes of its recipient, and how it stands in the
#: timeline; hard bounces and complaints suppress.
GOLDEN = {
    "send": (State.PROVIDER_ACCEPTED, None, "event_send"),
    "delivery": (State.DELIVERED, "delivered", "deliver"),
    "delivery_delay": (State.PROVIDER_ACCEPTED, None, "event_delay"),
    "bounce_permanent_general": (State.HARD_BOUNCED, "bounced", "bounce"),
    "bounce_permanent_no_email": (State.HARD_BOUNCED, "bounced", "bounce"),
    "bounce_permanent_suppressed": (State.HARD_BOUNCED, "bounced", "bounce"),
    "bounce_permanent_on_account_suppression_list": (State.HARD_BOUNCED, "bounced", "bounce"),
    "bounce_transient_general": (State.PROVIDER_ACCEPTED, None, "event_soft_bounce"),
    "bounce_transient_mailbox_full": (State.PROVIDER_ACCEPTED, None, "event_soft_bounce"),
    "bounce_undetermined": (State.PROVIDER_ACCEPTED, None, "event_soft_bounce"),
    "bounce_out_of_office": (State.PROVIDER_ACCEPTED, None, "event_soft_bounce"),
    "identity_notification_bounce": (State.HARD_BOUNCED, "bounced", "bounce"),
    "complaint": (State.COMPLAINED, "complained", "complain"),
    "complaint_on_account_suppression_list": (State.HARD_BOUNCED, "bounced", "bounce"),
    "reject": (State.DEAD, "rejected", "reject_late"),
    "rendering_failure": (State.DEAD, "rejected", "reject_late"),
    "open": (State.PROVIDER_ACCEPTED, None, "event_other"),
    "click": (State.PROVIDER_ACCEPTED, None, "event_other"),
    "subscription": (State.PROVIDER_ACCEPTED, None, "event_other"),
}
ON_A_LIST = {
    "bounce_permanent_suppressed",
    "bounce_permanent_on_account_suppression_list",
    "complaint_on_account_suppression_list",
}


def test_every_golden_body_has_its_end() -> None:
    assert {path.stem for path in GOLDEN_BODIES.glob("*.json")} == set(GOLDEN)


@pytest.mark.parametrize("golden", GOLDEN)
async def test_each_of_sess_bodies_comes_to_what_it_should(door: Door, golden: str) -> None:
    state, outcome, move = GOLDEN[golden]
    body = json.loads(door.publisher.event(golden, None))
    given = body["mail"]["messageId"]
    message = await addressed(door, State.PROVIDER_ACCEPTED, replace(ACCEPTED, provider_message_id=given))
    body = json.loads(door.publisher.event(golden, message))
    if "tags" not in body["mail"]:
        body["mail"]["messageId"] = given
    await door.superuser.execute("DELETE FROM suppressions")
    await door.superuser.execute("SET session_replication_role = replica")
    await door.superuser.execute("UPDATE attempts SET provider = 'ses' WHERE message_id = $1", message.id)
    await door.superuser.execute("SET session_replication_role = origin")

    assert await door.take(door.publisher.notification(json.dumps(body))) == "applied"

    assert await state_of(door.superuser, message) is state
    assert await door.moves(message) == [move]
    row = await door.superuser.fetchrow(
        """SELECT r.outcome, t.reason FROM recipients r JOIN timeline t USING (message_id)
        WHERE message_id = $1 AND t.seq = 2""",
        message.id,
    )
    reason = "provider_suppression_list" if golden in ON_A_LIST else None
    assert row is not None
    assert tuple(row) == (outcome, "rejected" if outcome == "rejected" else reason)
    reasons = {"bounced": ["hard_bounce"], "complained": ["complaint"]}
    active = await door.superuser.fetch("SELECT reason FROM suppressions")
    assert [each["reason"] for each in active] == reasons.get(outcome or "", [])
