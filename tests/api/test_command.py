"""The send command: what a body may say, and where it is wrong."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from api.command import (
    IdempotencyKeyInvalid,
    IdempotencyKeyMissing,
    SendCommand,
    TemplateRef,
    parse_command,
    parse_idempotency_key,
)
from api.command_schema import IDEMPOTENCY_KEY, SEND_COMMAND_SCHEMA
from api.faults import FaultCode, InvalidRequest
from api.strict_json import JsonObject, JsonValue

_MINIMAL: JsonObject = {"to": "ada@example.com", "sender": "demo", "template": {"key": "welcome", "version": 1}}
_ADDRESSES: list[JsonValue] = [f"a{number}@example.com" for number in range(60)]
_schema = Draft202012Validator(SEND_COMMAND_SCHEMA)


def _parse(**members: JsonValue) -> SendCommand:
    return parse_command(json.dumps(_MINIMAL | members).encode())


def _faults(body: JsonValue) -> set[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as refused:
        parse_command(json.dumps(body).encode())
    return {(fault.pointer, fault.code) for fault in refused.value.faults}


def test_the_contract_s_example_is_read() -> None:
    command = _parse(
        to="Ada <ada@example.com>",
        cc=[],
        bcc=[],
        reply_to=[],
        context={"name": "Ada"},
        purpose="transactional",
        headers={"X-Order": "17"},
        tags={"order": "17"},
    )

    assert (command.to.name, command.to.spec) == ("Ada", "ada@example.com")
    assert (command.sender, command.template) == ("demo", TemplateRef(key="welcome", version=1))
    assert (command.context, command.purpose) == ({"name": "Ada"}, "transactional")
    assert [(header.name, header.value) for header in command.headers] == [("X-Order", "17")]
    assert command.tags == (("order", "17"),)


def test_absent_null_and_empty_are_one() -> None:
    absent = _parse()

    null = _parse(cc=None, bcc=None, reply_to=None, context=None, purpose=None, headers=None, tags=None)
    empty = _parse(cc=[], bcc=[], reply_to=[], context={}, headers={}, tags={})

    assert absent == null == empty


def test_commands_that_differ_in_spelling_only_are_equal() -> None:
    one = _parse(
        to="ada@EXAMPLE.com",
        template={"key": "welcome", "version": 1.0},
        headers={"X-B": "1", "X-A": "2"},
        tags={"b": "1", "a": "2"},
    )
    other = _parse(to={"address": "ada@example.com"}, headers={"x-a": "2", "x-b": "1"}, tags={"a": "2", "b": "1"})

    assert one == other


def test_a_header_is_sent_under_the_name_that_was_given() -> None:
    command = _parse(headers={"x-order": "1", "LIST-Unsubscribe": "<https://example.org>"})

    assert {header.name for header in command.headers} == {"x-order", "LIST-Unsubscribe"}


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"canary": 1}, "", FaultCode.UNKNOWN_FIELD),
        ({"to": None}, "/to", FaultCode.REQUIRED),
        ({"to": ["ada@example.com"]}, "/to", FaultCode.WRONG_TYPE),
        ({"to": "nobody"}, "/to", FaultCode.ADDRESS_INVALID),
        ({"to": {"address": "ada@example.com", "canary": 1}}, "/to", FaultCode.UNKNOWN_FIELD),
        ({"cc": "ada@example.com"}, "/cc", FaultCode.WRONG_TYPE),
        ({"cc": ["ada@example.com", None]}, "/cc/1", FaultCode.REQUIRED),
        ({"bcc": ["ada@example.com", {"address": 1}]}, "/bcc/1/address", FaultCode.WRONG_TYPE),
        ({"cc": _ADDRESSES[:50]}, "/cc", FaultCode.TOO_MANY),
        ({"cc": _ADDRESSES[:25], "bcc": _ADDRESSES[25:50]}, "", FaultCode.TOO_MANY),
        ({"reply_to": _ADDRESSES[:11]}, "/reply_to", FaultCode.TOO_MANY),
        ({"sender": None}, "/sender", FaultCode.REQUIRED),
        ({"sender": 1}, "/sender", FaultCode.WRONG_TYPE),
        ({"sender": "Demo"}, "/sender", FaultCode.INVALID_FORMAT),
        ({"sender": "-demo"}, "/sender", FaultCode.INVALID_FORMAT),
        ({"sender": "demo\n"}, "/sender", FaultCode.INVALID_FORMAT),
        ({"sender": "d" * 65}, "/sender", FaultCode.INVALID_FORMAT),
        ({"template": None}, "/template", FaultCode.REQUIRED),
        ({"template": "welcome"}, "/template", FaultCode.WRONG_TYPE),
        ({"template": {"key": "welcome"}}, "/template/version", FaultCode.REQUIRED),
        ({"template": {"version": 1}}, "/template/key", FaultCode.REQUIRED),
        ({"template": {"key": "welcome", "version": 1, "canary": 1}}, "/template", FaultCode.UNKNOWN_FIELD),
        ({"template": {"key": "welcome", "version": True}}, "/template/version", FaultCode.WRONG_TYPE),
        ({"template": {"key": "welcome", "version": "1"}}, "/template/version", FaultCode.WRONG_TYPE),
        ({"template": {"key": "welcome", "version": 1.5}}, "/template/version", FaultCode.WRONG_TYPE),
        ({"template": {"key": "welcome", "version": 0}}, "/template/version", FaultCode.OUT_OF_RANGE),
        ({"template": {"key": "welcome", "version": 2**31}}, "/template/version", FaultCode.OUT_OF_RANGE),
        ({"template": {"key": "welcome", "version": 1e300}}, "/template/version", FaultCode.OUT_OF_RANGE),
        ({"context": []}, "/context", FaultCode.WRONG_TYPE),
        ({"context": "canary"}, "/context", FaultCode.WRONG_TYPE),
        ({"purpose": ""}, "/purpose", FaultCode.INVALID_FORMAT),
        ({"purpose": "Receipts"}, "/purpose", FaultCode.INVALID_FORMAT),
        ({"purpose": "r" * 33}, "/purpose", FaultCode.INVALID_FORMAT),
        ({"headers": []}, "/headers", FaultCode.WRONG_TYPE),
        ({"headers": {"X-A": 1}}, "/headers", FaultCode.WRONG_TYPE),
        ({"headers": {"X-A": None}}, "/headers", FaultCode.WRONG_TYPE),
        ({"headers": {f"X-{number}": "1" for number in range(16)}}, "/headers", FaultCode.TOO_MANY),
        ({"headers": {"X-A": "1", "x-a": "1"}}, "/headers", FaultCode.DUPLICATE),
        ({"headers": {"X-A": ""}}, "/headers", FaultCode.INVALID_FORMAT),
        ({"headers": {"X-A": "a" * 996}}, "/headers", FaultCode.INVALID_FORMAT),
        ({"headers": {"X-" + "a" * 10: "a" * 985}}, "/headers", FaultCode.INVALID_FORMAT),
        ({"tags": {"a": 1}}, "/tags", FaultCode.WRONG_TYPE),
        ({"tags": {"": "1"}}, "/tags", FaultCode.INVALID_FORMAT),
        ({"tags": {"a b": "1"}}, "/tags", FaultCode.INVALID_FORMAT),
        ({"tags": {"a": ""}}, "/tags", FaultCode.INVALID_FORMAT),
        ({"tags": {"a": "ä"}}, "/tags", FaultCode.INVALID_FORMAT),
        ({"tags": {"a": "1\n"}}, "/tags", FaultCode.INVALID_FORMAT),
        ({"tags": {"a" * 257: "1"}}, "/tags", FaultCode.INVALID_FORMAT),
        ({"tags": {"fencepost_message": "1"}}, "/tags", FaultCode.RESERVED),
        ({"tags": {"Fencepost_Message": "1"}}, "/tags", FaultCode.RESERVED),
        ({"tags": {f"t{number}": "1" for number in range(21)}}, "/tags", FaultCode.TOO_MANY),
    ],
)
def test_a_fault_points_at_the_field(change: JsonObject, pointer: str, code: FaultCode) -> None:
    assert _faults(_MINIMAL | change) == {(pointer, code)}


@pytest.mark.parametrize("body", [None, [], "canary", 17, True])
def test_the_body_has_to_be_an_object(body: JsonValue) -> None:
    assert _faults(body) == {("", FaultCode.WRONG_TYPE)}


@pytest.mark.parametrize(
    "name",
    [
        *("X-Order", "x-a", "X-" + "a" * 124, "X-!#$%&'*+.^_`|~", "X-SESSION", "list-UNSUBSCRIBE"),
        *("List-Unsubscribe-Post", "In-Reply-To", "References", "Auto-Submitted", "Feedback-ID"),
    ],
)
def test_an_allowed_header_is_taken(name: str) -> None:
    (header,) = _parse(headers={name: "a <b@c.example> ~"}).headers

    assert (header.folded, header.value) == (name.lower(), "a <b@c.example> ~")


@pytest.mark.parametrize(
    "name",
    [
        *("From", "to", "Subject", "Bcc", "Message-ID", "Date", "Return-Path", "DKIM-Signature", "Content-Type"),
        *("MIME-Version", "Received", "Reply-To", "Sender", "Order", "X-", "", "X", "X-A:", "X-A ", " X-A", "X A"),
        *("X-Ä", "X-A\n", "X-A\r\nBcc", "X-\x7f", "X-\u017f", "\u212a-A", "X-" + "a" * 125, "List-Unsubscribe:"),
    ],
)
def test_any_other_header_is_refused(name: str) -> None:
    assert _faults(_MINIMAL | {"headers": {name: "1"}}) == {("/headers", FaultCode.NOT_ALLOWED)}


@pytest.mark.parametrize("name", ["X-SES-CONFIGURATION-SET", "x-ses-message-tags", "X-Ses-"])
def test_headers_that_steer_ses_are_refused(name: str) -> None:
    assert _faults(_MINIMAL | {"headers": {name: "1"}}) == {("/headers", FaultCode.RESERVED)}


@pytest.mark.parametrize("character", [*"\n\r\v\f\x1c\x1d\x1e\x00\t\x7f\x85\u2028\u2029", "\xa0", "ä", "\r\nBcc: x"])
def test_a_line_break_or_control_character_in_a_header_is_refused(character: str) -> None:
    faults = {("", FaultCode.JSON_TEXT)} if character == "\x00" else {("/headers", FaultCode.INVALID_FORMAT)}

    assert _faults(_MINIMAL | {"headers": {"X-A": f"v{character}w"}}) == faults
    assert _faults(_MINIMAL | {"headers": {"X-A": f"v{character}"}}) == faults


def test_the_limits_themselves_are_allowed() -> None:
    command = _parse(
        cc=_ADDRESSES[:24],
        bcc=_ADDRESSES[24:49],
        reply_to=_ADDRESSES[:10],
        sender="d" * 64,
        template={"key": "w", "version": 2**31 - 1},
        purpose="p" * 32,
        headers={f"X-{number:02}": "v" * 992 for number in range(15)},
        tags={f"{number:02}" + "n" * 254: "v" * 256 for number in range(20)},
    )

    assert 1 + len(command.cc) + len(command.bcc) == 50


def test_every_fault_of_a_body_is_told_at_once() -> None:
    body: JsonValue = {"to": "nobody", "cc": [1], "sender": 1, "purpose": "A", "tags": {"a": 1}, "canary": 1}

    assert {pointer for pointer, _ in _faults(body)} == {
        "",
        "/to",
        "/cc/0",
        "/sender",
        "/template",
        "/purpose",
        "/tags",
    }


def test_no_fault_repeats_the_input() -> None:
    body = {
        "canary": 1,
        "to": "canary",
        "cc": [{"address": "canary", "canary": 1}],
        "sender": "Canary!",
        "template": {"key": "Canary!", "version": "canary", "canary": 1},
        "purpose": "Canary!",
        "context": "canary",
        "headers": {"canary": "canary", "X-canary": "canary\n"},
        "tags": {"canary ": "canary", "fencepost_canary": "1"},
    }

    with pytest.raises(InvalidRequest) as refused:
        parse_command(json.dumps(body).encode())

    assert "canary" not in f"{refused.value!r} {refused.value.faults}".lower()


def test_a_command_prints_nothing_that_is_protected() -> None:
    command = _parse(
        to="Canary <canary@example.com>",
        cc=["canary@example.com"],
        context={"canary": "canary"},
        headers={"X-Canary": "canary"},
        tags={"canary": "canary"},
    )

    assert "canary" not in f"{command!r} {command.headers!r}".lower()


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("abc", "abc"),
        ('"abc"', "abc"),
        ("aBc", "aBc"),
        ('" abc "', " abc "),
        ("a b", "a b"),
        ('"abc', '"abc'),
        ('abc"', 'abc"'),
        ('"', '"'),
        ('"""', '"'),
        ('""abc""', '"abc"'),
        ('"a\\"b"', 'a\\"b'),
        ("k" * 255, "k" * 255),
        ('"' + "k" * 255 + '"', "k" * 255),
        ("~", "~"),
    ],
)
def test_one_pair_of_quotes_is_no_part_of_the_key(value: str, key: str) -> None:
    assert parse_idempotency_key([value]) == key


