"""Addresses: which are taken, and in which form they are kept."""

import pytest
from hypothesis import given, settings, strategies as st

from api.addresses import Address, parse
from api.faults import FaultCode, InvalidRequest
from api.strict_json import JsonValue


def _refusal(value: JsonValue) -> tuple[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        parse(value, "/to")
    (fault,) = refused.value.faults
    return fault.pointer, fault.code


@pytest.mark.parametrize(
    ("value", "name", "spec"),
    [
        ("ada@example.com", None, "ada@example.com"),
        ("<ada@example.com>", None, "ada@example.com"),
        ("Ada <ada@example.com>", "Ada", "ada@example.com"),
        ("Ada<ada@example.com>", "Ada", "ada@example.com"),
        ("Ada   Lovelace  <ada@example.com>", "Ada Lovelace", "ada@example.com"),
        ('"Lovelace, Ada" <ada@example.com>', "Lovelace, Ada", "ada@example.com"),
        ('"Ada \\"the\\" \\\\ L." <ada@example.com>', 'Ada "the" \\ L.', "ada@example.com"),
        ('"Ada B." Lovelace <ada@example.com>', "Ada B. Lovelace", "ada@example.com"),
        ('"a <b@evil.example>" <ada@example.com>', "a <b@evil.example>", "ada@example.com"),
        ("Zoë <zoe@example.com>", "Zoë", "zoe@example.com"),
        ('"" <ada@example.com>', None, "ada@example.com"),
        ({"address": "ada@example.com"}, None, "ada@example.com"),
        ({"address": "ada@example.com", "name": None}, None, "ada@example.com"),
        ({"address": "ada@example.com", "name": ""}, None, "ada@example.com"),
        ({"address": "ada@example.com", "name": "  "}, None, "ada@example.com"),
        ({"address": "ada@example.com", "name": "Lovelace, Ada"}, "Lovelace, Ada", "ada@example.com"),
        ("Postmaster@Example.COM", None, "Postmaster@example.com"),
        ("a+b.c@example.com", None, "a+b.c@example.com"),
        ("ada@BÜCHER.example", None, "ada@xn--bcher-kva.example"),
        ("ada@bu\u0308cher.example", None, "ada@xn--bcher-kva.example"),
        ("ada@XN--BCHER-KVA.example", None, "ada@xn--bcher-kva.example"),
        ("ada@faß.example", None, "ada@xn--fa-hia.example"),
    ],
)
def test_an_address_is_kept_in_one_form(value: JsonValue, name: str | None, spec: str) -> None:
    address = parse(value)

    assert (address.name, address.spec) == (name, spec)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "ada",
        "ada@",
        "@example.com",
        "ada@example",
        "ada@localhost",
        "ada@host.invalid",
        "a..b@example.com",
        ".a@example.com",
        "ada@example..com",
        "ada@example.com.",
        "ada@-example.com",
        "ada@[127.0.0.1]",
        "ada@127.0.0.1",
        '"ada"@example.com',
        '"a@evil.example x"@example.com',
        "ada@evil.example@example.com",
        "ädä@example.com",
        "a\u1fefb@example.com",
        "ada @example.com",
        " ada@example.com",
        "ada@example.com ",
        "ada@example.com\n",
        "ada@example.com\r\nBcc: x@example.com",
        "ada@exam\u2028ple.com",
        "ada(comment)@example.com",
        "ada@example.com, bob@example.com",
        "ada@example.com,bob@example.com",
        "ada@example.com;bob@example.com",
        "ada@example.com bob@example.com",
        "Ada <ada@example.com>, Bob <bob@example.com>",
        "<ada@example.com>, <bob@example.com>",
        "<ada@example.com> <bob@example.com>",
        "group: ada@example.com;",
        "undisclosed-recipients:;",
        "Ada <ada@example.com",
        "Ada ada@example.com>",
        "Ada <<ada@example.com>>",
        "Ada <>",
        "Dr. Ada <ada@example.com>",
        "Lovelace, Ada <ada@example.com>",
        '"Ada <ada@example.com>',
        'Ada" <ada@example.com>',
        "=?utf-8?q?bob=40evil=2Eexample=3E?=@example.com",
        "a" * 65 + "@example.com",
        "a@" + ".".join(["b" * 60] * 5) + ".com",
        "ada@xn--a.example",
    ],
)
def test_what_is_not_exactly_one_address_is_refused(value: str) -> None:
    assert _refusal(value) == ("/to", FaultCode.ADDRESS_INVALID)


@pytest.mark.parametrize("separator", list("\n\r\v\f\x1c\x1d\x1e\x00\x7f\x85\u2028\u2029\u202e\t"))
def test_a_name_with_a_line_break_or_control_character_is_refused(separator: str) -> None:
    name = f"Ada{separator}Bcc: x"

    assert _refusal({"address": "ada@example.com", "name": name}) == ("/to/name", FaultCode.NAME_INVALID)
    with pytest.raises(InvalidRequest):
        parse(f'"{name}" <ada@example.com>')


@pytest.mark.parametrize(
    ("value", "pointer", "code"),
    [
        (None, "/to", FaultCode.WRONG_TYPE),
        (17, "/to", FaultCode.WRONG_TYPE),
        (["ada@example.com"], "/to", FaultCode.WRONG_TYPE),
        ({}, "/to/address", FaultCode.REQUIRED),
        ({"address": 17}, "/to/address", FaultCode.WRONG_TYPE),
        ({"address": "ada@example.com", "name": 17}, "/to/name", FaultCode.WRONG_TYPE),
        ({"address": "ada@example.com", "canary": 1}, "/to", FaultCode.UNKNOWN_FIELD),
        ({"address": "Ada <ada@example.com>"}, "/to/address", FaultCode.ADDRESS_INVALID),
        ({"address": "ada@example.com", "name": "x" * 201}, "/to/name", FaultCode.TOO_LONG),
        ({"address": "ada@example.com", "name": "x" + " " * 200}, "/to/name", FaultCode.TOO_LONG),
        ({"address": "a" * 321}, "/to/address", FaultCode.TOO_LONG),
        ("a" * 100_000 + "@example.com", "/to", FaultCode.TOO_LONG),
        ("<" * 100_000, "/to", FaultCode.TOO_LONG),
    ],
)
def test_a_fault_points_at_the_part_that_is_wrong(value: JsonValue, pointer: str, code: FaultCode) -> None:
    assert _refusal(value) == (pointer, code)


def test_suppressions_compare_without_letter_case() -> None:
    assert parse("Ada@Example.com").folded == parse("aDA@example.COM").folded == "ada@example.com"


@pytest.mark.parametrize(
    ("address", "shown"), [("ada@example.com", "a***@example.com"), ("a@example.com", "***@example.com")]
)
def test_a_redacted_address_keeps_one_letter_of_several(address: str, shown: str) -> None:
    assert parse(address).redact() == shown


def test_nothing_of_an_address_is_printed() -> None:
    address = Address(name="canary", local="canary", domain="canary.example")

    assert "canary" not in f"{address!r} {address}"


@given(text=st.text() | st.text().map("a@{}.com".format) | st.text().map("{} <ada@example.com>".format))
@settings(deadline=None)
def test_any_text_is_an_address_or_refused_without_being_quoted(text: str) -> None:
    try:
        address = parse(text)
    except InvalidRequest as refusal:
        assert all(fault.pointer == "" for fault in refusal.faults)  # noqa: PT017  # both ways are right
    else:
        assert address.spec.isascii()
        assert address.domain == address.domain.lower()
