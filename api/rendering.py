"""Templates: whether a version can be used, and what it makes of a context.

Templates and their schemas are the tenants' programs.  They run in confinement, since minijinja's fuel bounds loops and
strings, but not lists that hold themselves ten times over, and a chain of 60,000 operators crashes it.
"""

import json
from dataclasses import dataclass, field
from typing import Final, Self

from api.canonical import canonical_json, read_canonical
from api.confinement import Confinement
from api.faults import Fault, FaultCode, InvalidRequest, refuse
from api.strict_json import JsonObject, JsonValue
from db.intake import TemplateVersion

#: RFC 8785 bytes.
MAX_CONTEXT_BYTES: Final = 64 * 2**10

#: All that checking one version, or rendering one message, may take, so that abuse is refused within 200 ms: what
#: enforces it may be 60 ms late.  In
#: milliseconds, a usual mail takes 1; a schema 0.7 for each of its properties; a context of full size 45, and a table
#: of it 20; text that is derived from HTML 0.04 for each element.  A busy machine may need twice as much.
_CPU_SECONDS: Final = 0.12

_engine: Final = Confinement("api.template_engine:answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParts:
    """A template version's sources (Jinja syntax), and the JSON Schema of its context."""

    subject: str = field(repr=False)
    text: str | None = field(repr=False)
    html: str | None = field(repr=False)
    context_schema: JsonObject = field(repr=False)

    @classmethod
    def of(cls, version: TemplateVersion) -> Self:
        """Take what is rendered from a version as it is stored."""
        return cls(
            subject=version.subject,
            text=version.text,
            html=version.html,
            context_schema=dict(version.context_schema),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A message's content, as it is stored and sent."""

    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str | None = field(repr=False)


def check_template(subject: str, text: str | None, html: str | None, context_schema: JsonObject) -> tuple[Fault, ...]:
    """Return why this can't become a template version; nothing if it can.

    Pointers are `/subject`, `/text`, `/html` and `/context_schema`.  The subject is one line; of text and HTML one is
    enough, and text is derived from HTML where there is none.  Switched off: `safe`, `autoescape`, and tags that load
    another template.  A check that takes too much is the last one: what follows is not looked at.
    """
    given = [
        (name, source) for name, source in (("subject", subject), ("text", text), ("html", html)) if source is not None
    ]
    faults = [
        Fault(pointer=f"/{name}", code=FaultCode.REQUIRED, detail="This part must not be blank.")
        for name, source in given
        if not source.strip()
    ]
    if text is None and html is None:
        faults.append(Fault(pointer="/text", code=FaultCode.REQUIRED, detail="A version has text, HTML, or both."))
    engine = _Engine()
    schema_faults = engine.ask("check_schema", context_schema, at="/context_schema").faults
    faults.extend(schema_faults)
    # Only a schema that can be used says which variables there are.
    schema = {} if schema_faults else context_schema
    for name, source in given:
        faults.extend(engine.ask("check_part", name, source, schema, at=f"/{name}").faults)
    if text is None and html is not None and not any(fault.pointer == "/html" for fault in faults):
        faults.extend(engine.ask("check_derived", html, at="/html").faults)
    return tuple(faults)


def render(version: TemplateParts, context: JsonObject) -> Rendered:
    """Render a version that passed `check_template` with a context, as its canonical bytes read.

    Nothing but the arguments decides the result.  Blocks; see `Confinement`.

    Raises `InvalidRequest` with pointers at or below `/context`: the context is too large or against the schema, a
    value that the template uses is not there, the subject is not one line, there is no text, or it all takes too much.
    """
    canonical = canonical_json(context)
    if len(canonical) > MAX_CONTEXT_BYTES:
        detail = f"The context has at most {MAX_CONTEXT_BYTES} bytes of canonical JSON."
        raise InvalidRequest(Fault(pointer="/context", code=FaultCode.CONTEXT_TOO_LARGE, detail=detail))
    parts = (version.subject, version.text, version.html, version.context_schema)
    answer = _Engine().ask("render", *parts, read_canonical(canonical), at="/context")
    refuse(answer.faults)
    return Rendered(subject=answer.rendered["subject"], text=answer.rendered["text"], html=answer.rendered.get("html"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    faults: tuple[Fault, ...]
    rendered: dict[str, str] = field(default_factory=dict, repr=False)


class _Engine:
    """Asks the confined engine, for one version or one message; all its tasks share the CPU time."""

    def __init__(self) -> None:
        self._seconds_left = _CPU_SECONDS

    def ask(self, task: str, *arguments: JsonValue, at: str) -> _Answer:
        """Do a task of `api.template_engine`.  `at` is to blame for one that takes too much; no task follows it."""
        if self._seconds_left <= 0:
            return _Answer(faults=())
        argument = json.dumps([task, *arguments]).encode()
        result = _engine.call(argument, cpu_seconds=self._seconds_left)
        if result is None:
            self._seconds_left = 0
            detail = "The template or its schema takes more work or memory than a mail may."
            return _Answer(faults=(Fault(pointer=at, code=FaultCode.TEMPLATE_TOO_COSTLY, detail=detail),))
        answer = json.loads(result)
        # More than nothing stays, however little: what takes up the rest is to be told.
        self._seconds_left = max(self._seconds_left - answer["cpu_seconds"], 0.001)
        faults = tuple(Fault(**fault) for fault in answer["faults"])
        return _Answer(faults=faults, rendered=answer["rendered"])
