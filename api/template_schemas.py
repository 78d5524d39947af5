"""The bodies of the template calls: what may be sent, as JSON Schema for OpenAPI, and what answers look like."""

from typing import Any, Final, Self

from pydantic import BaseModel, Field

from api.command import MAX_VERSION
from api.command_schema import anchored
from api.fields import KEY, PURPOSE
from api.schemas import Time
from api.strict_json import JsonObject, JsonValue
from db.templates import NewestVersion, PublishedVersion

DEFAULT_PURPOSE: Final = "transactional"
#: A part with something else than white space in it, as Python has it.
_NOT_BLANK: Final = r"[^\u0009-\u000d\u001c- \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"

_CONTEXT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
#: What the examples publish, read and preview.
_WELCOME: Final[dict[str, JsonValue]] = {
    "subject": "Welcome, {{ name }}",
    "text": "Hello {{ name }}",
    "html": "<p>Hello {{ name }}</p>",
    "purpose": DEFAULT_PURPOSE,
    "context_schema": _CONTEXT_SCHEMA,
}

VERSION_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "description": "Subject, text and HTML are Jinja templates. An absent member and null are one and the same.",
    "properties": {
        "subject": {
            "type": "string",
            "pattern": _NOT_BLANK,
            "description": "One line.",
            "examples": [_WELCOME["subject"]],
        },
        "text": {
            "type": ["string", "null"],
            "pattern": _NOT_BLANK,
            "description": "Left out: derived from the HTML, once that is rendered.",
            "examples": [_WELCOME["text"]],
        },
        "html": {
            "type": ["string", "null"],
            "pattern": _NOT_BLANK,
            "description": "Values are escaped. Left out: the mail has no HTML part.",
            "examples": [_WELCOME["html"]],
        },
        "purpose": {"type": ["string", "null"], "pattern": anchored(PURPOSE), "default": DEFAULT_PURPOSE},
        "context_schema": {
            "type": ["object", "null"],
            "description": "What a context has to be: JSON Schema, Draft 2020-12. Where it has `properties`, they name"
            " every variable of the template. Left out: anything.",
            "examples": [_CONTEXT_SCHEMA],
        },
    },
    "required": ["subject"],
    "anyOf": [{"properties": {part: {"type": "string"}}, "required": [part]} for part in ("text", "html")],
    "additionalProperties": False,
    "examples": [_WELCOME],
}

PREVIEW_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "context": {
            "type": ["object", "null"],
            "description": "As a message would have it. Left out: empty.",
            "examples": [{"name": "Ada"}],
        }
    },
    "additionalProperties": False,
    "examples": [{"context": {"name": "Ada"}}],
}

#: Of the parameters in the path. They are read as text, since one that is malformed is an answer of ours.
KEY_PARAMETER: Final[dict[str, Any]] = {"pattern": anchored(KEY), "examples": ["welcome"]}
NUMBER_PARAMETER: Final[dict[str, Any]] = {
    "type": "integer",
    "minimum": 1,
    "maximum": MAX_VERSION,
    "examples": [1],
}


class VersionBody(BaseModel):
    """A template version, which never changes."""

    key: str = Field(examples=["welcome"])
    version: int = Field(ge=1, examples=[1])
    subject: str = Field(examples=[_WELCOME["subject"]])
    text: str | None = Field(description="Null: derived from the HTML.", examples=[_WELCOME["text"]])
    html: str | None = Field(examples=[_WELCOME["html"]])
    purpose: str = Field(examples=[DEFAULT_PURPOSE])
    context_schema: dict[str, Any] = Field(examples=[_CONTEXT_SCHEMA])
    created_at: Time

    @classmethod
    def of(cls, published: PublishedVersion) -> Self:
        """Show a version."""
        return cls(
            key=published.key,
            version=published.version,
            subject=published.content.subject,
            text=published.content.text,
            html=published.content.html,
            purpose=published.content.purpose,
            context_schema=dict(published.content.context_schema),
            created_at=published.created_at,
        )


class NewestVersionBody(BaseModel):
    """A template: its newest version, without the content."""

    key: str = Field(examples=["welcome"])
    version: int = Field(ge=1, examples=[1])
    purpose: str = Field(examples=[DEFAULT_PURPOSE])
    created_at: Time

    @classmethod
    def of(cls, newest: NewestVersion) -> Self:
        """Show a template of a list."""
        return cls.model_validate(newest, from_attributes=True)


class RenderedBody(BaseModel):
    """A message's content."""

    subject: str = Field(examples=["Welcome, Ada"])
    text: str = Field(examples=["Hello Ada"])
    html: str | None = Field(examples=["<p>Hello Ada</p>"])
