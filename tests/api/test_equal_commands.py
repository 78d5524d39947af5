"""Two commands have one hash, and are one message, exactly when CONTRACT section 2 calls them equal."""

import email.utils
import json
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final, TypeAlias

import asyncpg
import httpx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from api import addresses
from api.canonical import ResolvedDefaults, request_hash
from api.command import parse_command, parse_idempotency_key
from tests.api.commands import (
    CHANGES,
    COMMANDS,
    DEFAULT_PURPOSE,
    DEFAULT_REPLY_TO,
    REWRITINGS,
    SPELLINGS,
    Members,
    a_label,
    changed_at,
    leaves,
)
from tests.api.conftest import Api
from tests.api.test_messages import messages_of, problem
from tests.factories import TENANT

_DEFAULTS: Final = ResolvedDefaults(
    sender_address="desk@example.org",
    sender_name=None,
    sender_reply_to=(addresses.parse(DEFAULT_REPLY_TO),),
    purpose=DEFAULT_PURPOSE,
)
#: A busy machine draws slowly, which is no fault of the test's.
_few: Final = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])

Choice: TypeAlias = Mapping[str, str | None]  #: a spelling for each member, and the idempotency key


def _hash(text: str, key: str = "key") -> str:
    return request_hash("acme", parse_idempotency_key([key]), parse_command(text.encode()), _DEFAULTS)


def _text(choice: Choice) -> str:
    members = (f'"{name}": {spelling}' for name, spelling in choice.items() if spelling and name != "key")
    return f"{{{', '.join(members)}}}"


def _key(choice: Choice) -> str:
    key = choice["key"]
    assert key is not None
    return key


FIRST: Final[Choice] = {member: rows[0][0] for member, rows in SPELLINGS.items()}


# The reference: the contract's words, one after the other, and none of the product's code.


def _plain_value(value: Any) -> object:
    match value:
        case bool() | None | str():
            return type(value).__name__, value
        case int() | float():
            return "number", float(value)
        case list():
            return "list", tuple(map(_plain_value, value))
        case dict():
            return "object", frozenset((name, _plain_value(item)) for name, item in value.items())
        case _:
            raise TypeError(value)


def _plain_mailbox(value: Any) -> tuple[str, str, str]:
    if isinstance(value, str):
        name, address = email.utils.parseaddr(value)
    else:
        name, address = value.get("name") or "", value["address"]
    local, _, domain = address.partition("@")
    return name.strip(), local, ".".join(map(a_label, domain.split(".")))


def _plain(text: str, key: str) -> object:
    """Bring a command into a form in which equal commands are equal values."""
    command: Members = json.loads(text)
    mailboxes = {
        member: tuple(map(_plain_mailbox, command.get(member) or default))
        for member, default in (("cc", []), ("bcc", []), ("reply_to", [DEFAULT_REPLY_TO]))
    }
    return (
        key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key,
        _plain_mailbox(command["to"]),
        tuple(mailboxes.items()),
        _plain_value(command["sender"]),
        _plain_value(command["template"]),
        _plain_value(command.get("context") or {}),
        command.get("purpose") or DEFAULT_PURPOSE,
        frozenset((name.lower(), value) for name, value in (command.get("headers") or {}).items()),
        _plain_value(command.get("tags") or {}),
    )


def _plain_choice(choice: Choice) -> object:
    return _plain(_text(choice), _key(choice))


@pytest.mark.parametrize("member", SPELLINGS)
def test_the_reference_says_what_the_table_says(member: str) -> None:
    plain = [{_plain_choice({**FIRST, member: spelling}) for spelling in row} for row in SPELLINGS[member]]

    assert {len(forms) for forms in plain} == {1}
    assert len(set.union(*plain)) == len(plain)


@pytest.mark.parametrize("member", SPELLINGS)
def test_a_hash_says_what_the_table_says(member: str) -> None:
    hashes = [
        {_hash(_text(choice), _key(choice)) for choice in ({**FIRST, member: spelling} for spelling in row)}
        for row in SPELLINGS[member]
    ]

    assert {len(forms) for forms in hashes} == {1}
    assert len(set.union(*hashes)) == len(hashes)


@st.composite
def _nearly_equal(draw: st.DrawFn) -> tuple[Choice, Choice]:
    """Draw two commands, the second mostly like the first, in a spelling and an order of its own."""
    one: dict[str, str | None] = {}
    other: dict[str, str | None] = {}
    for member in draw(st.permutations(list(SPELLINGS))):
        row = draw(st.sampled_from(SPELLINGS[member]))
        one[member] = draw(st.sampled_from(row))
        elsewhere = draw(st.integers(0, 15)) == 0
        other[member] = draw(st.sampled_from(draw(st.sampled_from(SPELLINGS[member])) if elsewhere else row))
    return {member: one[member] for member in draw(st.permutations(list(one)))}, other


def test_two_commands_have_one_hash_exactly_when_the_reference_calls_them_equal() -> None:
    seen: Counter[bool] = Counter()

    @given(pair=_nearly_equal())
    @settings(_few, max_examples=250)
    def compare(pair: tuple[Choice, Choice]) -> None:
        one, other = pair
        equal = _plain_choice(one) == _plain_choice(other)
        seen[equal] += 1
        assert (_hash(_text(one), _key(one)) == _hash(_text(other), _key(other))) is equal

    compare()
    assert min(seen[True], seen[False]) > 50, seen


def test_every_form_that_is_called_equal_has_the_same_hash() -> None:
    tried: Counter[str] = Counter()

    @given(body=COMMANDS)
    @_few
    def rewrite(body: Members) -> None:
        original = json.dumps(body)
        expected = _hash(original)
        written = {name: rewriting(body) for name, rewriting in REWRITINGS.items()}
        texts = {name: text if isinstance(text, str) else json.dumps(text) for name, text in written.items()}
        tried.update(name for name, text in texts.items() if text != original)
        assert [name for name, text in texts.items() if _hash(text) != expected] == []

    rewrite()
    assert set(tried) == set(REWRITINGS)


