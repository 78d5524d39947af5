"""The product's hot operations, each run once, by the product's own stores and as its own database roles."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from bench.correctness import WrongRun
from bench.scale_data import CREDENTIAL, LARGE_TENANT, SENDER, TEMPLATE, Known
from db.credentials import CredentialStore
from db.decisions import BeginAnswer, ClaimAnswer, FinalAnswer, Limits
from db.engine import DatabaseSettings, Engine, create_engine
from db.events import EventStore, Taken
from db.ids import MessageId, new_message_id
from db.intake import IntakeStore, NewMessage, NewRecipient
from db.lifecycle import State
from db.outcomes import EventType, Outcome
from db.reading import MessageFilter, MessageReader, Place
from db.records import CallResult, MessageRef, NamedRecipient, ProviderEvent
from db.store import MessageStore, Recorded

_LEASE: Final = timedelta(seconds=60)
_CALL: Final = timedelta(seconds=14)
_PAGE: Final = 50
#: As many as a sweep takes at most.
_SWEPT: Final = 500
_LIMITS: Final = Limits(
    attempts=8,
    max_age=timedelta(hours=24),
    backoff_base=timedelta(seconds=2),
    backoff_cap=timedelta(seconds=300),
    account_wait=timedelta(seconds=60),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The stores of the three processes, on one database."""

    worker: Engine
    api: Engine
    events: Engine
    begins: dict[MessageId, UUID] = field(default_factory=dict)  #: under which id each message's attempt was begun

    @property
    def engines(self) -> tuple[Engine, ...]:
        """All through which statements run."""
        return self.worker, self.api, self.events


@asynccontextmanager
async def opened(url_of: Callable[[str], str]) -> AsyncIterator[Stores]:
    """Connect as the worker, the API and the consumer of events do; `url_of` gives a role's address."""
    engines = [
        create_engine(DatabaseSettings.model_validate({"url": url_of(f"fencepost_{name}")}), application="bench")
        for name in ("worker", "api", "events")
    ]
    try:
        yield Stores(worker=engines[0], api=engines[1], events=engines[2])
    finally:
        for engine in engines:
            await engine.dispose()


def _must(name: str, is_right: bool) -> None:  # noqa: FBT001 (the judgement itself)
    if not is_right:
        raise WrongRun(f"{name} did not do what it was timed for")


async def _claim(stores: Stores, message: Known) -> None:
    claimed = await MessageStore(stores.worker).claim(
        message.id, claim_id=str(uuid4()), owner="bench", lease=_LEASE, limits=_LIMITS
    )
    _must("claim", claimed.answer is ClaimAnswer.LEASED and claimed.attempt == 1)


async def _begin(stores: Stores, message: Known) -> None:
    stores.begins[message.id] = begin_id = uuid4()
    begun = await MessageStore(stores.worker).begin(message.id, 1, begin_id=begin_id, needs=_CALL)
    _must("begin", begun.answer is BeginAnswer.BEGUN)


async def _submission(stores: Stores, message: Known) -> None:
    submission = await MessageStore(stores.worker).submission(message.id, 1)
    _must("submission", len(submission.recipients) >= 1)


async def _record(stores: Stores, message: Known) -> None:
    result = CallResult(outcome=Outcome.ACCEPTED, provider="ses", provider_message_id=f"ses-{message.id}")
    begin_id = stores.begins[message.id]
    recorded = await MessageStore(stores.worker).record(message.id, 1, begin_id=begin_id, result=result)
    _must("record", recorded is Recorded.RECORDED)


async def _finalize(stores: Stores, message: Known) -> None:
    finalized = await MessageStore(stores.worker).finalize(message.id, 1, limits=_LIMITS)
    _must("finalize", (finalized.answer, finalized.state) == (FinalAnswer.SETTLED, State.PROVIDER_ACCEPTED))


async def _event(stores: Stores, message: Known) -> None:
    taken = await EventStore(stores.events).take(_event_about(message, EventType.DELIVERY, tagged=True))
    _must("event", taken is Taken.APPLIED)


async def _bounce(stores: Stores, message: Known) -> None:
    taken = await EventStore(stores.events).take(_event_about(message, EventType.BOUNCE, tagged=False))
    _must("a bounce without tags", taken is Taken.APPLIED)


async def _repeat(stores: Stores, message: Known) -> None:
    event = _event_about(message, EventType.COMPLAINT, tagged=True)
    store = EventStore(stores.events)
    _must("a repeated event", [await store.take(event), await store.take(event)] == [Taken.APPLIED, Taken.DUPLICATE])


async def _stray(stores: Stores, message: Known) -> None:
    store = EventStore(stores.events)
    stray = replace(message, id=new_message_id())
    taken = await store.take(_event_about(stray, EventType.DELIVERY, tagged=True))
    waiting = await store.waiting(1)
    _must("an event without a message", taken is Taken.UNMATCHED and not await store.match(waiting[0]))


def _event_about(message: Known, event: EventType, *, tagged: bool) -> ProviderEvent:
    return ProviderEvent(
        provider="ses",
        notification_id=str(uuid4()),
        natural_key=uuid4().hex,
        type=event,
        recipients=(NamedRecipient(address_hash=message.address_hash),),
        provider_message_id=f"ses-{message.id}",
        message_tag=str(message.id) if tagged else None,
        attempt_tag="1" if tagged else None,
    )


