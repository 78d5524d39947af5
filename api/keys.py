"""API keys: how they are made, told from typos, and kept.

`fp_live_` or `fp_test_`, 16 characters of key id, `_`, 43 characters of secret (256 bits), and a CRC-32 of all that
in 6 digits; everything in base 62.  Scanners for leaked secrets can tell such a key from chance by its prefix and sum.
"""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field
from typing import Final, Literal

Environment = Literal["live", "test"]

_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_ID_LENGTH: Final = 16
#: 62^43 is just over 2^256, so that a fast hash is enough and no table of guesses helps.
_SECRET_LENGTH: Final = 43
_CHECKSUM_LENGTH: Final = 6
_KEY: Final = re.compile(
    rf"(?P<body>fp_(?P<environment>live|test)_(?P<key_id>[0-9A-Za-z]{{{_ID_LENGTH}}})"
    rf"_(?P<secret>[0-9A-Za-z]{{{_SECRET_LENGTH}}}))(?P<checksum>[0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedKey:
    """A new key: `key` is shown once, `secret_hash` of `secret` is stored under `key_id`."""

    key_id: str
    key: str = field(repr=False)
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedKey:
    """A text that is a key in form.  Whether anybody has it is for the store to say."""

    environment: Environment
    key_id: str
    secret: str = field(repr=False)


def mint(environment: Environment) -> MintedKey:
    """Return a new key with 256 random bits."""
    key_id, secret = _random(_ID_LENGTH), _random(_SECRET_LENGTH)
    body = f"fp_{environment}_{key_id}_{secret}"
    return MintedKey(key_id=key_id, key=body + _checksum(body), secret=secret)


def parse(text: str) -> ParsedKey | None:
    """Return the parts of a key, or None for anything that was never minted, such as a key with a typo."""
    match = _KEY.fullmatch(text)
    # The checksum is no secret: anybody can compute it.
    if match is None or match["checksum"] != _checksum(match["body"]):
        return None
    return ParsedKey(
        environment="live" if match["environment"] == "live" else "test",
        key_id=match["key_id"],
        secret=match["secret"],
    )


def secret_hash(pepper: bytes, secret: str) -> bytes:
    """Return the 32 bytes that are stored for a secret: HMAC-SHA-256 under a key that the database doesn't hold."""
    return hmac.digest(pepper, secret.encode(), hashlib.sha256)


def matches(pepper: bytes, secret: str, stored: bytes) -> bool:
    """Tell whether a secret is the stored one, in time that doesn't depend on either."""
    return hmac.compare_digest(secret_hash(pepper, secret), stored)


def _random(length: int) -> str:
    return "".join(secrets.choice(_DIGITS) for _ in range(length))


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