@given(body=COMMANDS)
@_few
def test_absent_null_empty_and_the_default_are_one(body: Members) -> None:
    empties: Members = {"cc": [], "bcc": [], "reply_to": [], "context": {}, "headers": {}, "tags": {}}
    for member, empty in empties.items():
        absent = {name: value for name, value in body.items() if name != member}
        hashes = {_hash(json.dumps(absent | more)) for more in ({}, {member: None}, {member: empty})}
        assert len(hashes) == 1, member


@given(body=COMMANDS)
@_few
def test_a_default_that_is_said_is_the_default(body: Members) -> None:
    for member, default in {"purpose": DEFAULT_PURPOSE, "reply_to": [{"address": DEFAULT_REPLY_TO}]}.items():
        absent = {name: value for name, value in body.items() if name != member}
        assert _hash(json.dumps(absent)) == _hash(json.dumps(absent | {member: default})) != _hash(json.dumps(body))


def test_any_single_change_has_another_hash() -> None:
    tried: Counter[str] = Counter()

    @given(body=COMMANDS)
    @_few
    def change(body: Members) -> None:
        original = _hash(json.dumps(body))
        changed = {name: change(body) for name, change in CHANGES.items()}
        different = {name: other for name, other in changed.items() if other != body}
        tried.update(list(different))
        assert [name for name, other in different.items() if _hash(json.dumps(other)) == original] == []

    change()
    assert set(tried) == set(CHANGES)


@given(body=COMMANDS, data=st.data())
@settings(_few, max_examples=50)
def test_a_change_of_any_value_anywhere_in_the_context_has_another_hash(body: Members, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(leaves(body["context"]))))

    assert _hash(json.dumps(body | {"context": changed_at(body["context"], path)})) != _hash(json.dumps(body))


@given(body=COMMANDS, key=st.from_regex(r"[ -~]{1,20}[a-z]", fullmatch=True))
@_few
def test_a_key_is_hashed_to_the_letter_but_for_its_quotes(body: Members, key: str) -> None:
    text = json.dumps(body)

    assert _hash(text, f'"{key}"') == _hash(text, key)
    assert len({_hash(text, other) for other in (key, key.swapcase(), f"{key} ", f" {key}", f'""{key}""')}) == 5


# Through the API: the table's rows, each first command in turn.


@pytest.fixture
async def tables(api: Api, superuser: asyncpg.Connection) -> Api:
    """Make the senders and templates that the table names; a template without variables takes every context."""
    await superuser.execute(
        f"""INSERT INTO senders (tenant_id, key, address, reply_to)
        SELECT '{TENANT}', key, 'desk@example.org', '[{{"address": "{DEFAULT_REPLY_TO}", "name": null}}]'
        FROM unnest(ARRAY['desk', 'other']) AS key ON CONFLICT DO NOTHING;
        INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
        SELECT '{TENANT}', key, version, 'Hello', 'Hello', '{DEFAULT_PURPOSE}', '{{}}'
        FROM (VALUES ('static', 1), ('static', 2), ('statics', 1)) AS made (key, version) ON CONFLICT DO NOTHING"""
    )
    return api


async def _send(api: Api, prefix: str, choice: Choice) -> httpx.Response:
    """Send a command; the prefix, which keeps the tests apart, goes inside the key's quotes."""
    key = _key(choice)
    prefixed = f'"{prefix}{key[1:]}' if key.startswith('"') else f"{prefix}{key}"
    return await api.send(_text(choice).encode(), key=prefixed)


ROWS: Final = [(member, row) for member, rows in SPELLINGS.items() for row in range(len(rows))]


@pytest.mark.parametrize(("member", "row"), ROWS, ids=str)
async def test_every_spelling_of_a_command_replays_it(
    tables: Api, superuser: asyncpg.Connection, member: str, row: int
) -> None:
    spellings = SPELLINGS[member][row]
    first = await _send(tables, f"{member} {row} ", {**FIRST, member: spellings[0]})
    before = await messages_of(superuser)

    again = [await _send(tables, f"{member} {row} ", {**FIRST, member: spelling}) for spelling in spellings]

    assert first.status_code == 202, first.text
    assert {(answer.status_code, answer.headers["idempotent-replayed"]) for answer in again} == {(200, "true")}
    assert {answer.json()["id"] for answer in again} == {first.json()["id"]}
    assert await messages_of(superuser) == before


@pytest.mark.parametrize("member", [member for member in SPELLINGS if member != "key"])
async def test_every_other_command_under_the_same_key_is_a_conflict(
    tables: Api, superuser: asyncpg.Connection, member: str
) -> None:
    choices = [{**FIRST, member: row[0]} for row in SPELLINGS[member]]
    firsts = [await _send(tables, f"{member} against {number} ", choice) for number, choice in enumerate(choices)]
    before = await messages_of(superuser)

    for (number, one), (_, other) in combinations(enumerate(choices), 2):
        answer = await _send(tables, f"{member} against {number} ", other)
        assert problem(answer) == (409, "idempotency_conflict"), (one[member], other[member])

    assert {first.status_code for first in firsts} == {202}
    assert await messages_of(superuser) == before


async def test_every_other_key_is_another_message(tables: Api) -> None:
    answers = [await _send(tables, "keys ", {**FIRST, "key": key}) for row in SPELLINGS["key"] for key in row]

    assert len({answer.json()["id"] for answer in answers}) == len(SPELLINGS["key"])
