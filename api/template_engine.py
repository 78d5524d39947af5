"""minijinja on tenants' templates, without a bound on its work: for `api.confinement` only."""

import dataclasses
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from minijinja import Environment, TemplateError
from typing_extensions import override

from api.context_schema import context_faults, schema_faults
from api.faults import Fault, FaultCode, InvalidRequest, refuse
from api.rendering import Rendered
from api.strict_json import JsonObject, JsonValue

#: Bytes of UTF-8, of all parts.
MAX_RENDERED_BYTES: Final = 2**20
#: RFC 5322 section 2.1.1, the longest line.
MAX_SUBJECT_LENGTH: Final = 998
#: Steps; a row of a table takes about ten.
_FUEL: Final = 100_000

#: `autoescape` and `safe` would let a context's markup into the mail, and there is nothing to load.
_FORBIDDEN: Final = re.compile(
    r"\{%[-+]?\s*(?:autoescape|include|import|from|extends)\b"
    r"|\{%[-+]?\s*filter\s+safe\b"
    r"|\{[{%](?:(?![}%]\}).)*\|\s*safe\b",
    re.DOTALL,
)
#: minijinja's own let undefined values through even in its strict mode, and write nothing for them.
_LENIENT_FILTERS: Final = (
    *("e", "escape", "urlencode", "tojson", "pprint", "indent", "truncate", "wordwrap"),
    *("length", "count", "chain", "zip"),
)
#: Where the filters are minijinja's own.
_PLAIN: Final = Environment(debug=False, fuel=_FUEL, pycompat=False)
_FAILED: Final = (FaultCode.TEMPLATE_FAILED, "The template can't work with these values.")
_UNDEFINED: Final = (FaultCode.TEMPLATE_UNDEFINED, "The template uses a value that isn't there.")
_MISSING: Final = (FaultCode.TEMPLATE_FORBIDDEN, "The template uses a filter, function or test that isn't there.")
_MEANINGS: Final = {
    "SyntaxError": (FaultCode.TEMPLATE_SYNTAX, "The template can't be read."),
    "UnknownFilter": _MISSING,
    "UnknownFunction": _MISSING,
    "UnknownTest": _MISSING,
    "UnknownMethod": (FaultCode.TEMPLATE_FORBIDDEN, "Values have no methods; there are filters instead."),
    "UndefinedError": _UNDEFINED,
    "OutOfFuel": (FaultCode.TEMPLATE_TOO_COSTLY, "The template takes too many steps."),
}
#: What no context could mend.
_FATAL: Final = frozenset({FaultCode.TEMPLATE_SYNTAX, FaultCode.TEMPLATE_FORBIDDEN, FaultCode.TEMPLATE_TOO_COSTLY})
_LINE_BREAKING: Final = frozenset({"Cc", "Zl", "Zp"})

PartName = Literal["subject", "text", "html"]


def answer(argument: bytes) -> bytes:
    """Do one task of `api.rendering`, JSON in and JSON out."""
    task, *arguments = json.loads(argument)
    rendered: Rendered | None = None
    faults: Sequence[Fault] = ()
    try:
        match task:
            case "check_schema":
                faults = schema_faults(*arguments)
            case "check_part":
                faults = list(_check_part(*arguments))
            case "check_context":
                faults = context_faults(*arguments)
            case "render":
                rendered = _render(*arguments)
            case _:
                raise ValueError(task)
    except InvalidRequest as refusal:
        faults = refusal.faults
    content = None if rendered is None else dataclasses.asdict(rendered)
    return json.dumps({"faults": [dataclasses.asdict(fault) for fault in faults], "rendered": content}).encode()


def _check_part(name: PartName, source: str, schema: JsonObject) -> Iterator[Fault]:
    at = f"/{name}"
    if name == "subject" and not _is_one_line(source.rstrip("\r\n")):
        yield _fault(at, FaultCode.SUBJECT_NOT_ONE_LINE, "The subject has to be one line.")
    if _FORBIDDEN.search(source):
        yield _fault(at, FaultCode.TEMPLATE_FORBIDDEN, "The filter safe, autoescape and loading templates are off.")
        return
    # With nothing given and every undefined value let pass, what still fails so would fail with any context.
    environment = _environment("chainable")
    try:
        _render_part(environment, name, source, {})
    except InvalidRequest as refusal:
        fatal = [fault for fault in refusal.faults if fault.code in _FATAL]
        if fatal:
            yield from (dataclasses.replace(fault, pointer=at) for fault in fatal)
            return
    variables = environment.undeclared_variables_in_template(name) - environment.globals.keys()
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is False and isinstance(properties, dict) and variables - properties.keys():
        yield _fault(at, FaultCode.TEMPLATE_UNDEFINED, "The template uses a variable that the schema doesn't allow.")