async def _status(stores: Stores, message: Known) -> None:
    view = await MessageReader(stores.api).message(message.tenant_id, message.id)
    _must("status", view is not None and len(view.timeline) >= 1)


def _listing(wanted: MessageFilter, *, least: int = _PAGE) -> Callable[[Stores, Known], Awaitable[None]]:
    async def first_page(stores: Stores, _: Known) -> None:
        page = await MessageReader(stores.api).messages(LARGE_TENANT, wanted, after=None, limit=_PAGE)
        _must("list", len(page) >= least)

    return first_page


async def _deep_page(stores: Stores, message: Known) -> None:
    """Go on in the middle of the list: from where a message of the sample stands in time."""
    after = Place(created_at=message.created_at, message_id=message.id)
    page = await MessageReader(stores.api).messages(LARGE_TENANT, MessageFilter(), after=after, limit=_PAGE)
    _must("list, deep", len(page) == _PAGE)


async def _sweep(stores: Stores, _: Known) -> None:
    store = MessageStore(stores.worker)
    leases = await store.expired_leases(_SWEPT)
    startable = await store.startable(overdue=timedelta(minutes=1), again_after=timedelta(minutes=5), most=_SWEPT)
    waiting = await EventStore(stores.worker).waiting(_SWEPT)
    _must("sweep", bool(leases and startable and waiting))


async def _settle(stores: Stores, _: Known) -> None:
    store = MessageStore(stores.worker)
    (lease,) = await store.expired_leases(1)
    _must("settling a lease that ran out", await store.settle_expired(lease, limits=_LIMITS))
    (startable,) = await store.startable(overdue=timedelta(minutes=1), again_after=timedelta(minutes=5), most=1)
    await store.run_requested(startable.id)


async def _ambiguous(stores: Stores, _: Known) -> None:
    reader = MessageReader(stores.api)
    (first,) = await reader.ambiguous(after=None, limit=1)
    await reader.ambiguous(after=(first.updated_at, first.ref.id), limit=_PAGE)


async def _intake(stores: Stores, message: Known) -> None:
    await CredentialStore(stores.api).find(CREDENTIAL)
    store, key = IntakeStore(stores.api), str(uuid4())
    looked_up = await store.look_up(LARGE_TENANT, key, sender=SENDER, template=TEMPLATE, version=1)
    _must("intake", looked_up.original is None and looked_up.sender is not None and looked_up.template is not None)
    accepted = await store.accept(_new(key, message))
    _must("intake", accepted is not None and await store.original(LARGE_TENANT, key) is not None)


def _new(key: str, message: Known) -> NewMessage:
    return NewMessage(
        ref=MessageRef(id=new_message_id(), tenant_id=LARGE_TENANT, request_hash=f"v1:{uuid4().hex}{uuid4().hex}"),
        idempotency_key=key,
        hash_version=1,
        credential_id=CREDENTIAL,
        provider="ses",
        purpose="transactional",
        template_key=TEMPLATE,
        template_version=1,
        template_purpose="transactional",
        sender_key=SENDER,
        sender_address="hello@scale.example.com",
        sender_name=None,
        sender_reply_to=[],
        reply_to=[],
        recipients=(
            NewRecipient(
                role="to",
                address="somebody@example.com",
                name=None,
                address_hash=message.address_hash,
                redacted="s***@example.com",
            ),
        ),
        subject="Hello",
        text="Hello",
        html=None,
        headers=(),
        tags={"kind": "kind-1"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One hot operation.

    Attributes:
        run: Does it once. Raises WrongRun where it did something else than it should.
        on_new: Whether it takes a new message, which has been through all operations above it, or any message.
        timed: Whether it has a figure of its own; otherwise its plans alone count.

    """

    name: str
    run: Callable[[Stores, Known], Awaitable[None]]
    on_new: bool = False
    timed: bool = True


#: In the order in which a message goes through them.
OPERATIONS: Final[Sequence[Operation]] = (
    Operation(name="claim", run=_claim, on_new=True),
    Operation(name="begin", run=_begin, on_new=True),
    Operation(name="submission", run=_submission, on_new=True, timed=False),
    Operation(name="record", run=_record, on_new=True),
    Operation(name="finalize", run=_finalize, on_new=True),
    Operation(name="event", run=_event, on_new=True),
    Operation(name="bounce", run=_bounce, on_new=True, timed=False),
    Operation(name="repeat", run=_repeat, on_new=True, timed=False),
    Operation(name="stray", run=_stray, on_new=True, timed=False),
    Operation(name="status", run=_status),
    Operation(name="list", run=_listing(MessageFilter())),
    Operation(name="list_state", run=_listing(MessageFilter(state=State.DELIVERED))),
    Operation(name="list_purpose", run=_listing(MessageFilter(purpose="security"))),
    Operation(name="list_tag", run=_listing(MessageFilter(tag=("kind", "kind-3")))),
    Operation(name="list_rare_tag", run=_listing(MessageFilter(tag=("order", "777")), least=0)),
    Operation(name="list_deep", run=_deep_page),
    Operation(name="sweep", run=_sweep),
    Operation(name="settle", run=_settle, timed=False),
    Operation(name="ambiguous", run=_ambiguous, timed=False),
    Operation(name="intake", run=_intake, timed=False),
)
