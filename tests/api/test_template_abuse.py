"""Templates that would take all the time or memory there is: refused at once, and nobody else notices."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from api.faults import FaultCode, InvalidRequest
from api.rendering import TemplateParts, check_template, render
from api.strict_json import JsonObject
from tests.api.conftest import Api
from tests.api.test_messages import problem

#: Lists that hold one list ten times over, twelve levels deep.
_LAUGHS = "{% set a0=[1,1,1,1,1,1,1,1,1,1] %}" + "".join(
    f"{{% set a{level + 1}=[{','.join([f'a{level}'] * 10)}] %}}" for level in range(12)
)
_TEMPLATES = {
    "endless loops": "{% for i in range(100000) %}{% for j in range(100000) %}a{% endfor %}{% endfor %}",
    "a long string": "{{ 'a' * 1000000000 }}",
    "doubling": "{% set x='aaaaaaaaaa' %}" + "{% set x = x ~ x %}" * 30 + "{{ x|length }}",
    "replacing": "{% set x='aaaaaaaaaa' %}" + "{% set x = x|replace('a', 'aaaaaaaaaa'*9) %}" * 9 + "{{ x|length }}",
    "padding": "{{ '%999999999s'|format('x') }}",
    "indenting": "{{ 'x\ny'|indent(999999999) }}",
    "indented JSON": "{{ {'a': 1}|tojson(indent=999999999) }}",
    "batches": "{{ [1, 2]|batch(999999999, 'x')|list|length }}",
    "slices": "{{ [1, 2]|slice(999999999, 'x')|list|length }}",
    "a long list": "{{ [1] * 100000000 }}",
    "comparing long lists": "{{ [1] * 100000000 == [1] * 100000000 }}",
    "searching a long list": "{{ 2 in [1] * 100000000 }}",
    "lists of lists, written": _LAUGHS + "{{ a12 }}",
    "lists of lists, printed": _LAUGHS + "{{ a12|pprint }}",
    "lists of lists, hashed": _LAUGHS + "{{ {a12: 1} }}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "a loop that calls itself": "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "huge powers": "{{ 9 ** 999999999 }}",
    "long chains of members": "{{ a" + ".b" * 60_000 + " }}",
    "long chains of filters": "{{ 1" + "|abs" * 50_000 + " }}",
    "long sums": "{{ 1" + "+1" * 100_000 + " }}",
    "many negations": "{{ " + "not " * 50_000 + "1 }}",
    "many branches": "{% if 0 %}" + "{% elif 0 %}" * 15_000 + "{% endif %}",
    "deep brackets": "{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}",
    "deep blocks": "{% if 1 %}" * 10_000 + "{% endif %}" * 10_000,
    "deep lists": "{{ " + "[" * 50_000 + "]" * 50_000 + " }}",
    "many calls": "{% macro m() %}x{% endmacro %}{% for i in range(9999) %}{% call m() %}{% endcall %}{% endfor %}",
    "a call that calls itself": "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
    "a growing list": "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "a loop within a filter": "{{ range(99999)|map('string')|map('upper')|sort|join|length }}" * 99,
}

#: With no text part: they make little work of the template, and much of the text that is derived.
_PAGES = {
    "deep elements": "<div>" * 20_000 + "x",
    "deep tables": "<table><tr><td>" * 5_000 + "x",
    "elements that are never closed": "<b><p>" * 40_000 + "x",
    "links that are never closed": "<a href=https://example.com/>" * 8_000 + "x",
    "many elements": "<i>a</i>" * 30_000,
    "many line breaks": "<br>" * 60_000 + "x",
    "many cells": "<table><tr>" + "<td>a" * 50_000,
    "many rows": "<table>" + "<tr><td>a" * 28_000,
    "a wide and tall table": "<table><tr><td>" + "x" * 60_000 + "<tr><td>y" * 9_000,
    "a wide and tall row": "<table><tr><td>" + "x" * 20_000 + "<td>" + "a<br>" * 20_000,
    "many attributes": "<p " + " ".join(f"a{number}=1" for number in range(25_000)) + ">x",
    "preformatted lines far inside": "<ul><li>" * 250 + "<pre>" + "a\n" * 100_000,
}


def _multiplied(keyword: str, levels: int, end: JsonObject) -> JsonObject:
    """Return a schema that asks for the same eight times a level."""
    parts: dict[str, Any] = {f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 8} for level in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": end}}


#: What no version may have.
_SCHEMAS: dict[str, JsonObject] = {
    "all of all": _multiplied("allOf", 12, {}),
    "any of any": _multiplied("anyOf", 12, {"type": "string"}),
    "nothing evaluated": {**_multiplied("allOf", 8, {"properties": {"a": True}}), "unevaluatedProperties": False},
    "a long chain of references": {
        "$ref": "#/$defs/d0",
        "$defs": {**{f"d{level}": {"$ref": f"#/$defs/d{level + 1}"} for level in range(2000)}, "d2000": {}},
    },
    "references in a circle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "itself": {"$ref": "#"},
    "itself by another way": {"$dynamicRef": "#x", "$dynamicAnchor": "x"},
    "many properties": {"properties": {f"p{number}": {"type": "string"} for number in range(6000)}},
    "a huge pattern": {"properties": {"a": {"pattern": "(a|b)" * 50_000}}},
    "a deep pattern": {"properties": {"a": {"pattern": "(" * 5000 + "a" + ")" * 5000}}},
}

#: Schemas that a version may have, each with a context that it can't be asked about.
_CONTEXTS: dict[str, tuple[JsonObject, JsonObject]] = {
    "backtracking": ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 60 + "!"}),
    "backtracking in names": ({"patternProperties": {"^(a+)+$": {}}}, {"a" * 60 + "!": 1}),
    "all pairs": ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"b": number} for number in range(5000)]}),
    "a long list of values": (
        {"properties": {"a": {"items": {"enum": list(range(10_000))}}}},
        {"a": list(range(9000, 15_000))},
    ),
    "a reference to where it stands": ({"properties": {"a": {"$ref": "#/properties/a"}}}, {"a": 1}),
    "large": ({}, {"a": [{"b": 1}] * 30_000}),
    "wide": (
        {"additionalProperties": {"pattern": "^(a|aa)+$"}},
        {f"k{number}": "a" * 40 + "!" for number in range(999)},
    ),
}


def _render(
    text: str | None, *, html: str | None = None, schema: JsonObject | None = None, context: JsonObject | None = None
) -> str:
    version = TemplateParts(subject="Hello", text=text, html=html, context_schema=schema or {})
    return render(version, context or {}).text


def _keeper() -> psutil.Process:
    (keeper,) = (child for child in psutil.Process().children() if "api.template_engine:answer" in child.cmdline())
    return keeper


class _Watch:
    """Watches what a worker takes, until it has ended or is let go."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._first = self._last = self._taken()
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self) -> tuple[float, int]:
        """Return the seconds of CPU time, and the bytes that it came to hold besides what it held before."""
        self._over.set()
        self._thread.join()
        return (self._last[0] - self._first[0]) / 10**9, self._peak - self._first[1]

    def _watch(self) -> None:
        # A worker that is no more can't be read.
        with suppress(OSError, StopIteration):
            while not self._over.wait(0.0005):
                self._last = self._taken()
                self._peak = max(self._peak, self._last[1])

    def _taken(self) -> tuple[int, int]:
        """Return the nanoseconds that it had a processor (schedstat), and the bytes that it has in memory."""
        nanoseconds = int((self._folder / "schedstat").read_text().split()[0])
        lines = (self._folder / "status").read_text().splitlines()
        return nanoseconds, next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


