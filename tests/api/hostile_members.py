"""Hostile members of a command: headers, tags, references, shapes and contexts; data only."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.api.hostile_inputs import BLANKS, CANARY, GOOD, LINE_BREAKS, Hostile, change, context_of, many, point

_COUNTS: Final = (
    change("51 recipients in all", {"cc": many(25), "bcc": many(25)}, "", "too_many"),
    change("51 recipients by cc", {"cc": many(50), "bcc": []}, "/cc", "too_many"),
    change("51 recipients by bcc", {"cc": [], "bcc": many(50)}, "/bcc", "too_many"),
    change("5,000 recipients", {"cc": many(5_000)}, "/cc", "too_many"),
    change("11 addresses to reply to", {"reply_to": many(11)}, "/reply_to", "too_many"),
    change("16 headers", {"headers": {f"X-Canary-{number}": "1" for number in range(16)}}, "/headers", "too_many"),
    change("21 tags", {"tags": {f"canary{number}": "1" for number in range(21)}}, "/tags", "too_many"),
)

_HEADERS: Final = (
    *(
        change(
            f"a header's value with {point(sign)}",
            {"headers": {"X-A": f"1{sign}Bcc: canary"}},
            "/headers",
            "invalid_format",
        )
        for sign in (*LINE_BREAKS, *BLANKS, "\r\n", "é", "\U0001f4a9")
    ),
    *(
        change(f"a header's name with {point(sign)}", {"headers": {f"X-A{sign}Canary": "1"}}, "/headers", "not_allowed")
        for sign in (*LINE_BREAKS, *BLANKS, "\r\n", " ", ":", ": 1\r\nBcc: canary@example.org\r\nX-B", "é")
    ),
    *(
        change(f"the header {name}", {"headers": {name: CANARY}}, "/headers", "not_allowed")
        for name in (
            *("From", "fROM", "To", "TO", "Cc", "bcc", "BCC", "Reply-To", "reply-to", "Sender", "SUBJECT", "Date"),
            *("Message-ID", "message-id", "Return-Path", "Received", "DKIM-Signature", "ARC-Seal", "MIME-Version"),
            *(
                "Content-Type",
                "content-transfer-encoding",
                "Resent-Bcc",
                "Errors-To",
                "Return-Receipt-To",
                "Bounces-To",
            ),
            *("Disposition-Notification-To", "Apparently-To", "Priority", "Canary", "X", "X-", "", " ", "X-A:", " X-A"),
            *(
                "List-Unsubscribe ",
                "List-Unsubscribe-Posts",
                "List-Unsub\u017fcribe",
                "Reference\u017f",
                f"X-{CANARY:c<125}",
            ),
        )
    ),
    *(
        change(f"the header {name}", {"headers": {name: CANARY}}, "/headers", "reserved")
        for name in ("X-SES-CONFIGURATION-SET", "x-ses-message-tags", "X-Ses-Source-Arn", "x-SES-", "X-SES-A:\r\nBcc")
    ),
    *(
        change(f"a header's value {name}", {"headers": {"X-Canary": value}}, "/headers", code)
        for name, value, code in (
            ("of nothing", "", "invalid_format"),
            ("of 996 letters", f"{CANARY:c<996}", "invalid_format"),
            ("of 989 letters, 997 with its name", f"{CANARY:c<989}", "invalid_format"),
            ("of 200,000 letters", f"{CANARY:c<200000}", "invalid_format"),
            *((f"{value!r}", value, "wrong_type") for value in (None, 17, 1.5, True, [CANARY], {CANARY: CANARY})),
        )
    ),
    *(
        change(f"the headers {one} and {other}", {"headers": {one: "1", other: "1"}}, "/headers", "duplicate")
        for one, other in (("X-Canary", "x-canary"), ("X-CANARY", "X-Canary"), ("References", "REFERENCES"))
    ),
)

_TAGS: Final = (
    *(
        change(f"the tag {name}", {"tags": {name: CANARY}}, "/tags", "reserved")
        for name in ("fencepost_message", "FENCEPOST_ATTEMPT", "Fencepost_Request", "fencepost_", "fencepost_canary é")
    ),
    *(
        change(f"a tag's {part} with {point(sign)}", {"tags": tag}, "/tags", "invalid_format")
        for sign in (*LINE_BREAKS, " ", ":", ".", "@", "=", "ä", "\u0661", "\U0001f4a9")
        for part, tag in (("name", {f"canary{sign}": "1"}), ("value", {CANARY: f"canary{sign}"}))
    ),
    change("a tag without a name", {"tags": {"": CANARY}}, "/tags", "invalid_format"),
    change("a tag without a value", {"tags": {CANARY: ""}}, "/tags", "invalid_format"),
    change("a tag's name of 257", {"tags": {f"{CANARY:c<257}": "1"}}, "/tags", "invalid_format"),
    change("a tag's value of 257", {"tags": {CANARY: f"{CANARY:c<257}"}}, "/tags", "invalid_format"),
    *(
        change(f"the value {value!r} of a tag", {"tags": {CANARY: value}}, "/tags", "wrong_type")
        for value in (None, 17, True, [CANARY], {CANARY: CANARY})
    ),
)

#: What is neither a key of a sender or template, nor a purpose.
_NO_NAMES: Final = (
    *("", " ", "Canary", "CANARY", "canary ", " canary", "canary\n", "canary\x85", "canary.a", "canary/../welcome"),
    *(
        "canary@example.com",
        "canäry",
        "\uff43anary",
        "canary%00",
        "'canary' OR 1=1",
        f"{CANARY:c<65}",
        f"{CANARY:c<99999}",
    ),
)
_TEMPLATE: Final = {"key": "welcome", "version": 1}

_REFERENCES: Final = (
    *(
        change(
            f"a version that is {version!r}", {"template": {**_TEMPLATE, "version": version}}, "/template/version", code
        )
        for version, code in (
            *((number, "out_of_range") for number in (0, -0.0, -1, 2**31, 2**53 - 1, 1e300, -1e300)),
            *((value, "wrong_type") for value in (1.5, 1e-9, True, False, "1", "", CANARY, [1], {"1": 1})),
            (None, "required"),
        )
    ),
    *(
        change(f"the {part} {name[:20]!r} of {len(name)}", members, at, "invalid_format")
        for name in _NO_NAMES
        for part, members, at in (
            ("template", {"template": {**_TEMPLATE, "key": name}}, "/template/key"),
            ("sender", {"sender": name}, "/sender"),
            ("purpose", {"purpose": name}, "/purpose"),
        )
    ),
    change("a sender with a leading hyphen", {"sender": "-canary"}, "/sender", "invalid_format"),
    change("a purpose with a hyphen", {"purpose": "canary-purpose"}, "/purpose", "invalid_format"),
    change("a purpose of 33 letters", {"purpose": f"{CANARY:c<33}"}, "/purpose", "invalid_format"),
)

_VALUES: Final = {
    "zero": 0,
    "a number": 17,
    "false": False,
    "true": True,
    "an empty string": "",
    "a string": CANARY,
    "an empty list": [],
    "a list": [CANARY],
    "an empty object": {},
    "an object": {CANARY: CANARY},
}
#: Which of these each member takes, or refuses for something else than their type.
_TYPES: Final = {
    "to": ("an empty string", "a string", "an empty object", "an object"),
    **dict.fromkeys(("cc", "bcc", "reply_to"), ("an empty list", "a list")),
    **dict.fromkeys(("sender", "purpose"), ("an empty string", "a string")),
    **dict.fromkeys(("template", "context", "headers", "tags"), ("an empty object", "an object")),
}

_SHAPES: Final = (
    *(
        change(f"{name} for {member}", {member: value}, f"/{member}", "wrong_type")
        for member, right in _TYPES.items()
        for name, value in _VALUES.items()
        if name not in right
    ),
    *(
        change(
            f"{name} for the template's key", {"template": {"key": value, "version": 1}}, "/template/key", "wrong_type"
        )
        for name, value in _VALUES.items()
        if not name.endswith("string")
    ),
    *(
        change(f"null for {member}", {member: None}, f"/{member}", "required")
        for member in ("to", "sender", "template")
    ),
    change("a template without a key", {"template": {"version": 1}}, "/template/key", "required"),
    change("a template without a version", {"template": {"key": "welcome"}}, "/template/version", "required"),
    *(
        change(f"an unknown member {name!r}", {name: CANARY}, "", "unknown_field")
        for name in (
            *("", "To", "TO", "to ", CANARY, "from", "subject", "html", "text", "attachments", "options", "tenant"),
            *("idempotency_key", "__proto__", "constructor", "replyTo", "reply-to", "send_at"),
        )
    ),
    change("5,000 unknown members", {f"{CANARY}{number}": 1 for number in range(5_000)}, "", "unknown_field"),
    change("an unknown member in the template", {"template": {**_TEMPLATE, CANARY: 1}}, "/template", "unknown_field"),
    change("an unknown member in to", {"to": {**GOOD["to"], CANARY: 1}}, "/to", "unknown_field"),
    change("an unknown member in cc", {"cc": [*GOOD["cc"], {**GOOD["to"], "Name": 1}]}, "/cc/1", "unknown_field"),
    Hostile(
        name="nothing of what has to be there",
        body=b"{}",
        faults=frozenset((at, "required") for at in ("/to", "/sender", "/template")),
    ),
    Hostile(
        name="many faults at once",
        body=json.dumps(
            {"to": CANARY, "cc": [17], "sender": "Canary", "tags": {"fencepost_": "1", CANARY: 1}, CANARY: CANARY}
        ).encode(),
        faults=frozenset(
            {
                *(
                    ("", "unknown_field"),
                    ("/to", "address_invalid"),
                    ("/cc/0", "wrong_type"),
                    ("/template", "required"),
                ),
                *(("/sender", "invalid_format"), ("/tags", "reserved"), ("/tags", "wrong_type")),
            }
        ),
    ),
)


def _context(template: str, context: Mapping[str, Any], at: str, code: str) -> Hostile:
    """Give a context that its template can't take."""
    name = f"the template {template} with {json.dumps(context):.50}, which is {code}"
    return change(name, {"template": {"key": template, "version": 1}, "context": context}, at, code)