def _render(subject: str, text: str, html: str | None, context: JsonObject) -> Rendered:
    environment = _environment("strict")
    values = {name: _opaque(value) for name, value in context.items()}
    rendered = Rendered(
        subject=_render_part(environment, "subject", subject, values),
        text=_render_part(environment, "text", text, values),
        html=None if html is None else _render_part(environment, "html", html, values),
    )
    refuse(_rendered_faults(rendered))
    return rendered


def _render_part(environment: Environment, name: PartName, source: str, values: dict[str, object]) -> str:
    try:
        environment.add_template(name, source)
        # Not render_str, which has no place for a value named `self`.
        return environment.render_template(name, **values)
    except TemplateError as error:
        code, detail = _MEANINGS.get(error.kind, _FAILED)
        detail = f"{detail} (The {name} part, line {error.line}.)"
    except _UndefinedError:
        code, detail = _UNDEFINED
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # what Python raises for an operation on the context's values comes through as it is
        code, detail = _FAILED
    # Outside of the except clauses, so that the library's error, which may quote, doesn't go with it.
    raise InvalidRequest(_fault("/context", code, detail))


def _rendered_faults(rendered: Rendered) -> Iterator[Fault]:
    at = "/context"
    if not _is_one_line(rendered.subject):
        yield _fault(at, FaultCode.SUBJECT_NOT_ONE_LINE, "The rendered subject has a line break or control character.")
    if len(rendered.subject) > MAX_SUBJECT_LENGTH:
        yield _fault(at, FaultCode.RENDERED_TOO_LARGE, f"A subject has at most {MAX_SUBJECT_LENGTH} characters.")
    if len("".join((rendered.subject, rendered.text, rendered.html or "")).encode()) > MAX_RENDERED_BYTES:
        yield _fault(at, FaultCode.RENDERED_TOO_LARGE, f"A message has at most {MAX_RENDERED_BYTES} bytes.")


def _environment(undefined: Literal["strict", "chainable"]) -> Environment:
    environment = Environment(
        # With it on, an error's text quotes the template and the values in it.
        debug=False,
        fuel=_FUEL,
        undefined_behavior=undefined,
        auto_escape_callback=lambda name: name == "html",
        # Python's string methods know nothing of fuel: one str.format took 8 s and 1.9 GB.
        pycompat=False,
    )
    environment.remove_filter("safe")
    # It writes the whole context into the mail.
    environment.remove_global("debug")
    if undefined == "strict":
        for name in _LENIENT_FILTERS:
            environment.add_filter(name, _strict(name))
    return environment


class _UndefinedError(Exception):
    """A filter was given nothing."""


def _strict(name: str) -> Callable[..., object]:
    """Return minijinja's filter of that name, but for undefined values and null, which look the same from here."""

    def apply(value: object, *positional: object, **named: object) -> object:
        if value is None:
            raise _UndefinedError
        values = {f"_{index}": argument for index, argument in enumerate(positional)} | named
        arguments = [*(f"_{index}" for index in range(len(positional))), *(f"{keyword}={keyword}" for keyword in named)]
        result: object = _PLAIN.eval_expr(f"_value|{name}({', '.join(arguments)})", _value=value, **values)
        return result

    return apply


def _fault(at: str, code: FaultCode, detail: str) -> Fault:
    return Fault(pointer=at, code=code, detail=detail)


def _is_one_line(text: str) -> bool:
    return not any(unicodedata.category(character) in _LINE_BREAKING for character in text)


def _opaque(value: JsonValue) -> object:
    """Return a value as a template may see it; minijinja would show the attributes of Python's own objects."""
    match value:
        case dict():
            return _Object(value)
        case list():
            return _Array(value)
        case _:
            return value


class _Object:
    """A JSON object with its members and nothing else."""

    __slots__ = ("_members", "_misses_items")

    def __init__(self, members: JsonObject) -> None:
        self._members = members
        self._misses_items = False

    @property
    def items(self) -> None:
        """What minijinja looks for to know a mapping, and again in place of a member `items` that isn't there."""
        if self._misses_items:
            self._misses_items = False
            raise AttributeError

    def __getitem__(self, name: str) -> object:
        if name not in self._members:
            self._misses_items = name == "items"
            raise KeyError
        return _opaque(self._members[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @override
    def __str__(self) -> str:
        return json.dumps(self._members, ensure_ascii=False)


@Sequence.register
class _Array:
    """A JSON array with its items and nothing else."""

    __slots__ = ("_items",)

    def __init__(self, items: list[JsonValue]) -> None:
        self._items = items

    def __getitem__(self, index: int) -> object:
        return _opaque(self._items[index])

    def __len__(self) -> int:
        return len(self._items)

    @override
    def __str__(self) -> str:
        return json.dumps(self._items, ensure_ascii=False)
