"""Strict JSON: what is read, and what is refused in which words."""

import contextlib
import json
import time

import pytest
from hypothesis import given, settings, strategies as st

from api.faults import FaultCode, InvalidRequest
from api.strict_json import MAX_SAFE_INTEGER, JsonValue, parse

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8", min_codepoint=1)), inner),
    max_leaves=20,
)


def _refusal(raw: bytes) -> str:
    with pytest.raises(InvalidRequest) as refused:
        parse(raw)
    (fault,) = refused.value.faults
    assert fault.pointer == ""
    return fault.code


@given(value=_values, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 4))
@settings(deadline=None)
def test_any_value_comes_back_as_it_was_written(value: JsonValue, *, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    assert parse(text.encode()) == value


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", FaultCode.JSON_MALFORMED),
        (b" \n", FaultCode.JSON_MALFORMED),
        (b"{", FaultCode.JSON_MALFORMED),
        (b"{} {}", FaultCode.JSON_MALFORMED),
        (b"{}x", FaultCode.JSON_MALFORMED),
        (b"[1,]", FaultCode.JSON_MALFORMED),
        (b"{'a':1}", FaultCode.JSON_MALFORMED),
        (b"[01]", FaultCode.JSON_MALFORMED),
        (b"[+1]", FaultCode.JSON_MALFORMED),
        (b"[.5]", FaultCode.JSON_MALFORMED),
        (b"[0x1]", FaultCode.JSON_MALFORMED),
        (b"// a\n1", FaultCode.JSON_MALFORMED),
        (b'"a\nb"', FaultCode.JSON_MALFORMED),
        (b'"\x00"', FaultCode.JSON_MALFORMED),
        (b'"\\x41"', FaultCode.JSON_MALFORMED),
        (b'{"a":1,"a":1}', FaultCode.JSON_DUPLICATE_KEY),
        (b'[{"a":1,"\\u0061":2}]', FaultCode.JSON_DUPLICATE_KEY),
        (b"NaN", FaultCode.JSON_NUMBER),
        (b"[Infinity]", FaultCode.JSON_NUMBER),
        (b"[-Infinity]", FaultCode.JSON_NUMBER),
        (b"1e999", FaultCode.JSON_NUMBER),
        (b"-1e999", FaultCode.JSON_NUMBER),
        (b"9007199254740992", FaultCode.JSON_NUMBER),
        (b"-9007199254740992", FaultCode.JSON_NUMBER),
        (b'"\\u0000"', FaultCode.JSON_TEXT),
        (b'{"\\u0000":1}', FaultCode.JSON_TEXT),
        (b'["\\ud800"]', FaultCode.JSON_TEXT),
        (b'{"a":{"\\udfff":1}}', FaultCode.JSON_TEXT),
        (b'"\\ude00\\ud83d"', FaultCode.JSON_TEXT),
        (b"\xef\xbb\xbf{}", FaultCode.JSON_ENCODING),
        (b'"\xff"', FaultCode.JSON_ENCODING),
        (b'"\xed\xa0\x80"', FaultCode.JSON_ENCODING),
        ("[1]".encode("utf-16"), FaultCode.JSON_ENCODING),
        (b"[" * 33 + b"]" * 33, FaultCode.JSON_DEPTH),
        (b'{"a":' * 33 + b"1" + b"}" * 33, FaultCode.JSON_DEPTH),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(raw: bytes, code: FaultCode) -> None:
    assert _refusal(raw) == code


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"9007199254740991", MAX_SAFE_INTEGER),
        (b"-9007199254740991", -MAX_SAFE_INTEGER),
        (b"1E30", 1e30),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\\\ud800"', "\\ud800"),
        (b'"[[[[{{{{"', "[[[[{{{{"),
        (b'"\\"[[["', '"[[['),
    ],
)
def test_what_only_looks_dangerous_is_read(raw: bytes, value: JsonValue) -> None:
    assert parse(raw) == value


def test_thirty_two_levels_are_read() -> None:
    value = parse(b"[" * 32 + b"]" * 32)

    assert isinstance(value, list)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"a":' * 40_000,
        b"[]" * 100_000,
        b"1" * 200_000,
        b"0." + b"1" * 200_000,
        b'"' * 200_000,
        b'"' + b'\\"' * 100_000,
        b'\\"' * 100_000,
        b'"' + b"\\" * 200_000,
    ],
    ids=["arrays", "objects", "pairs", "integer", "fraction", "quotes", "escaped quotes", "escapes", "backslashes"],
)
def test_hostile_texts_take_milliseconds(raw: bytes) -> None:
    started = time.process_time()

    with contextlib.suppress(InvalidRequest):
        parse(raw)

    assert time.process_time() - started < 0.25


def test_a_refusal_holds_nothing_of_the_body() -> None:
    for raw in (b'{"canary":1,"canary":2}', b'"canary\\ud800"', b"[canary]", b'"canary\xff"'):
        with pytest.raises(InvalidRequest) as refused:
            parse(raw)
        error = refused.value
        assert "canary" not in f"{error!r} {error} {error.faults}"
        assert error.__suppress_context__ or error.__context__ is None
