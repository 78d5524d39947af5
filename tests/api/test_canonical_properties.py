"""The request hash: what never changes it, and what always does."""

import dataclasses
import json
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from api import addresses
from api.canonical import ResolvedDefaults, request_hash, resolve
from api.command import parse_command
from api.strict_json import MAX_SAFE_INTEGER, JsonObject, JsonValue

_DEFAULTS: Final = ResolvedDefaults(
    sender_address="billing@example.org",
    sender_name="Example Billing",
    sender_reply_to=(addresses.parse("Desk <desk@example.org>"),),
    purpose="receipt",
)
_SPECS: Final = st.builds(
    "{}@{}.example".format,
    st.from_regex(r"[A-Za-z0-9+]{1,8}(\.[a-z]{1,4})?", fullmatch=True),
    st.from_regex(r"[A-Za-z]{1,8}", fullmatch=True) | st.sampled_from(["Bücher", "xn--bcher-kva", "faß"]),
)
_TEXT: Final = st.text(st.characters(codec="utf-8", min_codepoint=1), max_size=12)
_NAMES: Final = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=12)
_MAILBOXES: Final[st.SearchStrategy[JsonValue]] = st.fixed_dictionaries({"address": _SPECS}, optional={"name": _NAMES})
_CONTEXTS: Final = st.dictionaries(
    _TEXT,
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
        | st.floats(allow_nan=False, allow_infinity=False)
        | _TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
        max_leaves=8,
    ),
    max_size=4,
)
_BODIES: Final[st.SearchStrategy[JsonObject]] = st.fixed_dictionaries(
    {
        "to": _MAILBOXES,
        "cc": st.lists(_MAILBOXES, max_size=3),
        "bcc": st.lists(_MAILBOXES, max_size=3),
        "reply_to": st.lists(_MAILBOXES, max_size=3),
        "sender": st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True),
        "template": st.fixed_dictionaries({"key": st.just("welcome"), "version": st.integers(1, 2**31 - 1)}),
        "context": _CONTEXTS,
        "purpose": st.none() | st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True),
        "headers": st.dictionaries(
            st.from_regex(r"x-[a-r]{1,6}", fullmatch=True), st.from_regex(r"[ -~]{1,20}", fullmatch=True), max_size=4
        ),
        "tags": st.dictionaries(*[st.from_regex(r"[A-Za-z0-9-]{1,6}", fullmatch=True)] * 2, max_size=4),
    }
)


#: A busy machine draws slowly, which is no fault of the test's.
_few: Final = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
_fewer: Final = settings(_few, max_examples=15)


def _hash(text: str, *, key: str = "k") -> str:
    return request_hash("t", key, parse_command(text.encode()), _DEFAULTS)


