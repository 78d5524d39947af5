"""How a name and an address stand in a mail header: 7 bit, and never more than one mailbox."""

import re
from base64 import b64encode
from typing import Final

#: RFC 5322 section 3.2.3: what needs no quotes.
_ATEXT: Final = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_ATOMS: Final = re.compile(rf"[{_ATEXT}]+(?: [{_ATEXT}]+)*")
#: What RFC 2047 encoded words begin with. Some mail programs decode them inside quotes too.
_ENCODED_WORD: Final = "=?"
#: RFC 2047 section 2 allows 75 characters a word, of which base64 leaves this many bytes.
_ENCODED_WORD_BYTES: Final = 45


def mailbox(address: str, name: str | None) -> str:
    """Write a mailbox as SES takes it: `Name <local@domain>`, the name quoted (RFC 5322) or encoded (RFC 2047).

    Both were checked at intake: the address is one ASCII address, and the name holds no line break.
    """
    return address if name is None else f"{_phrase(name)} <{address}>"


def _phrase(name: str) -> str:
    if name.isascii() and _ENCODED_WORD not in name:
        return name if _ATOMS.fullmatch(name) else '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    words, word = [], b""
    for character in name:
        encoded = character.encode()
        if len(word) + len(encoded) > _ENCODED_WORD_BYTES:  # no word may part a character
            words.append(word)
            word = b""
        word += encoded
    return " ".join(f"=?utf-8?b?{b64encode(word).decode()}?=" for word in [*words, word])
