"""minijinja on tenants' templates, without a bound on its work: for `api.confinement` only."""

import dataclasses
import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from minijinja import Environment, TemplateError

from api.context_schema import context_faults, schema_faults
from api.derived_text import text_of
from api.faults import Fault, FaultCode, InvalidRequest, refuse
from api.strict_json import JsonObject
from api.template_values import opaque

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
#: Raw text; a comment or a block's tag, which write nothing; an output.
_TAG: Final = re.compile(
    r"\{%[-+]?\s*raw\b.*?\bendraw\s*[-+]?%\}|(?P<silent>\{#.*?#\}|\{%(?P<block>.*?)%\})|\{\{(?P<output>.*?)\}\}",
    re.DOTALL,
)
_QUOTED: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)
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
    began = time.process_time()
    task, *arguments = json.loads(argument)
    rendered: dict[PartName, str] = {}
    faults: Sequence[Fault] = ()
    try:
        match task:
            case "check_schema":
                faults = schema_faults(*arguments)
            case "check_part":
                faults = list(_check_part(*arguments))
            case "check_derived":
                faults = list(_textless_faults(*arguments))
            case "render":
                rendered = _render(*arguments)
            case _:
                raise ValueError(task)
    except InvalidRequest as refusal:
        faults = refusal.faults
    told = [dataclasses.asdict(fault) for fault in faults]
    return json.dumps({"faults": told, "rendered": rendered, "cpu_seconds": time.process_time() - began}).encode()


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
    yield from _undeclared_faults(name, source, variables, schema)


def _undeclared_faults(name: PartName, source: str, variables: set[str], schema: JsonObject) -> Iterator[Fault]:
    """Compare the variables that a part uses with those that the schema names; without `properties` it is open."""
    properties = schema.get("properties")
    unknown = variables - properties.keys() if isinstance(properties, dict) else set()
    if unknown:
        line = _first_line_with(unknown, source)
        where = f"(The {name} part.)" if line is None else f"(The {name} part, line {line}.)"
        detail = f"The template uses a variable that the schema's properties don't name. {where}"
        yield _fault(f"/{name}", FaultCode.TEMPLATE_UNDEFINED, detail)


def _first_line_with(names: set[str], source: str) -> int | None:
    """Find where a part first uses one of these variables; minijinja tells their names only."""
    word = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})(?!\w|\s*=[^=])")
    for tag in _TAG.finditer(source):
        inside = tag["block"] or tag["output"] or ""
        found = word.search(_QUOTED.sub(lambda quoted: " " * len(quoted[0]), inside))
        if found:
            return source.count("\n", 0, tag.start() + len("{{") + found.start()) + 1
    return None


def _textless_faults(html: str) -> Iterator[Fault]:
    """Tell of an HTML part that shows no text, also where each of its values and branches is there to be seen."""
    try:
        bare = _render_part(_environment("chainable"), "html", html, {})
    except InvalidRequest:
        bare = ""
    # A value that is a link, too.
    full = _TAG.sub(lambda tag: "" if tag["silent"] else "x:x", html)
    try:
        if _is_blank(_derive(bare)) and _is_blank(_derive(full)):
            yield _fault("/html", FaultCode.REQUIRED, "The HTML shows no text, so the version needs a text part.")
    except InvalidRequest as refusal:
        yield from (dataclasses.replace(fault, pointer="/html") for fault in refusal.faults)


def _render(
    subject: str, text: str | None, html: str | None, schema: JsonObject, context: JsonObject
) -> dict[PartName, str]:
    refuse(context_faults(schema, context, "/context"))
    environment = _environment("strict")
    values = {name: opaque(value) for name, value in context.items()}
    sources: tuple[tuple[PartName, str | None], ...] = (("subject", subject), ("text", text), ("html", html))
    rendered = {name: _render_part(environment, name, source, values) for name, source in sources if source is not None}
    refuse(_rendered_faults(rendered))
    if "text" not in rendered:
        rendered["text"] = _derive(rendered["html"])
        refuse(_rendered_faults(rendered))
    if _is_blank(rendered["text"]):
        refuse([_fault("/context", FaultCode.TEMPLATE_FAILED, "With these values, the message has no text.")])
    return rendered


def _derive(html: str) -> str:
    try:
        return text_of(html)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001, S110  # both libraries raise errors of any kind, for deep nesting too
        pass
    # Outside of the except clause, so that the library's error, which may quote, doesn't go with it.
    detail = "No text can be derived from this HTML; with a text part, none has to be."
    raise InvalidRequest(_fault("/context", FaultCode.TEMPLATE_FAILED, detail))


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


def _rendered_faults(rendered: dict[PartName, str]) -> Iterator[Fault]:
    at = "/context"
    if not _is_one_line(rendered["subject"]):
        yield _fault(at, FaultCode.SUBJECT_NOT_ONE_LINE, "The rendered subject has a line break or control character.")
    if len(rendered["subject"]) > MAX_SUBJECT_LENGTH:
        yield _fault(at, FaultCode.RENDERED_TOO_LARGE, f"A subject has at most {MAX_SUBJECT_LENGTH} characters.")
    whole = "".join(rendered.values())
    if "\0" in whole:
        yield _fault(at, FaultCode.TEMPLATE_FAILED, "A message can't hold U+0000.")
    if len(whole.encode()) > MAX_RENDERED_BYTES:
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


def _is_blank(text: str) -> bool:
    """Tell whether nothing is to be seen: mails are padded with spaces and joiners of no width."""
    return all(unicodedata.category(character)[0] in "ZC" for character in text)