@contextmanager
def _within_bounds() -> Iterator[None]:
    """See that a call takes no more of a worker than it may, and that another one is answered afterwards."""
    assert _render("warm") == "warm"
    watch = _Watch(_keeper().children()[0].pid)
    try:
        yield
    finally:
        seconds, grown = watch.end()
    # Not by the clock on the wall, as a busy machine may take any time.
    assert seconds < 0.2
    assert grown < 50 * 10**6
    assert _render("{{ name }}", context={"name": "Ada"}) == "Ada"


@pytest.mark.parametrize("source", _TEMPLATES.values(), ids=_TEMPLATES.keys())
def test_abuse_is_refused_at_once_and_hurts_nobody_else(source: str) -> None:
    with _within_bounds(), pytest.raises(InvalidRequest) as refused:
        _render(source)

    assert {fault.pointer for fault in refused.value.faults} == {"/context"}


@pytest.mark.parametrize("source", _TEMPLATES.values(), ids=_TEMPLATES.keys())
def test_a_template_that_takes_too_much_is_no_version_or_costs_nothing(source: str) -> None:
    with _within_bounds():
        faults = check_template("Hello", source, None, {})

    # What can't be done at all, such as a huge power, might be meant for another context.
    assert [fault.pointer for fault in faults] in ([], ["/text"])