@pytest.mark.parametrize(
    "values",
    [[""], [" "], ['""'], ['"  "'], ["k" * 256], ["ä"], ["a\tb"], ["a\x7f"], ["a\n"], ["a", "b"], ["a", "a"], ["", ""]],
)
def test_a_blank_long_unprintable_or_second_key_is_invalid(values: list[str]) -> None:
    with pytest.raises(IdempotencyKeyInvalid):
        parse_idempotency_key(values)


def test_no_key_is_missing() -> None:
    with pytest.raises(IdempotencyKeyMissing):
        parse_idempotency_key([])


_VALUES: list[JsonValue] = [None, 1, True, "", "a", "A b", [], [1], {}, {"a": 1}, {"a": "b"}, {"A b": "c"}]
_SHAPES: list[JsonObject] = [
    _MINIMAL,
    *({key: value for key, value in _MINIMAL.items() if key != name} for name in _MINIMAL),
    *(
        _MINIMAL | {name: value}
        for name in (*_MINIMAL, "cc", "bcc", "reply_to", "context", "purpose", "headers", "tags", "unknown")
        for value in _VALUES
    ),
    *(_MINIMAL | {"template": {"key": "a", "version": version}} for version in (0, 1, 1.0, 1.5, 2**31 - 1, 2**31, "1")),
    *(_MINIMAL | {"template": {"key": key, "version": 1}} for key in ("", "a", "A", "a" * 64, "a" * 65)),
    *(_MINIMAL | {"to": {"address": "ada@example.com", "name": name}} for name in (None, "", "Ada", 1)),
    *(_MINIMAL | {"headers": {name: "1"}} for name in ("X-A", "x-ses-a", "References", "Subject", "X-" + "a" * 125)),
    *(_MINIMAL | {"headers": {"X-A": value}} for value in ("", "a", "ä", "a" * 992)),
    *(_MINIMAL | {"tags": {name: "1"}} for name in ("fencepost_a", "Fencepost_a", "a", "a" * 257)),
    _MINIMAL | {"cc": _ADDRESSES[:49]},
    _MINIMAL | {"cc": _ADDRESSES[:50]},
    _MINIMAL | {"reply_to": _ADDRESSES[:11]},
]
#: What a schema can't say in full: whether a text is an address.
_BEYOND = {FaultCode.ADDRESS_INVALID}


