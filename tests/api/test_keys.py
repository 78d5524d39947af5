"""API keys: their form, their checksum and how they are kept."""

import re
import string
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from api import keys

_PEPPER = b"p" * 32


@pytest.mark.parametrize("environment", ["live", "test"])
def test_a_minted_key_parses_into_its_parts(environment: keys.Environment) -> None:
    minted = keys.mint(environment)

    parsed = keys.parse(minted.key)

    assert parsed == keys.ParsedKey(environment=environment, key_id=minted.key_id, secret=minted.secret)
    assert re.fullmatch(rf"fp_{environment}_[0-9A-Za-z]{{16}}_[0-9A-Za-z]{{49}}", minted.key)


def test_no_two_keys_are_alike() -> None:
    minted = [keys.mint("test") for _ in range(200)]

    assert len({key.key_id for key in minted}) == len({key.secret for key in minted}) == 200


def test_the_checksum_is_crc_32_in_base_62() -> None:
    key = keys.mint("live").key
    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase

    number = 0
    for digit in key[-6:]:
        number = number * 62 + alphabet.index(digit)

    assert number == zlib.crc32(key[:-6].encode())


@given(position=st.integers(0, 73), character=st.sampled_from(string.ascii_letters + string.digits + "_"))
@settings(deadline=None)
def test_one_wrong_character_is_no_key(position: int, character: str) -> None:
    key = keys.mint("live").key

    changed = key[:position] + character + key[position + 1 :]

    assert (keys.parse(changed) is None) == (changed != key)


@pytest.mark.parametrize(
    "change", [str.strip, str.lower, lambda key: key + "\n", lambda key: " " + key, lambda key: key[:-1]]
)
def test_only_the_exact_text_is_the_key(change: Callable[[str], str]) -> None:
    key = keys.mint("live").key

    assert (keys.parse(change(key)) is None) == (change(key) != key)


@given(text=st.text())
@settings(deadline=None)
def test_any_other_text_is_no_key(text: str) -> None:
    assert keys.parse(text) is None


def test_a_secret_matches_its_own_hash_under_the_same_pepper_only() -> None:
    secret = keys.mint("test").secret
    stored = keys.secret_hash(_PEPPER, secret)

    assert len(stored) == 32
    assert keys.matches(_PEPPER, secret, stored)
    assert not keys.matches(_PEPPER, keys.mint("test").secret, stored)
    assert not keys.matches(b"q" * 32, secret, stored)
    assert not keys.matches(_PEPPER, secret, bytes(32))


def test_the_stored_hash_is_hmac_sha_256() -> None:
    # RFC 4231, test case 2.
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"

    assert keys.secret_hash(b"Jefe", "what do ya want for nothing?").hex() == expected


def test_nothing_of_a_secret_is_printed() -> None:
    minted = keys.mint("test")

    printed = f"{minted!r} {minted} {keys.parse(minted.key)!r}"

    assert minted.secret not in printed
    assert minted.key_id in printed
