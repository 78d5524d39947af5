"""The request hash: the published vectors, and RFC 8785's own."""

import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Final, TypedDict

import pytest
import rfc8785

from api import addresses
from api.canonical import ResolvedDefaults, canonical_context, canonical_json, hashed_bytes, request_hash
from api.command import SendCommand, parse_command
from api.strict_json import JsonValue, parse

_VECTORS: Final = Path(__file__).parent / "vectors"
_PAGE: Final = Path(__file__).parents[2] / "docs" / "request-hash.md"


class _Defaults(TypedDict):
    sender_address: str
    sender_name: str | None
    sender_reply_to: list[JsonValue]
    purpose: str


class _Vector(TypedDict):
    name: str
    shows: str
    equals: str | None
    tenant: str
    idempotency_key: str
    body: str
    defaults: _Defaults
    canonical: str
    hash: str


class _Text(TypedDict, total=False):
    section: str
    input: str
    canonical_hex: str
    values_in_order: list[str]


class _Rfc8785(TypedDict):
    texts: list[_Text]
    numbers: list[dict[str, str]]
    not_numbers: list[str]


_REQUESTS: Final[list[_Vector]] = json.loads((_VECTORS / "request_hash.json").read_text())
_RFC8785: Final[_Rfc8785] = json.loads((_VECTORS / "rfc8785.json").read_text())
_BY_NAME: Final = {vector["name"]: vector for vector in _REQUESTS}


def _defaults(given: _Defaults) -> ResolvedDefaults:
    return ResolvedDefaults(
        sender_address=given["sender_address"],
        sender_name=given["sender_name"],
        sender_reply_to=tuple(addresses.parse(value) for value in given["sender_reply_to"]),
        purpose=given["purpose"],
    )


@pytest.mark.parametrize("vector", _REQUESTS, ids=lambda vector: vector["name"])
def test_a_published_vector_holds(vector: _Vector) -> None:
    command, defaults = parse_command(vector["body"].encode()), _defaults(vector["defaults"])
    tenant, key = vector["tenant"], vector["idempotency_key"]

    assert hashed_bytes(tenant, key, command, defaults).decode() == vector["canonical"]
    assert request_hash(tenant, key, command, defaults) == vector["hash"]


@pytest.mark.parametrize("vector", _REQUESTS, ids=lambda vector: vector["name"])
def test_a_vector_s_hash_is_that_of_its_canonical_text(vector: _Vector) -> None:
    digest = hashlib.sha256(b"fencepost-request-v1\n" + vector["canonical"].encode()).hexdigest()

    assert vector["hash"] == f"v1:{digest}"


def test_the_vectors_are_equal_just_where_they_say_so() -> None:
    for vector in _REQUESTS:
        original = _BY_NAME[vector["equals"] or vector["name"]]
        assert vector["hash"] == original["hash"]
        assert original["equals"] is None

    originals = [vector["hash"] for vector in _REQUESTS if vector["equals"] is None]
    assert len(set(originals)) == len(originals)


def test_the_page_publishes_the_vectors() -> None:
    page = _PAGE.read_text()

    rows = re.findall(r"^\| ([\w-]+) \| (.+) \| `(v1:[0-9a-f]{64})` \|$", page, re.MULTILINE)

    shows = {
        vector["name"]: vector["shows"] + (f" (equals {vector['equals']})" if vector["equals"] else "")
        for vector in _REQUESTS
    }
    assert rows == [(name, shows[name], vector["hash"]) for name, vector in _BY_NAME.items()]
    assert f"```json\n{_BY_NAME['minimal']['canonical']}\n```" in page


def test_the_page_names_the_members_that_are_hashed() -> None:
    table = _PAGE.read_text().partition("## Object")[2].partition("A mailbox is")[0]

    named = {name for cell in re.findall(r"^\| (`.+?`) \| ", table, re.MULTILINE) for name in re.findall(r"\w+", cell)}

    assert named == json.loads(_BY_NAME["full"]["canonical"]).keys()


@pytest.mark.parametrize("text", _RFC8785["texts"], ids=lambda text: text["section"])
def test_rfc_8785_s_examples_come_out_as_printed(text: _Text) -> None:
    canonical = canonical_json(parse(text["input"].encode()))

    if "canonical_hex" in text:
        assert canonical.hex() == text["canonical_hex"]
    if "values_in_order" in text:
        assert list(json.loads(canonical).values()) == text["values_in_order"]


@pytest.mark.parametrize("sample", _RFC8785["numbers"], ids=lambda sample: sample["ieee754"])
def test_rfc_8785_s_number_samples_come_out_as_printed(sample: dict[str, str]) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(sample["ieee754"]))

    assert canonical_json(number).decode() == sample["text"]


@pytest.mark.parametrize("bits", _RFC8785["not_numbers"])
def test_what_is_no_number_has_no_canonical_form(bits: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))

    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json(number)


def _command(context: str) -> SendCommand:
    body = '{"to":"ada@example.com","sender":"demo","template":{"key":"welcome","version":1},"context":%s}'
    return parse_command((body % context).encode())


def test_templates_see_the_canonical_context() -> None:
    context = canonical_context(_command('{"one": 1.0, "big": 1e20, "zero": -0.0, "fraction": 12.50}').context)

    assert {name: repr(value) for name, value in context.items()} == {
        "one": "1",
        "big": "1e+20",
        "zero": "0",
        "fraction": "12.5",
    }


def test_nothing_protected_is_printed_of_the_defaults() -> None:
    defaults = ResolvedDefaults(
        sender_address="canary@example.org", sender_name="canary", sender_reply_to=(), purpose="transactional"
    )

    assert "canary" not in repr(defaults)