class _Speller:
    """Writes a body in another way that means the same."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def _flip(self) -> bool:
        return self._data.draw(st.booleans())

    def body(self, body: JsonObject) -> str:
        written: JsonObject = {}
        for name in self._data.draw(st.permutations(list(body))):
            value = body[name]
            if not value and self._flip():
                if self._flip():
                    written[name] = None
                continue
            match name:
                case "to":
                    written[name] = self._mailbox(value)
                case "cc" | "bcc" | "reply_to":
                    assert isinstance(value, list)
                    written[name] = [self._mailbox(item) for item in value]
                case "headers":
                    assert isinstance(value, dict)
                    written[name] = {self._case(header): text for header, text in self._shuffled(value).items()}
                case _:
                    written[name] = self._value(value)
        indent = self._data.draw(st.none() | st.integers(0, 3))
        return json.dumps(written, ensure_ascii=self._flip(), indent=indent)

    def _shuffled(self, members: JsonObject) -> JsonObject:
        return {name: members[name] for name in self._data.draw(st.permutations(list(members)))}

    def _case(self, text: str) -> str:
        return "".join(letter.upper() if self._flip() else letter.lower() for letter in text)

    def _mailbox(self, value: JsonValue) -> JsonValue:
        assert isinstance(value, dict)
        local, _, domain = str(value["address"]).partition("@")
        # The upper case of ß is SS, which is another domain.
        spec = f"{local}@{domain if 'ß' in domain else self._case(domain)}"
        name = str(value.get("name", ""))
        if self._flip():
            return {"name": name, "address": spec} if name or self._flip() else {"address": spec}
        if not name:
            return spec if self._flip() else f"<{spec}>"
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}" <{spec}>'

    def _value(self, value: JsonValue) -> JsonValue:
        match value:
            case dict():
                return {name: self._value(item) for name, item in self._shuffled(value).items()}
            case list():
                return [self._value(item) for item in value]
            case int() if not isinstance(value, bool):
                return float(value) if self._flip() else value
            case float() if value.is_integer() and abs(value) <= MAX_SAFE_INTEGER:
                return int(value) if self._flip() else value
            case _:
                return value


@given(body=_BODIES, data=st.data())
@_few
def test_spelling_never_changes_the_hash(body: JsonObject, data: st.DataObject) -> None:
    respelled = _Speller(data).body(body)

    assert _hash(respelled) == _hash(json.dumps(body))


def _replaced(name: str, change: Callable[[JsonValue], JsonValue]) -> Callable[[JsonObject], JsonObject]:
    return lambda body: body | {name: change(body[name])}


def _more(value: JsonValue) -> JsonValue:
    assert isinstance(value, list)
    return [*value, "more@example.com"]


def _with(**members: JsonValue) -> Callable[[JsonValue], JsonValue]:
    def change(value: JsonValue) -> JsonValue:
        assert isinstance(value, dict)
        return value | members

    return change


_CHANGES: Final[dict[str, Callable[[JsonObject], JsonObject]]] = {
    "recipient": _replaced("to", _with(address="other-recipient@example.com")),
    "display name": _replaced("to", _with(name="Some Other Name")),
    "one more cc": _replaced("cc", _more),
    "one more bcc": _replaced("bcc", _more),
    "one more reply-to": _replaced("reply_to", _more),
    "sender": _replaced("sender", lambda _: "another-sender"),
    "template key": _replaced("template", _with(key="farewell")),
    "template version": _replaced("template", lambda template: _with(version=_next(template))(template)),
    "context": _replaced("context", _with(another_member_of_it=1)),
    "purpose": _replaced("purpose", lambda _: "another_purpose"),
    "header": _replaced("headers", _with(**{"x-zzz": "1"})),
    "tag": _replaced("tags", _with(another_tag="1")),
}


def _next(template: JsonValue) -> int:
    assert isinstance(template, dict)
    version = template["version"]
    assert isinstance(version, int)
    return version - 1 if version > 1 else 2


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES.keys())
@given(body=_BODIES)
@_fewer
def test_any_single_change_changes_the_hash(change: Callable[[JsonObject], JsonObject], body: JsonObject) -> None:
    assert _hash(json.dumps(change(body))) != _hash(json.dumps(body))


@given(body=_BODIES)
@_fewer
def test_the_tenant_the_key_and_the_sender_s_address_and_name_are_hashed(body: JsonObject) -> None:
    command = parse_command(json.dumps(body).encode())

    hashes = {
        request_hash("t", "k", command, _DEFAULTS),
        request_hash("u", "k", command, _DEFAULTS),
        request_hash("t", "K", command, _DEFAULTS),
        request_hash("t", "k", command, dataclasses.replace(_DEFAULTS, sender_address="other@example.org")),
        request_hash("t", "k", command, dataclasses.replace(_DEFAULTS, sender_name=None)),
    }

    assert len(hashes) == 5


@given(body=_BODIES)
@_few
def test_a_resolved_command_has_the_same_hash_and_resolves_to_itself(body: JsonObject) -> None:
    command = parse_command(json.dumps(body).encode())

    resolved = resolve(command, _DEFAULTS)

    assert resolve(resolved, _DEFAULTS) == resolved
    assert request_hash("t", "k", resolved, _DEFAULTS) == request_hash("t", "k", command, _DEFAULTS)
    assert resolved.purpose is not None