def test_a_version_that_takes_too_much_in_every_part_takes_no_more() -> None:
    source = _TEMPLATES["many negations"]

    with _within_bounds():
        faults = check_template(source, source, source, _SCHEMAS["a long chain of references"])

    assert faults[0].pointer == "/context_schema"


def test_parts_that_take_less_than_is_too_much_may_take_too_much_together() -> None:
    """How much this machine does in the time is found out first."""
    work = "{{ 2 in [1] * 10000 }}"
    times = 40
    while not check_template("Hello", work * times, None, {}):
        times += times // 4
    source = work * (times * 2 // 3)

    with _within_bounds():
        faults = check_template(source, source, source, {})

    assert {fault.code for fault in faults} == {FaultCode.TEMPLATE_TOO_COSTLY}
    assert len(faults) == 1


@pytest.mark.parametrize("html", _PAGES.values(), ids=_PAGES.keys())
def test_text_that_takes_too_much_to_derive_is_refused_when_published_and_when_sent(html: str) -> None:
    with _within_bounds():
        faults = check_template("Hello", None, html, {})
    with _within_bounds(), pytest.raises(InvalidRequest) as refused:
        _render(None, html=html)

    assert [fault.pointer for fault in faults] == ["/html"]
    assert [fault.pointer for fault in refused.value.faults] == ["/context"]
    with _within_bounds():
        assert check_template("Hello", "Words", html, {}) == ()


@pytest.mark.parametrize("schema", _SCHEMAS.values(), ids=_SCHEMAS.keys())
def test_a_schema_that_takes_too_much_is_no_version(schema: JsonObject) -> None:
    with _within_bounds():
        faults = check_template("Hello", "Hello", None, schema)

    assert [fault.pointer for fault in faults] == ["/context_schema"]


@pytest.mark.parametrize(("schema", "context"), _CONTEXTS.values(), ids=_CONTEXTS.keys())
def test_a_context_that_takes_too_much_to_check_is_refused(schema: JsonObject, context: JsonObject) -> None:
    assert check_template("Hello", "Hello", None, schema) == ()

    with _within_bounds(), pytest.raises(InvalidRequest) as refused:
        _render("Hello", schema=schema, context=context)

    assert all(fault.pointer.startswith("/context") for fault in refused.value.faults)


async def test_abuse_is_refused_at_once_by_every_call_that_renders_and_the_others_go_on(api: Api) -> None:
    bomb = {"subject": "Hello", "text": "{% if on %}" + _TEMPLATES["a long list"] + "{% endif %}ok"}
    assert (await api.ask("POST", "/v1/templates/bomb/versions", bomb)).status_code == 201
    welcome = "/v1/templates/welcome/versions/1/preview"

    published, previewed, sent, *others = await asyncio.gather(
        api.ask("POST", "/v1/templates/bombs/versions", {**bomb, "text": _TEMPLATES["a long list"]}),
        api.ask("POST", "/v1/templates/bomb/versions/1/preview", {"context": {"on": True}}),
        api.send(template={"key": "bomb", "version": 1}, context={"on": True}),
        *(api.ask("POST", welcome, {"context": {"name": "Ada"}}) for _ in range(3)),
    )

    for answer, pointer in ((published, "/text"), (previewed, "/context"), (sent, "/context")):
        assert problem(answer) == (422, "invalid_request")
        assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [
            (pointer, "template_too_costly")
        ]
    assert [answer.json()["subject"] for answer in others] == ["Hello Ada"] * 3
    assert (await api.ask("GET", "/v1/templates/bombs/versions/1")).status_code == 404
    preview = await api.ask("POST", "/v1/templates/bomb/versions/1/preview", {"context": {"on": False}})
    assert preview.json()["text"] == "ok"
