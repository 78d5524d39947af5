"""Hostile requests as a whole: their JSON, their framing, their content type and their idempotency key; data only."""

import gzip
import json
from collections.abc import Iterator
from typing import Final

from tests.api.hostile_inputs import CANARY, GOOD, Hostile, point

_MAX_BODY: Final = 256 * 1024
_TEXT: Final = json.dumps(GOOD)
_CHUNKED: Final = b"Transfer-Encoding: chunked"


def _document(code: str, **bodies: str | bytes) -> Iterator[Hostile]:
    """Give rows whose body is at fault as a whole; underscores in a name are spaces."""
    for name, body in bodies.items():
        raw = body.encode() if isinstance(body, str) else body
        yield Hostile(name=f"{code}: {name.replace('_', ' ')}", body=raw, faults=frozenset({("", code)}))


def _key(name: str, code: str | None, *keys: bytes) -> Hostile:
    """Give a good command with bad idempotency keys."""
    return Hostile(name=f"a key that is {name}", body=_TEXT.encode(), status=400, code=code, keys=keys)


def _framed(name: str, framing: bytes, body: bytes, status: int | None, code: str | None) -> Hostile:
    """Give a body that is framed in another way than by its length."""
    return Hostile(name=name, body=body, status=status, code=code, framing=framing, leaves=status is None)


def _chunks(body: bytes, size: int = 16_384) -> bytes:
    parts = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


def _with(value: str, place: str = "context") -> str:
    """Write the good command with a raw JSON text as a value inside one of its objects."""
    return json.dumps({**GOOD, place: {"name": "@@"}}).replace('"@@"', value)


