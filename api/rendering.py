"""Templates: whether a version can be used, and what it makes of a context.

Templates and their schemas are the tenants' programs.  They run in confinement, since minijinja's fuel bounds loops and
strings, but not lists that hold themselves ten times over, and a chain of 60,000 operators crashes it.
"""

import json
from dataclasses import dataclass, field
from typing import Final

from api.canonical import canonical_json
from api.confinement import Confinement
from api.faults import Fault, FaultCode, InvalidRequest, refuse
from api.strict_json import JsonObject, JsonValue

#: RFC 8785 bytes.
MAX_CONTEXT_BYTES: Final = 64 * 2**10

#: A usual mail renders in half a millisecond, and a table from a context of full size in 50.
_RENDER_CPU_SECONDS: Final = 0.1
#: A schema takes about 0.7 ms for each of its properties, and a context of full size 100 ms.
_SCHEMA_CPU_SECONDS: Final = 0.5

_engine: Final = Confinement("api.template_engine:answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParts:
    """A template version's sources (Jinja syntax), and the JSON Schema of its context."""

    subject: str = field(repr=False)
    text: str | None = field(repr=False)
    html: str | None = field(repr=False)
    context_schema: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A message's content, as it is stored and sent."""

    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str | None = field(repr=False)


def check_template(subject: str, text: str | None, html: str | None, context_schema: JsonObject) -> tuple[Fault, ...]:
    """Return why this can't become a template version; nothing if it can.

    Pointers are `/subject`, `/text`, `/html` and `/context_schema`.  The subject is one line, the text part is
    required, and HTML is optional.  Switched off: `safe`, `autoescape`, and tags that load another template.
    """
    blank = [
        Fault(pointer=at, code=FaultCode.REQUIRED, detail="This part must not be blank.")
        for at, source in (("/subject", subject), ("/text", text))
        if source is not None and not source.strip()
    ]
    schema = _ask("check_schema", [context_schema], at="/context_schema", cpu_seconds=_SCHEMA_CPU_SECONDS).faults
    if schema:
        return (*blank, *schema)
    faults = list(blank)
    for name, source in (("subject", subject), ("text", text), ("html", html)):
        if source is not None:
            part: list[JsonValue] = [name, source, context_schema]
            faults.extend(_ask("check_part", part, at=f"/{name}", cpu_seconds=_RENDER_CPU_SECONDS).faults)
    return tuple(faults)


def render(version: TemplateParts, context: JsonObject) -> Rendered:
    """Render a version that passed `check_template` with a context from `canonical.canonical_context`.

    Nothing but the arguments decides the result.  Blocks; see `Confinement`.

    Raises `InvalidRequest` with pointers at or below `/context`: the context is too large or against the schema, a
    value that the template uses is not there, the subject is not one line, or it all takes too much.
    """
    if len(canonical_json(context)) > MAX_CONTEXT_BYTES:
        detail = f"The context has at most {MAX_CONTEXT_BYTES} bytes of canonical JSON."
        raise InvalidRequest(Fault(pointer="/context", code=FaultCode.CONTEXT_TOO_LARGE, detail=detail))
    schema: list[JsonValue] = [version.context_schema, context, "/context"]
    refuse(_ask("check_context", schema, at="/context", cpu_seconds=_SCHEMA_CPU_SECONDS).faults)
    parts: list[JsonValue] = [version.subject, version.text, version.html, context]
    answer = _ask("render", parts, at="/context", cpu_seconds=_RENDER_CPU_SECONDS)
    if answer.rendered is None:
        raise InvalidRequest(*answer.faults)
    return answer.rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    faults: tuple[Fault, ...]
    rendered: Rendered | None


def _ask(task: str, arguments: list[JsonValue], *, at: str, cpu_seconds: float) -> _Answer:
    result = _engine.call(json.dumps([task, *arguments]).encode(), cpu_seconds=cpu_seconds)
    if result is None:
        detail = "The template or its schema takes more work or memory than a mail may."
        return _Answer(faults=(Fault(pointer=at, code=FaultCode.TEMPLATE_TOO_COSTLY, detail=detail),), rendered=None)
    answer = json.loads(result)
    rendered = answer["rendered"]
    return _Answer(
        faults=tuple(Fault(**fault) for fault in answer["faults"]),
        rendered=None if rendered is None else Rendered(**rendered),
    )
