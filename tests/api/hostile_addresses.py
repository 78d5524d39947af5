"""Hostile addresses: what is not one mailbox, and display names that are not one line; data only."""

from typing import Final

from tests.api.hostile_inputs import BLANKS, CANARY, GOOD, LINE_BREAKS, change, point

_BIDI: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

#: What is not one address, wherever one may stand.
_NO_ADDRESSES: Final = {
    "empty": "",
    "a word": CANARY,
    "two with a comma": "canary@example.com, bob@example.com",
    "two with a comma alone": "canary@example.com,bob@example.com",
    "two with a semicolon": "canary@example.com;bob@example.com",
    "two with a space": "canary@example.com bob@example.com",
    "two with names": "Canary <canary@example.com>, Bob <bob@example.com>",
    "two in angle brackets": "<canary@example.com> <bob@example.com>",
    "an address as its own name": "canary@example.com <bob@example.com>",
    "with a comment behind": "canary@example.com (comment)",
    "with a comment before": "(comment) canary@example.com",
    "with a comment in the local part": "canary(comment)@example.com",
    "with a comment in the domain": "canary@(comment)example.com",
    "a group": "friends: canary@example.com;",
    "an empty group": "undisclosed-canary:;",
    "a route": "<@example.net,@example.org:canary@example.com>",
    "a route without brackets": "@example.net:canary@example.com",
    "quoted": '"canary"@example.com',
    "quoted with an at sign": '"canary@example.org"@example.com',
    "quoted with a bracket": '"canary>"@example.com',
    "escaped": "canary\\@bob@example.com",
    "an IPv4 literal": "canary@[127.0.0.1]",
    "an IPv6 literal": "canary@[IPv6:::1]",
    "a general literal": "canary@[canary:1]",
    "an IPv4 address": "canary@127.0.0.1",
    "with a trailing dot": "canary@example.com.",
    "with a dot before the domain": "canary@.example.com",
    "with two dots in the domain": "canary@example..com",
    "with a leading dot": ".canary@example.com",
    "with a dot before the at sign": "canary.@example.com",
    "with two dots": "can..ary@example.com",
    "with two at signs": "canary@example.com@example.org",
    "without a local part": "@canary.example",
    "without a domain": "canary@",
    "on one label": "canary@canary",
    "on this machine": "canary@localhost",
    "on a name for tests": "canary@canary.test",
    "on a name that nobody has": "canary@canary.invalid",
    "on a local network": "canary@canary.local",
    "on a numeric top level": "canary@example.123",
    "with an underscore in the domain": "canary@ex_ample.com",
    "with a leading hyphen": "canary@-example.com",
    "with a trailing hyphen": "canary@example-.com",
    "with hyphens third and fourth": "canary@ab--canary.com",
    "65 before the at sign": f"{CANARY:c<65}@example.com",
    "64 in a label": f"canary@{CANARY:c<64}.com",
    "256 behind the at sign": f"canary@{f'{CANARY:c<60}.' * 4}{CANARY:c<12}",
    "in other letters": "canäry@example.com",
    "in letters that fold to signs": "canary\u1fef@example.com",
    "an encoded word": "=?utf-8?q?canary=40example=2Eorg?=@example.com",
    "a web address": "mailto:canary@example.com",
    "IDNA 2003 alone, a snowman": "canary@\u2603.com",
    "IDNA 2003 alone, an A-label": "canary@xn--n3h.com",
    "an emoji": "canary@\U0001f4a9.la",
    "an A-label of nothing": "canary@xn--.com",
    "an A-label of ASCII": "canary@xn--canary-.com",
    "an A-label that can't be read": "canary@xn--canary.com",
    "an A-label of what is no label": "canary@xn--0.pt",
    "with a combining mark first": "canary@\u0301canary.com",
    "with two directions in a label": "canary@\u05d0canary.com",
    "with a middle dot among Latin": "canary@a\u30fba.com",
    "with foreign digits": "canary@\u0661.com",
    "with digits of two scripts": "canary@\u0627\u0661\u06f1.com",
    "with a joiner": "canary@cana\u200dry.com",
    "with a soft hyphen": "canary@cana\u00adry.com",
    "with an override of direction": "canary@\u202emoc.elpmaxe",
    "in two pairs of brackets": "Canary <<canary@example.com>>",
    "in brackets that don't close": "Canary <canary@example.com",
    "in brackets that don't open": "Canary canary@example.com>",
    "in empty brackets": "Canary <>",
    "with more behind the brackets": "Canary <canary@example.com> canary",
    "with a dot in a bare name": "Dr. Canary <canary@example.com>",
    "with a comma in a bare name": "Canary, Ada <canary@example.com>",
    "with an open quote": '"Canary <canary@example.com>',
    "with a quote in a word": 'Can"ary <canary@example.com>',
    "with a header behind": "canary@example.com\r\nBcc: canary@example.org",
}

