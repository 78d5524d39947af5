"""Every call with every kind of wrong caller: a table made from OpenAPI, in which each cell is as the rule says."""

import itertools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

import asyncpg
import httpx
import pytest

from db.ids import TenantId
from db.schema import metadata
from tests.api.callers import Caller, Strangers, bearer, strangers
from tests.api.conftest import Api, make_key, serving
from tests.api.operations import TENANT_SCOPES, Operation, document_of, furnish, operations_of
from tests.conftest import Database

#: Ids as they look, which nobody has.
UNKNOWN = {
    "messages/message_id": "01920000-0000-7000-8000-000000000000",
    "senders/key": "nobody",
    "suppressions/suppression_id": "01920000-0000-7000-8000-000000000000",
    "templates/key": "nothing",
    "versions/n": "99",
    "tenants/tenant_id": "nobody",
    "keys/key_id": "0000000000000000",
    "providers/name": "nobody",
    "subscriptions/subscription_id": "01920000-0000-7000-8000-000000000000",
}
#: What is nobody's id by its form.
MALFORMED = ["x" * 300, "-1", "a.b", "%00", "a%0A", "%C3%A9", "%7Bx%7D", "%20", "%ED%A0%80"]
EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "BREW")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A served API, three tenants with one of everything, and whoever may ask."""

    api: Api
    superuser: asyncpg.Connection
    operations: list[Operation]
    tenant: TenantId
    closed: TenantId
    ours: Mapping[str, str]
    rival: TenantId
    theirs: Mapping[str, str]
    operator_key: str = field(repr=False)
    of_tenants: Strangers
    of_operators: Strangers

    async def key(self, operation: Operation, tenant_id: TenantId) -> str:
        """Give a key with just the scope that an operation needs."""
        if operation.scope is None or operation.scope == "operator":
            return self.operator_key
        return await make_key(self.superuser, tenant_id, scopes=[operation.scope])

    async def ask(self, operation: Operation, path: str, *authorization: bytes, method: str = "") -> httpx.Response:
        """Make a call that the right caller could make; `method` is another one than its own."""
        content, kind = operation.written(operation.bodies()[0])
        headers = [(name.encode(), value.encode()) for name, value in (operation.headers() | kind).items()]
        headers += [(b"Authorization", value) for value in authorization]
        return await self.api.http.request(method or operation.method, path, headers=headers, content=content)

    async def stored(self) -> str:
        """Give a sum over every row of every table; when a key was last used doesn't count."""
        sums = " || ".join(
            f"""(SELECT coalesce(md5(string_agg(row, '' ORDER BY row)), '-')
                FROM (SELECT (to_jsonb(t) - 'last_used_at')::text AS row FROM {table.name} t) rows)"""
            for table in metadata.sorted_tables
        )
        return str(await self.superuser.fetchval(f"SELECT {sums}"))


@pytest.fixture
async def world(database: Database, superuser: asyncpg.Connection) -> AsyncIterator[World]:
    number = await superuser.fetchval("SELECT count(*) FROM tenants")
    tenant, rival, closed = (TenantId(f"{name}-{number}") for name in ("ours", "rival", "closed"))
    ours = await furnish(superuser, tenant)
    theirs = await furnish(superuser, rival, sender="rivals", template="rivals")
    await furnish(superuser, closed, state="disabled")
    async with serving(database.url("fencepost_api"), "") as api:
        yield World(
            api=api,
            superuser=superuser,
            operations=operations_of(await document_of(api)),
            tenant=tenant,
            closed=closed,
            ours=ours,
            rival=rival,
            theirs=theirs,
            operator_key=await make_key(superuser, None, scopes=["operator"]),
            of_tenants=await strangers(superuser, tenant, TENANT_SCOPES),
            of_operators=await strangers(superuser, None, ["operator"]),
        )


async def wrong_callers(world: World, operation: Operation) -> list[Caller]:
    """Say who may not make a call, by the scope that the document says it needs."""
    scope = operation.scope
    if scope is None:
        return []
    forbidden = Caller(name="", authorization=(), status=403, code="forbidden")
    if scope == "operator":
        return [
            *world.of_operators.callers,
            replace(forbidden, name="a tenant's, every scope", authorization=bearer(world.of_tenants.right)),
        ]
    others = [each for each in TENANT_SCOPES if each != scope]
    lacking = await make_key(world.superuser, world.tenant, scopes=others)
    callers = [
        *world.of_tenants.callers,
        replace(forbidden, name="every scope but its own", authorization=bearer(lacking)),
        replace(forbidden, name="an operator's", authorization=bearer(world.operator_key)),
    ]
    if "tenant_disabled" in operation.codes:
        key = await make_key(world.superuser, world.closed, scopes=[scope])
        disabled = Caller(name="a disabled tenant's", authorization=bearer(key), status=403, code="tenant_disabled")
        callers.append(disabled)
    return callers


