"""Templates: what they make of a context, what they may not do, and what a refusal says."""

import time

import pytest

from api.command import parse_command
from api.faults import FaultCode, InvalidRequest
from api.rendering import MAX_CONTEXT_BYTES, Rendered, TemplateParts, check_template, render
from api.strict_json import JsonObject, JsonValue

_ANY: JsonObject = {"type": "object"}
_NAME: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def _version(
    subject: str = "Hello", text: str | None = "Hello", html: str | None = None, schema: JsonObject = _ANY
) -> TemplateParts:
    return TemplateParts(subject=subject, text=text, html=html, context_schema=schema)


def _text(source: str, context: JsonObject) -> str:
    return render(_version(text=source), context).text


def _faults(version: TemplateParts, context: JsonObject) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as refused:
        render(version, context)
    return [(fault.pointer, fault.code) for fault in refused.value.faults]


def _checked(
    subject: str = "Hello", text: str | None = "Hello", html: str | None = None, schema: JsonObject = _ANY
) -> list[tuple[str, str]]:
    return [(fault.pointer, fault.code) for fault in check_template(subject, text, html, schema)]


def test_all_parts_are_rendered() -> None:
    version = _version("Hello {{ name }}", "Dear {{ name }},", "<p>Dear {{ name }},</p>", _NAME)

    assert check_template(version.subject, version.text, version.html, version.context_schema) == ()
    assert render(version, {"name": "Ada"}) == Rendered(subject="Hello Ada", text="Dear Ada,", html="<p>Dear Ada,</p>")


def test_only_the_html_part_is_escaped() -> None:
    rendered = render(_version("{{ name }}", "{{ name }}", "{{ name }}", _NAME), {"name": "<b>&\"'"})

    assert rendered.subject == rendered.text == "<b>&\"'"
    assert rendered.html == "&lt;b&gt;&amp;&quot;&#x27;"


_CONTEXT: JsonObject = {
    "one": 1,
    "half": 0.5,
    "yes": True,
    "list": [1, 2, 3],
    "object": {"items": [7], "a": "b"},
    "name": "n",
    "source": "s",
    "self": "t",
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ one }} {{ half }} {{ yes }}", "1 0.5 True"),
        ("{{ list|join('-') }} {{ list|length }} {{ list[0] }} {{ list[-1] }} {{ list|first }}", "1-2-3 3 1 3 1"),
        ("{% for item in list %}{{ loop.index }}:{{ item }};{% endfor %}", "1:1;2:2;3:3;"),
        ("{% for name, value in object|items %}{{ name }}={{ value }};{% endfor %}", "a=b;items=[7];"),
        ("{{ object.items[0] }} {{ object['a'] }} {{ object.a|upper }}", "7 b B"),
        ("{{ 2 in list }} {{ 'a' in object }} {{ list == list }} {{ object is mapping }}", "True True True True"),
        ("{{ object }} {{ list }}", '{"a": "b", "items": [7]} [1, 2, 3]'),
        ("{{ object|tojson }}", '{"a": "b", "items": [7]}'),
        ("{% if missing is defined %}a{% else %}b{% endif %}{{ missing|default('c') }}", "bc"),
        ("{% set total = one + 2 %}{{ total * 3 }} {{ '%.2f'|format(half) }}", "9 0.50"),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(one) }}", "[1]"),
        ("{{ 'a b'|urlencode }} {{ 'abc'|truncate(length=3) }}{{ 'a\nb'|indent(2) }}", "a%20b abca\n  b"),
        ("{{ name }} {{ source }} {{ self }}", "n s t"),
        ("{# a comment #}{% raw %}{{ raw }}{% endraw %}", "{{ raw }}"),
    ],
)
def test_templates_are_jinja(source: str, text: str) -> None:
    assert _checked(text=source) == []
    assert _text(source, _CONTEXT) == text