_CONTEXTS: Final = (
    *(
        _context("strict", {"name": "ada", **context}, at, code)
        for context, at, code in (
            ({"name": None}, "/context/name", "wrong_type"),
            ({"name": [CANARY]}, "/context/name", "wrong_type"),
            ({"name": "a"}, "/context/name", "too_short"),
            ({"name": f"{CANARY:c<10}"}, "/context/name", "too_long"),
            ({"name": "Canary"}, "/context/name", "invalid_format"),
            ({"plan": CANARY}, "/context/plan", "not_allowed"),
            ({"terms": False}, "/context/terms", "not_allowed"),
            ({"terms": 1}, "/context/terms", "not_allowed"),
            ({"items": []}, "/context/items", "too_few"),
            ({"items": [CANARY, 1, 2]}, "/context/items", "too_many"),
            ({"items": [CANARY, CANARY]}, "/context/items", "duplicate"),
            ({"sizes": {}}, "/context/sizes", "too_few"),
            ({"sizes": {CANARY: 1, "b": 2, "c": 3}}, "/context/sizes", "too_many"),
            ({"sizes": {CANARY: CANARY}}, "/context/sizes", "wrong_type"),
            ({"percent": -0.5}, "/context/percent", "out_of_range"),
            ({"percent": 100}, "/context/percent", "out_of_range"),
            ({"odd": 2}, "/context/odd", "invalid"),
            ({CANARY: CANARY}, "/context", "unknown_field"),
        )
    ),
    _context("strict", {}, "/context/name", "required"),
    change("no context where one is needed", {"context": None}, "/context", "template_undefined"),
    _context("undefined", {"name": CANARY}, "/context", "template_undefined"),
    _context("adding", {"name": CANARY}, "/context", "template_failed"),
    _context("method", {"name": CANARY}, "/context", "template_forbidden"),
    _context("product", {"items": [CANARY] * 1_000}, "/context", "template_too_costly"),
    _context("swelling", {"name": CANARY * 1_000, "items": [0] * 1_000}, "/context", "rendered_too_large"),
    *(
        change(
            f"a subject with {point(sign)}",
            {"context": {"name": f"a{sign}Bcc: canary"}},
            "/context",
            "subject_not_one_line",
        )
        for sign in (*LINE_BREAKS, "\t", "\x7f", "\r\n")
    ),
    change("a subject of 999 letters", {"context": {"name": f"{CANARY:c<993}"}}, "/context", "rendered_too_large"),
    change("a context of 64 KiB and a byte", {"context": context_of(2**16 + 1)}, "/context", "context_too_large"),
    change("a context of 200 KiB", {"context": context_of(200 * 2**10)}, "/context", "context_too_large"),
)

ROWS: Final = (*_COUNTS, *_HEADERS, *_TAGS, *_REFERENCES, *_SHAPES, *_CONTEXTS)