ROWS: Final = (
    *(
        change(f"an address that is {name}", {"to": text}, "/to", "address_invalid")
        for name, text in _NO_ADDRESSES.items()
    ),
    *(
        change(
            f"an address with {point(sign)} {place}",
            {"to": {"address": text.replace("@@", sign)}},
            "/to/address",
            "address_invalid",
        )
        for sign in (*LINE_BREAKS, *BLANKS, " ")
        for place, text in {
            "before it": "@@canary@example.com",
            "in its local part": "can@@ary@example.com",
            "in its domain": "canary@exam@@ple.com",
            "behind it": "canary@example.com@@",
        }.items()
    ),
    *(
        change(
            f"a display name with {point(sign)}",
            {"to": {**GOOD["to"], "name": f"Canary{sign}Bcc: canary@example.org"}},
            "/to/name",
            "name_invalid",
        )
        for sign in (*LINE_BREAKS, *_BIDI, "\t", "\x7f", "\x1b", "\r\n")
    ),
    *(
        change(
            f"a quoted name with {point(sign)}",
            {"cc": [f'"Canary{sign}" <canary@example.com>']},
            "/cc/0",
            "name_invalid",
        )
        for sign in ("\x1c", "\x85", "\u2028", "\u202e")
    ),
    change(
        "a name at its end with a line break", {"to": {**GOOD["to"], "name": "canary\n"}}, "/to/name", "name_invalid"
    ),
    change("a name of 201 letters", {"to": {**GOOD["to"], "name": f"{CANARY:c<201}"}}, "/to/name", "too_long"),
    change("an address of 321 letters", {"to": {"address": f"{CANARY:c<309}@example.com"}}, "/to/address", "too_long"),
    change("a text of 726 letters", {"to": f"{CANARY:c<700} <canary@example.com>"}, "/to", "too_long"),
    change("an address of 250,000 letters", {"to": f"{CANARY:c<250000}@example.com"}, "/to", "too_long"),
    change(
        "an address within an address",
        {"to": {"address": "Ada <canary@example.com>"}},
        "/to/address",
        "address_invalid",
    ),
    change("a number for an address", {"bcc": [{"address": 17}]}, "/bcc/0/address", "wrong_type"),
    change("an object for an address", {"bcc": [{"address": {CANARY: 1}}]}, "/bcc/0/address", "wrong_type"),
    change("a number for a name", {"cc": [{**GOOD["to"], "name": 17}]}, "/cc/0/name", "wrong_type"),
    change("a list for a name", {"cc": [{**GOOD["to"], "name": [CANARY]}]}, "/cc/0/name", "wrong_type"),
    change("no address in an object", {"reply_to": [{"name": CANARY}]}, "/reply_to/0/address", "required"),
    change("null in a list of addresses", {"cc": [*GOOD["cc"], None]}, "/cc/1", "required"),
    change("a list in a list of addresses", {"cc": [GOOD["cc"]]}, "/cc/0", "wrong_type"),
    *(
        change(
            f"a bad address second in {role}",
            {role: [f"{CANARY}@example.com", CANARY]},
            f"/{role}/1",
            "address_invalid",
        )
        for role in ("cc", "bcc", "reply_to")
    ),
)