def _codes(body: JsonObject) -> set[str]:
    try:
        parse_command(json.dumps(body).encode())
    except InvalidRequest as refusal:
        return {fault.code for fault in refusal.faults}
    return set()


@pytest.mark.parametrize("body", _SHAPES, ids=lambda body: json.dumps(body)[:120])
def test_the_published_schema_allows_just_what_is_taken(body: JsonObject) -> None:
    codes = _codes(body)

    if not codes & _BEYOND:
        assert _schema.is_valid(body) == (not codes)
    elif codes - _BEYOND:
        assert not _schema.is_valid(body)


_ADDRESS_PARTS = ["a", "Ada", "é", ".", "@", "@b.example", "ö.example", "<", ">", '"', "\\", ",", " ", "=?", "\u0085"]


@given(
    text=st.lists(st.sampled_from(_ADDRESS_PARTS) | st.characters(), max_size=8).map("".join)
    | st.text().map("a@{}.com".format)
    | st.text().map("{} <ada@example.com>".format)
    | st.text().map('"{}" <ada@example.com>'.format)
)
@settings(max_examples=300)
def test_the_published_schema_allows_every_address_that_is_taken(text: str) -> None:
    named: JsonObject = {"address": "ada@example.com", "name": text}
    forms: list[JsonValue] = [text, {"address": text}, named]
    for to in forms:
        body: JsonObject = {**_MINIMAL, "to": to}

        assert _codes(body) or _schema.is_valid(body)


@given(
    # A header's value comes without the spaces around it.
    value=st.text(st.characters(max_codepoint=300) | st.sampled_from('" '), max_size=300).map(str.strip)
    | st.integers(0, 258).map(lambda n: f'"{"k" * n}"')
    | st.sampled_from(['"', '""', '" "', '"""', '"k', 'k"', '" k "', "k" * 255, "k" * 256, '"' + "k" * 255])
)
@settings(max_examples=300)
def test_the_published_pattern_is_the_idempotency_key_s(value: str) -> None:
    try:
        parse_idempotency_key([value])
        taken = True
    except IdempotencyKeyInvalid:
        taken = False

    # Python's `$` also stands before a last line break, which no header has.
    assert Draft202012Validator(IDEMPOTENCY_KEY).is_valid(value.replace("\n", "\0")) == taken


def test_the_published_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SEND_COMMAND_SCHEMA)