@pytest.mark.parametrize(
    "source",
    [
        *(
            "{{ missing }}",
            "{{ object.missing }}",
            "{{ list[9] }}",
            "{{ object.missing.deeper }}",
            "{{ missing ~ 'a' }}",
        ),
        *("{% if missing %}{% endif %}", "{% for item in missing %}{% endfor %}", "{{ missing|upper }}"),
        *("{{ missing|e }}", "{{ missing|length }}", "{{ missing|urlencode }}", "{{ missing|tojson }}"),
        *("{{ missing|indent }}", "{{ missing|truncate }}", "{{ object.items }}", "{{ object.keys }}"),
        *(
            "{{ object.get }}",
            "{{ list.count }}",
            "{{ list.append }}",
            "{{ object._members }}",
            "{{ object.__class__ }}",
        ),
    ],
)
def test_a_value_that_is_not_there_is_refused(source: str) -> None:
    version = _version(text=source)

    assert _faults(version, {"object": {"a": 1}, "list": [1]}) == [("/context", FaultCode.TEMPLATE_UNDEFINED)]


@pytest.mark.parametrize("part", ["subject", "text", "html"])
def test_every_part_is_strict(part: str) -> None:
    version = TemplateParts(**({"subject": "a", "text": "a", "html": "a", "context_schema": _ANY} | {part: "{{ b }}"}))  # type: ignore[arg-type]  # the parts are strings

    assert _faults(version, {}) == [("/context", FaultCode.TEMPLATE_UNDEFINED)]


@pytest.mark.parametrize(
    "source",
    [
        *("{{ object.items() }}", "{{ list.append(1) }}", "{{ list.clear() }}", "{{ list() }}"),
        *("{{ 'a'.upper() }}", "{{ [1].count(1) }}", "{{ '{}'.format(1) }}"),
    ],
)
def test_nothing_of_python_can_be_called(source: str) -> None:
    with pytest.raises(InvalidRequest):
        _text(source, {"object": {"a": 1}, "list": [1]})


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("{{", FaultCode.TEMPLATE_SYNTAX),
        ("{% if %}", FaultCode.TEMPLATE_SYNTAX),
        ("{% for a in b %}", FaultCode.TEMPLATE_SYNTAX),
        ("{{ (" + "(" * 1000, FaultCode.TEMPLATE_SYNTAX),
        ("{% if a %}" * 1000, FaultCode.TEMPLATE_SYNTAX),
        ("{{ a|safe }}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{{ a | safe }}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{% if a %}{{ a|upper|safe }}{% endif %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{% filter safe %}{% endfilter %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{% autoescape false %}{{ a }}{% endautoescape %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{%-\n autoescape false %}{{ a }}{% endautoescape %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{%+autoescape false%}{{ a }}{% endautoescape %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{% include 'text' %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{% extends 'text' %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{% import 'text' as t %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{% from 'text' import t %}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{{ debug() }}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{{ a|nosuchfilter }}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{{ nosuchfunction() }}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{{ a is nosuchtest }}", FaultCode.TEMPLATE_FORBIDDEN),
        ("{{ a.upper() }}", FaultCode.TEMPLATE_FORBIDDEN),
    ],
)
def test_a_template_that_can_never_work_is_no_version(source: str, code: FaultCode) -> None:
    assert _checked(html=source) == [("/html", code)]


def test_the_word_safe_is_no_filter() -> None:
    assert _checked("Simple | safe", "{{ name }} | safe, safely {{ name }}", schema=_NAME) == []


@pytest.mark.parametrize(
    "source",
    ["{{ [name]|map('safe')|join }}", "{% set f = 'safe' %}{{ [name]|map(f)|join }}"],
)
def test_safe_is_not_there_by_any_other_way(source: str) -> None:
    with pytest.raises(InvalidRequest):
        render(_version(html=source), {"name": "<script>"})