def faults(answer: httpx.Response, status: int, code: str, *authorization: bytes) -> list[str]:
    """Say what is wrong with an answer that has to be this error."""
    if answer.status_code != status:
        return [f"{answer.status_code} instead of {status}: {answer.text[:100]}"]
    headers = answer.headers
    request_id = headers["x-request-id"]
    # An answer to HEAD has no body.
    body = (
        {"status": status, "code": code, "request_id": request_id} if answer.request.method == "HEAD" else answer.json()
    )
    secrets = {part for value in authorization for part in value.decode("latin-1").split() if len(part) > 10}
    shown = answer.text + str(headers)
    wrong = {
        "another media type": headers["content-type"] != "application/problem+json",
        "another code": (body["status"], body["code"]) != (status, code),
        "another request id": body["request_id"] != request_id,
        "WWW-Authenticate": headers.get("www-authenticate") != ("Bearer" if status == 401 else None),
        "something of the key": any(secret in shown for secret in secrets),
    }
    return [what for what, holds in wrong.items() if holds]


async def test_no_wrong_caller_is_let_in(world: World) -> None:
    cells: dict[tuple[str, str], int] = {}
    unexpected: list[str] = []
    for operation in world.operations:
        callers = await wrong_callers(world, operation)
        before = await world.stored()
        for caller in callers:
            answer = await world.ask(operation, operation.at(world.ours), *caller.authorization)

            wrong = faults(answer, caller.status, caller.code, *caller.authorization)
            wrong += ["undocumented"] * (caller.code not in operation.codes)
            wrong += ["something written"] * (await world.stored() != before)
            unexpected += [f"{operation.name}, {caller.name}: {what}" for what in wrong]
            cells[operation.name, caller.name] = answer.status_code

    print_table(cells)
    for_tenants = [operation for operation in world.operations if operation.scope not in (None, "operator")]
    for_operators = [operation for operation in world.operations if operation.scope == "operator"]
    with_state = [operation for operation in for_tenants if "tenant_disabled" in operation.codes]
    assert len(cells) == 19 * len(for_tenants) + len(with_state) + 18 * len(for_operators)
    assert {operation.path for operation in world.operations} - {path.split()[1] for path, _ in cells} == {
        "/healthz",
        "/readyz",
        "/v1/provider-events/ses",
    }
    assert not unexpected, "\n".join(unexpected)


async def test_nobody_reaches_what_is_somebody_else_s_or_never_was(world: World) -> None:
    cells: dict[tuple[str, str], int] = {}
    unexpected: list[str] = []
    for operation in with_objects(world):
        right = bearer(await world.key(operation, world.tenant))
        tries = {f"{place}, unknown": ({place: UNKNOWN[place]}, right) for place in operation.places}
        for number, bad in enumerate(MALFORMED):
            tries |= {f"{place}, malformed {number}": ({place: bad}, right) for place in operation.places}
            # Who asks is judged first.
            tries |= {f"{place}, malformed {number}, no key": ({place: bad}, ()) for place in operation.places}
        if operation.scope != "operator":
            tries["another tenant"] = ({}, bearer(await world.key(operation, world.rival)))
        elif "keys/key_id" in operation.places:
            tries["another tenant's key"] = ({"keys/key_id": world.theirs["keys/key_id"]}, right)
        before = await world.stored()
        for name, (ids, authorization) in tries.items():
            answer = await world.ask(operation, operation.at({**world.ours, **ids}), *authorization)

            wrong = faults(answer, 404, "not_found") if authorization else faults(answer, 401, "unauthenticated")
            wrong += ["something written"] * (await world.stored() != before)
            unexpected += [f"{operation.name}, {name}: {what}" for what in wrong]
            cells[operation.name, name] = answer.status_code

    print_table(cells)
    places = sum(len(operation.places) for operation in with_objects(world))
    assert len(cells) == places * (1 + 2 * len(MALFORMED)) + len(
        [each for each in with_objects(world) if each.scope != "operator" or "keys/key_id" in each.places]
    )
    assert not unexpected, "\n".join(unexpected)


