"""Mail addresses: what is accepted, and in which form they are kept."""

import hashlib
import hmac
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from email_validator import EmailNotValidError, validate_email

from api.faults import Fault, FaultCode, InvalidRequest
from api.strict_json import JsonObject, JsonValue

#: Before any parsing: the longest local part (64) and domain (255) of RFC 5321 section 4.5.3.1, and the @.
MAX_ADDRESS_LENGTH: Final = 320
#: Ours; mail programs show far less of a name.
MAX_NAME_LENGTH: Final = 200
#: A quoted name with every character escaped, a space, and the address in angle brackets.
MAX_TEXT_LENGTH: Final = 2 * MAX_NAME_LENGTH + 2 + 1 + MAX_ADDRESS_LENGTH + 2

# RFC 5322 section 3.2.3.  In what clients write, RFC 6532 section 3.2 adds all letters of Unicode.
_ATEXT: Final = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_WORD: Final = rf'(?:[{_ATEXT}\u0080-\U0010ffff]+|"(?:[^"\\]|\\.)*")'
_WORDS: Final = re.compile(_WORD)
_NAMED: Final = re.compile(rf"(?:(?P<phrase>{_WORD}(?: +{_WORD})*) *)?<(?P<spec>[^<>]*)>")

#: What RFC 2047 encoded words begin with.  Some mail programs decode them where the RFC says not to, after which a
#: local part or a name could hold another address.
_ENCODED_WORD: Final = "=?"
#: Control characters, lone surrogates, and U+2028 and U+2029: everything that any program takes for a line break.
_UNPRINTABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
#: Embeddings, overrides and isolates of the bidirectional algorithm would make the address beside them read backwards.
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One mailbox, with the display name that goes with it.

    `local` is exactly what the client wrote, and `domain` is in lower-case A-label form (IDNA 2008), so that equal
    addresses in the sense of CONTRACT section 2 are equal values.
    """

    name: str | None = field(repr=False)
    local: str = field(repr=False)
    domain: str = field(repr=False)

    @property
    def spec(self) -> str:
        """The addr-spec of RFC 5322: `local@domain`."""
        return f"{self.local}@{self.domain}"

    @property
    def folded(self) -> str:
        """What suppressions compare: without letter case, since nearly every mailbox ignores it."""
        return f"{self.local.casefold()}@{self.domain}"

    def hashed(self, key: bytes) -> bytes:
        """Give the keyed hash by which an address is looked up: of its folded form, so that letter case finds it."""
        return hmac.digest(key, self.folded.encode(), hashlib.sha256)

    def redact(self) -> str:
        """Return a form that may be shown, `a***@example.com`."""
        first = self.local[0] if len(self.local) > 1 else ""
        return f"{first}***@{self.domain}"


def parse(value: JsonValue, at: str = "") -> Address:
    """Return the address in a JSON value: `"a@b.c"`, `"Name <a@b.c>"`, or `{"address": "a@b.c", "name": "Name"}`.

    A name in a string follows RFC 5322 section 3.4: words of letters, digits and a few signs, anything else in quotes.
    An empty name is none.  Not accepted: more than one address, quoted local parts, IP addresses for a domain,
    anything outside ASCII in a local part (SES has no SMTPUTF8), domains that nobody can have (`.test`, `.invalid`).

    Raises `InvalidRequest`; the faults' pointers begin with `at`.
    """
    match value:
        case str():
            return _from_text(value, at)
        case dict():
            return _from_members(value, at)
        case _:
            raise _refusal(at, FaultCode.WRONG_TYPE, "An address is a string, or an object with address and name.")


def _from_text(text: str, at: str) -> Address:
    if len(text) > MAX_TEXT_LENGTH:
        raise _refusal(at, FaultCode.TOO_LONG, f"An address with its name has at most {MAX_TEXT_LENGTH} characters.")
    if not text.endswith(">"):
        return _mailbox(text, None, at)
    named = _NAMED.fullmatch(text)
    if named is None:
        detail = "An address is a@b.c or Name <a@b.c>; a name with special characters stands in double quotes."
        raise _refusal(at, FaultCode.ADDRESS_INVALID, detail)
    words = _WORDS.findall(named["phrase"] or "")
    name = " ".join(re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word for word in words)
    return _mailbox(named["spec"], display_name(name, at), at)


def _from_members(members: JsonObject, at: str) -> Address:
    if members.keys() - {"address", "name"}:
        raise _refusal(at, FaultCode.UNKNOWN_FIELD, "An address has the members address and name only.")
    name = members.get("name")
    address = members.get("address")
    if not isinstance(name, str | None):
        raise _refusal(f"{at}/name", FaultCode.WRONG_TYPE, "A name is a string.")
    if address is None:
        raise _refusal(f"{at}/address", FaultCode.REQUIRED, "The address is missing.")
    if not isinstance(address, str):
        raise _refusal(f"{at}/address", FaultCode.WRONG_TYPE, "An address is a string.")
    return _mailbox(address, display_name(name or "", f"{at}/name"), f"{at}/address")


def display_name(text: str, at: str) -> str | None:
    """Return a display name without the spaces around it; an empty one is none. Raises `InvalidRequest`."""
    if any(unicodedata.category(character) in _UNPRINTABLE or character in _BIDI for character in text):
        raise _refusal(at, FaultCode.NAME_INVALID, "A name must not hold line breaks or control characters.")
    if len(text) > MAX_NAME_LENGTH:
        raise _refusal(at, FaultCode.TOO_LONG, f"A name has at most {MAX_NAME_LENGTH} characters.")
    return text.strip() or None


def _mailbox(spec: str, name: str | None, at: str) -> Address:
    if len(spec) > MAX_ADDRESS_LENGTH:
        raise _refusal(at, FaultCode.TOO_LONG, f"An address has at most {MAX_ADDRESS_LENGTH} characters.")
    local = spec.partition("@")[0]
    try:
        # `strict` is what holds a local part to 64 characters; without `allow_smtputf8=False` the library's
        # normalisation can turn letters outside ASCII into characters with a meaning of their own.
        domain = validate_email(spec, check_deliverability=False, allow_smtputf8=False, strict=True).ascii_domain
    except EmailNotValidError:
        domain = None
    if domain is None or _ENCODED_WORD in local:
        raise _refusal(at, FaultCode.ADDRESS_INVALID, "This is not one mail address that can be delivered to.")
    # The library lower-cases some local parts, such as Postmaster; ours stay as the client wrote them.
    return Address(name=name, local=local, domain=domain.lower())


def _refusal(at: str, code: FaultCode, detail: str) -> InvalidRequest:
    return InvalidRequest(Fault(pointer=at, code=code, detail=detail))