def test_a_variable_that_the_schema_does_not_name_is_no_version() -> None:
    named: JsonObject = {"name": {}}
    schemas: list[JsonObject] = [_NAME, {"properties": named, "additionalProperties": True}, {"properties": named}]

    for schema in schemas:
        assert _checked(text="{{ name }} {{ nam }}", schema=schema) == [("/text", FaultCode.TEMPLATE_UNDEFINED)]
    own = "{% for i in range(3) %}{{ name }}{{ i }}{{ loop.index }}{% endfor %}{% set x = name %}{{ x }}"
    macro = "{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m(name, b=2) }}"
    assert _checked(text=own + macro, schema=_NAME) == []


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"$ref": "#/$defs/a", "$defs": {"a": _NAME}}])
def test_a_schema_without_properties_is_open(schema: JsonObject) -> None:
    assert _checked(text="{{ anything }}", schema=schema) == []


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("{{ nam }}", 1),
        ("{{ name }}\n{% if name %}\n{{ name ~ nam }}{% endif %}", 3),
        ("{{ name }}\n{% for i in nam %}{% endfor %}", 2),
        ("nam {# nam #} {% raw %}{{ nam }}{% endraw %}\n{{ name.nam }} {{ 'nam' }} {{ \"nam\" }}\n{{ nam }}", 3),
        ("{{ name|replace(nam=1) }}\n{{ name == nam }}", 2),
        ("{{\n\nnam }}", 3),
        ("{{ '}}' ~ nam }}", None),
    ],
)
def test_an_unknown_variable_s_line_is_told_and_not_its_name(source: str, line: int | None) -> None:
    (fault,) = check_template("Hello", source, None, _NAME)

    where = "(The text part.)" if line is None else f"(The text part, line {line}.)"
    assert fault.detail == f"The template uses a variable that the schema's properties don't name. {where}"


@pytest.mark.parametrize(
    ("subject", "text", "html", "pointer"),
    [
        ("", "a", None, "/subject"),
        (" \n", "a", None, "/subject"),
        ("a", "", "<p>a</p>", "/text"),
        ("a", "\n", None, "/text"),
        ("a", "a", "", "/html"),
        ("a", None, None, "/text"),
    ],
)
def test_a_part_is_left_out_and_not_blank_and_one_of_text_and_html_is_required(
    subject: str, text: str | None, html: str | None, pointer: str
) -> None:
    assert _checked(subject, text, html) == [(pointer, FaultCode.REQUIRED)]


def test_every_part_s_fault_is_told_at_once() -> None:
    faults = _checked("{{", "{{", "{{", {"type": "no such type"})

    assert [pointer for pointer, _ in faults] == ["/context_schema", "/subject", "/text", "/html"]


def test_what_takes_too_much_is_told_last_and_spares_what_follows() -> None:
    endless = "{% for a in range(100000) %}{% for b in [1] * 100000 %}{% endfor %}{% endfor %}{{ [1] * 100000000 }}"

    assert _checked("{{", "{{ [1] * 100000000 }}", "{{") == [
        ("/subject", FaultCode.TEMPLATE_SYNTAX),
        ("/text", FaultCode.TEMPLATE_TOO_COSTLY),
    ]
    assert _checked(text=endless) == [("/text", FaultCode.TEMPLATE_TOO_COSTLY)]


@pytest.mark.parametrize("separator", list("\n\r\v\f\x1c\x1d\x1e\x7f\x85\u2028\u2029\t"))
def test_a_subject_is_one_line(separator: str) -> None:
    assert _checked(f"a{separator}Bcc: b") == [("/subject", FaultCode.SUBJECT_NOT_ONE_LINE)]

    version = _version("{{ name }}", schema=_NAME)
    assert _faults(version, {"name": f"a{separator}b"}) == [("/context", FaultCode.SUBJECT_NOT_ONE_LINE)]


def test_the_line_end_of_a_file_is_no_line_of_the_subject() -> None:
    assert _checked("Hello {{ name }}\n") == []
    assert render(_version("Hello {{ name }}\n"), {"name": "Ada"}).subject == "Hello Ada"