def with_objects(world: World) -> list[Operation]:
    """Choose the calls about something that has to be there already; the others with a place in their path make it."""
    makes_what_it_names = ["publish_template_version"]
    chosen = [operation for operation in world.operations if "not_found" in operation.codes]
    others = [operation for operation in world.operations if operation.places and operation not in chosen]
    assert [operation.raw["operationId"] for operation in others] == makes_what_it_names
    return chosen


async def test_a_list_shows_nothing_of_somebody_else(world: World) -> None:
    lists = [each for each in world.operations if each.method == "get" and each.scope and not each.places]
    for operation in lists:
        answer = await world.ask(operation, operation.path, *bearer(await world.key(operation, world.rival)))

        assert answer.status_code == 200
        shown = answer.text.splitlines()[1:] if operation.path.endswith("/export") else answer.json()["data"]
        assert len(shown) >= 1
        if operation.scope != "operator":
            assert not any(world.ours[place] in answer.text for place in UNKNOWN if len(world.ours[place]) > 1)


async def test_another_method_is_refused_whoever_asks(world: World) -> None:
    cells: dict[tuple[str, str], int] = {}
    unexpected: list[str] = []
    methods: dict[str, list[Operation]] = {}
    for operation in world.operations:
        methods.setdefault(operation.path, []).append(operation)
    before = await world.stored()
    for path, operations in methods.items():
        allowed = sorted(operation.method.upper() for operation in operations)
        for method in sorted({*EVERY_METHOD} - {*allowed}):
            for name, authorization in {
                "no key": (),
                "a tenant's": bearer(world.of_tenants.right),
                "an operator's": bearer(world.operator_key),
            }.items():
                answer = await world.ask(operations[0], operations[0].at(world.ours), *authorization, method=method)

                wrong = faults(answer, 405, "method_not_allowed", *authorization)
                wrong += ["another Allow"] * (answer.headers.get("allow") != ", ".join(allowed))
                wrong += ["something written"] * (await world.stored() != before)
                unexpected += [f"{method} {path}, {name}: {what}" for what in wrong]
                cells[f"{method} {path}", name] = answer.status_code

    print_table(cells)
    assert len(cells) == 3 * (len(EVERY_METHOD) * len(methods) - len(world.operations))
    assert not unexpected, "\n".join(unexpected)


@pytest.mark.parametrize("change", ["{}/", "{}/x/y/z", "{}%20", "/v0{}"], ids=repr)
async def test_an_address_is_exact(world: World, change: str) -> None:
    unexpected: list[str] = []
    for operation in world.operations:
        path = change.format(operation.at(world.ours))
        authorization = bearer(await world.key(operation, world.tenant))
        before = await world.stored()
        answer = await world.ask(operation, path, *authorization)

        wrong = faults(answer, 404, "not_found")
        wrong += ["something written"] * (await world.stored() != before)
        unexpected += [f"{operation.name} as {change}: {what}" for what in wrong]

    assert not unexpected, "\n".join(unexpected)


async def test_the_right_caller_with_nothing_but_the_scope_is_let_in(
    world: World, superuser: asyncpg.Connection
) -> None:
    """Without this, a table in which everybody is refused would be right."""
    # SNS shows a signature, and no key: tests/api/test_provider_events.py.
    for number, operation in enumerate(each for each in world.operations if not each.signed):
        tenant_id = TenantId(f"{world.tenant}-{number}")
        makes_a_sender = operation.name == "POST /v1/senders"
        ids = await furnish(superuser, tenant_id, sender="other" if makes_a_sender else "demo")

        answer = await world.ask(operation, operation.at(ids), *bearer(await world.key(operation, tenant_id)))

        assert answer.status_code in operation.successes, f"{operation.name}: {answer.text}"


def print_table(cells: Mapping[tuple[str, str], int]) -> None:
    """Show who was answered what; pytest shows it with `-s`, or where the test fails."""
    lines = [""]
    for name, group in itertools.groupby(cells.items(), key=lambda cell: cell[0][0]):
        by_status = sorted(((status, caller) for (_, caller), status in group), key=itemgetter(0))
        lines.append(f"{name}: {len(by_status)} callers")
        for status, same in itertools.groupby(by_status, key=itemgetter(0)):
            lines.append(f"  {status}  {', '.join(caller for _, caller in same)}")
    print(*lines, f"{len(cells)} cells", sep="\n")  # noqa: T201  (a table for people)