_DOCUMENTS: Final = (
    *_document(
        "json_encoding",
        byte_order_mark=b"\xef\xbb\xbf" + _TEXT.encode(),
        UTF_16_with_its_mark=_TEXT.encode("utf-16"),
        UTF_32_with_its_mark=_TEXT.encode("utf-32"),
        gzip=gzip.compress(_TEXT.encode()),
        Latin_1=_with('"canaryé"').encode("latin-1"),
        stray_continuation_byte=_with('"canary@"').encode().replace(b"y@", b"y\x80"),
        cut_sequence=_with('"canary@"').encode().replace(b"y@", b"y\xe2\x82"),
        overlong_NUL=_with('"canary@"').encode().replace(b"y@", b"y\xc0\x80"),
        overlong_quote=_with('"canary@"').encode().replace(b"y@", b"y\xe0\x80\xa2"),
        surrogate_in_UTF_8=_with('"canary@"').encode().replace(b"y@", b"y\xed\xa0\x80"),
        beyond_the_last_code_point=_with('"canary@"').encode().replace(b"y@", b"y\xf4\x90\x80\x80"),
        byte_that_is_never_used=_with('"canary@"').encode().replace(b"y@", b"y\xff"),
        in_a_member_name=_TEXT.encode().replace(b'"headers"', b'"headers\xff"'),
    ),
    *_document(
        "json_malformed",
        UTF_16_without_a_mark=_TEXT.encode("utf-16-le"),
        nothing="",
        white_space_alone=" \r\n\t",
        word=CANARY,
        form=f"to={CANARY}%40example.com&sender=main",
        XML=f"<to>{CANARY}</to>",
        comment_of_a_line=f"// {CANARY}\n{_TEXT}",
        comment_inside=_TEXT.replace(",", f", /* {CANARY} */", 1),
        comment_of_a_shell=f"{_TEXT}\n# {CANARY}",
        trailing_garbage=f"{_TEXT}{CANARY}",
        trailing_bracket=f"{_TEXT}}}",
        trailing_NUL=f"{_TEXT}\0",
        two_documents=_TEXT + _TEXT,
        a_document_a_line=f"{_TEXT}\n{_TEXT}\n",
        script_prefix=f")]}}'\n{_TEXT}",
        callback=f"{CANARY}({_TEXT})",
        half_of_it=_TEXT[: len(_TEXT) // 2],
        trailing_comma=f"{_TEXT[:-1]},}}",
        trailing_comma_in_a_list=_with("[1,]"),
        single_quotes=_TEXT.replace('"', "'"),
        bare_names=_TEXT.replace('"to"', "to"),
        no_colon=_TEXT.replace('"to":', '"to"'),
        Python=_with("True"),
        undefined=_with("undefined"),
        no_break_space=_TEXT.replace(" ", "\xa0", 1),
        line_separator=_TEXT.replace(" ", "\u2028", 1),
        byte_order_mark_within=f" \ufeff{_TEXT}",
        line_break_in_a_string=_with(f'"{CANARY}\n"'),
        tab_in_a_string=_with(f'"{CANARY}\t"'),
        NUL_in_a_string=_with(f'"{CANARY}\0"'),
        NUL_in_a_name=_TEXT.replace('"to"', '"to\0"'),
        hexadecimal_escape=_with(r'"\x41"'),
        short_escape=_with(r'"\u12"'),
        cut_string=_TEXT.removesuffix('"}}'),
        leading_zero=_with("017"),
        plus_sign=_with("+1"),
        no_digit_before_the_point=_with(".5"),
        no_digit_after_the_point=_with("5."),
        no_digit_in_the_exponent=_with("5e"),
        hexadecimal_number=_with("0x11"),
        digits_in_groups=_with("1_000"),
        wide_digit=_with("\uff11"),
        two_signs=_with("--1"),
    ),
    *_document(
        "json_duplicate_key",
        at_the_top=_TEXT.replace('"cc"', '"to"'),
        at_the_top_with_the_same_value=f'{{"sender":"main",{_TEXT[1:]}',
        by_an_escape=f'{{"t\\u006f":"{CANARY}@example.com",{_TEXT[1:]}',
        in_the_template=_TEXT.replace('"key"', '"version"'),
        in_an_address=_TEXT.replace('"name"', '"address"', 1),
        in_the_context=_with(f'1,"{CANARY}":1,"{CANARY}":2'),
        deep_in_the_context=_with(f'[[{{"{CANARY}":1,"{CANARY}":1}}]]'),
        in_the_headers=_with(f'"1","X-{CANARY}":"1","X-{CANARY}":"2"', "headers"),
        in_the_tags=_with(f'"1","{CANARY}":"1","{CANARY}":"2"', "tags"),
        an_empty_name=_with('1,"":1,"":2'),
    ),
    *_document(
        "json_number",
        NaN=_with("NaN"),
        infinity=_with("Infinity"),
        minus_infinity=_with("-Infinity"),
        overflow=_with("1e999"),
        negative_overflow=_with("-1e999"),
        overflow_without_an_exponent=_with("9" * 310 + ".0"),
        integer_beyond_2_53=_with(str(2**53)),
        integer_beyond_minus_2_53=_with(str(-(2**53))),
        integer_of_a_hundred_thousand_digits=_with("9" * 100_000),
        version_that_overflows=_TEXT.replace('"version": 1', '"version": 1e999'),
    ),
    *_document(
        "json_text",
        NUL_in_a_value=_with(rf'"{CANARY}\u0000"'),
        NUL_in_a_name=_with(rf'1,"{CANARY}\u0000":1'),
        NUL_in_an_address=_TEXT.replace("@example.com", r"@example.com\u0000"),
        NUL_in_a_display_name=_TEXT.replace('"name": "', r'"name": "\u0000', 1),
        NUL_in_a_header=_with(rf'"{CANARY}\u0000"', "headers"),
        NUL_in_a_tag_name=_with(rf'"1","{CANARY}\u0000":"1"', "tags"),
        high_surrogate_alone=_with(rf'"{CANARY}\ud83d"'),
        low_surrogate_alone=_with(rf'"{CANARY}\ude00"'),
        surrogates_in_reverse=_with(r'"\ude00\ud83d"'),
        surrogate_in_a_name=_with(rf'1,"{CANARY}\ud800":1'),
        surrogate_in_an_unknown_member=_TEXT.replace('"tags"', r'"tags\udfff"'),
    ),
    *_document(
        "json_depth",
        lists=_with("[" * 31 + "]" * 31),
        objects=_with('{"a":' * 31 + "1" + "}" * 31),
        both=_with('[{"a":' * 16 + "1" + "}]" * 16),
        in_an_unknown_member=f'{{"{CANARY}":{"[" * 32}{"]" * 32},{_TEXT[1:]}',
        a_hundred_thousand_brackets="[" * 100_000,
        objects_without_end='{"a":' * 40_000,
    ),
    *_document(
        "wrong_type", null="null", true="true", number="17", string=f'"{CANARY}"', array="[]", list_of_it=f"[{_TEXT}]"
    ),
)

_JUST_TOO_LARGE: Final = _with(f'"{"x" * _MAX_BODY}"').encode()[: _MAX_BODY + 1]
_TOO_LARGE: Final = 413, "request_too_large"
_FRAMES: Final = (
    _framed("a byte too many, announced", b"Content-Length: %d" % (_MAX_BODY + 1), _JUST_TOO_LARGE, *_TOO_LARGE),
    _framed("a byte too many, in chunks", _CHUNKED, _chunks(_JUST_TOO_LARGE) + b"0\r\n\r\n", *_TOO_LARGE),
    _framed("chunks without an end", _CHUNKED, _chunks(_JUST_TOO_LARGE), *_TOO_LARGE),
    _framed("a byte too many, announced only", b"Content-Length: %d" % (_MAX_BODY + 1), b"", *_TOO_LARGE),
    _framed("eight exabytes, announced only", b"Content-Length: %d" % (2**63 - 1), b"", *_TOO_LARGE),
    _framed("a large body, asked about", b"Content-Length: 9999999\r\nExpect: 100-continue", b"", *_TOO_LARGE),
    _framed("less than announced", b"Content-Length: %d" % (len(_TEXT) + 1), _TEXT.encode(), None, None),
    _framed("a last chunk that never comes", _CHUNKED, _chunks(_TEXT.encode()), None, None),
    _framed("a chunk that is cut", _CHUNKED, _chunks(_TEXT.encode())[:50], None, None),
    Hostile(
        name="more than announced",
        body=_TEXT.encode(),
        framing=b"Content-Length: 10\r\nConnection: close",
        faults=frozenset({("", "json_malformed")}),
    ),
    _framed("two lengths that differ", b"Content-Length: 3\r\nContent-Length: 4", _TEXT.encode(), 400, None),
    *(
        _framed(f"the length {length!r:.30}", b"Content-Length: " + length, _TEXT.encode(), 400, None)
        for length in (b"", b"-1", b"+17", b"0x11", b"17a", b"1e3", b"\xb2", b"9" * 21, b"9" * 5_000)
    ),
    _framed("a chunk's size that is none", _CHUNKED, b"canary\r\n" + _TEXT.encode(), 400, None),
    _framed("a transfer coding that nobody knows", b"Transfer-Encoding: canary", _TEXT.encode(), 400, None),
)

_CONTENT_TYPES: Final = tuple(
    Hostile(
        name=f"the content type {kind}",
        body=_TEXT.encode(),
        status=415,
        code="unsupported_media_type",
        content_type=None if kind is None else kind.encode(),
    )
    for kind in (
        *(
            None,
            "",
            "json",
            "*/*",
            "canary/canary",
            "text/plain",
            "text/json",
            "application/jsonp",
            "application/json5",
        ),
        *("application/x-ndjson", "application/problem+json", "application/vnd.api+json", "application/json/canary"),
        *("application/x-www-form-urlencoded", "multipart/form-data; boundary=canary", "application/json, text/plain"),
        *("text/plain; application/json", '"application/json"', "application json", "application/json\xa0canary"),
    )
)

_KEYS: Final = (
    _key("missing", "idempotency_key_missing"),
    _key("empty", "idempotency_key_invalid", b""),
    _key("blank", "idempotency_key_invalid", b" \t "),
    _key("empty in quotes", "idempotency_key_invalid", b'""'),
    _key("blank in quotes", "idempotency_key_invalid", b'"   "'),
    _key("256 characters long", "idempotency_key_invalid", b"canary" + b"k" * 250),
    _key("256 characters long in quotes", "idempotency_key_invalid", b'"canary%b"' % (b"k" * 250)),
    _key("Latin-1", "idempotency_key_invalid", b"canary\xe9"),
    _key("UTF-8", "idempotency_key_invalid", "canaryé".encode()),
    _key("a no-break space", "idempotency_key_invalid", b"\xa0"),
    _key("with a C1 control character", "idempotency_key_invalid", b"canary\x85"),
    _key("with a tab inside", "idempotency_key_invalid", b"canary\tkey"),
    _key("given twice", "idempotency_key_invalid", b"canary", b"canary"),
    _key("given twice, differently", "idempotency_key_invalid", b"canary", b"other"),
    _key("given twice, once empty", "idempotency_key_invalid", b"canary", b""),
    *(_key(f"with {point(chr(byte))}", None, b"canary%cb" % byte) for byte in (0x00, 0x0A, 0x0D)),
)

ROWS: Final = (*_DOCUMENTS, *_FRAMES, *_CONTENT_TYPES, *_KEYS)