def test_a_context_too_large_is_refused() -> None:
    room = MAX_CONTEXT_BYTES - len('{"name":""}')

    assert render(_version(schema=_NAME), {"name": "a" * room}).text == "Hello"
    assert _faults(_version(schema=_NAME), {"name": "a" * (room + 1)}) == [("/context", FaultCode.CONTEXT_TOO_LARGE)]


def test_a_message_too_large_is_refused() -> None:
    source = "{% for i in range(20) %}{{ name }}{% endfor %}"

    assert _faults(_version(text=source), {"name": "a" * 60_000}) == [("/context", FaultCode.RENDERED_TOO_LARGE)]
    assert _faults(_version("{{ name }}"), {"name": "a" * 999}) == [("/context", FaultCode.RENDERED_TOO_LARGE)]


def test_a_table_from_a_context_of_full_size_is_no_abuse() -> None:
    source = "{% for row in rows %}<tr><td>{{ row.sku }}</td><td>{{ row.price }}</td></tr>{% endfor %}"
    row: JsonObject = {"properties": {"sku": {"pattern": "^A-"}, "price": {"type": "number"}}, "required": ["sku"]}
    schema: JsonObject = {"properties": {"rows": {"items": row}}}
    rows: list[JsonValue] = [{"sku": f"A-{number:07}", "price": 12.5} for number in range(1900)]

    html = render(_version(html=source, schema=schema), {"rows": rows}).html

    assert html is not None
    assert html.count("<tr>") == 1900


def test_a_refusal_tells_neither_the_template_nor_the_context() -> None:
    sources = (
        "{{ canary.x }}",
        "{{ x.canary }}",
        "{{ canary|canary }}",
        "{{ 'canary",
        "{{ x|round }}",
        "{{ 'canary' + 1 }}",
    )

    for source in sources:
        told = check_template("canary", source, source, _ANY)
        with pytest.raises(InvalidRequest) as refused:
            render(_version("canary", source, source), {"x": "canary"})
        told += refused.value.faults
        assert refused.value.__context__ is None
        assert told
        assert "canary" not in repr(told)


def test_nothing_of_a_template_or_a_message_is_printed() -> None:
    version = _version("canary", "canary", "canary")

    assert "canary" not in f"{version!r} {render(version, {})!r}"


def test_a_render_takes_about_a_millisecond() -> None:
    version = _version("Hello {{ name }}", "Dear {{ name }},", "<p>Dear {{ name }},</p>", _NAME)
    render(version, {"name": "Ada"})
    started = time.perf_counter()

    for _ in range(100):
        render(version, {"name": "Ada"})

    assert (time.perf_counter() - started) / 100 < 0.02


@pytest.mark.parametrize("context", ['{"n": 1, "o": {"b": 1, "a": 2}}', '{"o": {"a": 2e0, "b": 1.0}, "n": 1.0}'])
def test_equal_commands_render_alike(context: str) -> None:
    body = '{"to":"ada@example.com","sender":"demo","template":{"key":"welcome","version":1},"context":%s}'
    command = parse_command((body % context).encode())

    assert _text("{{ n }} {{ o }}", command.context) == '1 {"a": 2, "b": 1}'


@pytest.mark.parametrize("source", ['{{ "\\u0000" }}', '{{ "%c"|format(0) }}'])
def test_what_postgres_can_t_hold_is_refused(source: str) -> None:
    assert _faults(_version(text=f"a{source}"), {}) == [("/context", FaultCode.TEMPLATE_FAILED)]


@pytest.mark.parametrize("name", ["", " \n", "\u200b\u00ad"])
def test_a_message_whose_text_shows_nothing_is_refused(name: str) -> None:
    for version in (_version(text="{{ name }}"), _version(text=None, html="<p>{{ name }}</p>")):
        assert _faults(version, {"name": name}) == [("/context", FaultCode.TEMPLATE_FAILED)]
