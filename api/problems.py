"""Every error answer: its code, its status and its body (RFC 9457). No other file builds one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, Field
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema
from starlette.exceptions import HTTPException

from api.confinement import ConfinementUnavailableError
from api.faults import Fault, FaultCode, InvalidRequest
from db.engine import UnavailableError

#: After this many seconds, asking again is worth it; Postgres answers again within ten of its return.
_RETRY_AFTER_SECONDS: Final = 2


_MEDIA_TYPE: Final = "application/problem+json"
_RETRY_AFTER: Final = {
    "Retry-After": {
        "description": "After so many seconds, asking again is worth it.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
}
#: The headers of an error, by its status.
_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {
        "WWW-Authenticate": {
            "description": "RFC 6750.",
            "required": True,
            "schema": {"type": "string", "enum": ["Bearer"]},
        }
    },
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}


class Code(StrEnum):
    """The stable part of an error: what a client program switches on."""

    INVALID_REQUEST = "invalid_request"
    IDEMPOTENCY_KEY_MISSING = "idempotency_key_missing"
    IDEMPOTENCY_KEY_INVALID = "idempotency_key_invalid"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    TEMPLATE_NOT_FOUND = "template_not_found"
    SENDER_NOT_FOUND = "sender_not_found"
    SENDER_DISABLED = "sender_disabled"
    TENANT_DISABLED = "tenant_disabled"
    SENDER_EXISTS = "sender_exists"
    KEY_NOT_ACTIVE = "key_not_active"
    NOT_AMBIGUOUS = "not_ambiguous"
    DUPLICATE_RISK_NOT_ACKNOWLEDGED = "duplicate_risk_not_acknowledged"
    EVENT_INVALID = "event_invalid"
    EVENT_UNVERIFIED = "event_unverified"
    SUBSCRIPTION_REFUSED = "subscription_refused"
    CURSOR_INVALID = "cursor_invalid"
    RATE_LIMITED = "rate_limited"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    REQUEST_TOO_LARGE = "request_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


#: Status and title of each code; the title never changes with the request.
ERRORS: Final = MappingProxyType(
    {
        Code.INVALID_REQUEST: (422, "The request can't be taken as it is."),
        Code.IDEMPOTENCY_KEY_MISSING: (400, "The header Idempotency-Key is missing."),
        Code.IDEMPOTENCY_KEY_INVALID: (400, "Idempotency-Key has to be one header of 1 to 255 printable characters."),
        Code.IDEMPOTENCY_CONFLICT: (409, "This idempotency key belongs to another command."),
        Code.TEMPLATE_NOT_FOUND: (422, "There is no such version of this template."),
        Code.SENDER_NOT_FOUND: (422, "There is no such sender."),
        Code.SENDER_DISABLED: (403, "This sender is switched off."),
        Code.TENANT_DISABLED: (403, "This tenant is switched off."),
        Code.SENDER_EXISTS: (409, "This key is another sender's; PATCH changes a sender."),
        Code.KEY_NOT_ACTIVE: (409, "This API key is revoked, expired or rotated already."),
        Code.NOT_AMBIGUOUS: (409, "This message is not ambiguous any more, or the attempt in doubt is another one."),
        Code.DUPLICATE_RISK_NOT_ACKNOWLEDGED: (
            422,
            "A resend may be a second mail to the recipient; it needs acknowledge_duplicate_risk.",
        ),
        Code.EVENT_INVALID: (400, "This is no notification of Amazon SNS."),
        Code.EVENT_UNVERIFIED: (403, "This notification is not one that SNS signed lately for a topic of ours."),
        Code.SUBSCRIPTION_REFUSED: (409, "SNS does not take this token any more; subscribe anew, and confirm that."),
        Code.CURSOR_INVALID: (400, "This cursor is not one that this list gave; begin without one."),
        Code.RATE_LIMITED: (429, "This tenant asks for more than its rate; Retry-After says when to ask again."),
        Code.UNAUTHENTICATED: (401, "A valid API key is needed: Authorization: Bearer fp_..."),
        Code.FORBIDDEN: (403, "This API key lacks the scope for this call."),
        Code.NOT_FOUND: (404, "There is nothing here."),
        Code.METHOD_NOT_ALLOWED: (405, "This address doesn't take this method."),
        Code.REQUEST_TOO_LARGE: (413, "The body is larger than 256 KiB (from SNS: 512 KiB)."),
        Code.UNSUPPORTED_MEDIA_TYPE: (415, "The body has to be application/json, or text/csv for an import."),
        Code.UNAVAILABLE: (503, "Fencepost can't answer now; asking again with the same key is safe."),
        Code.INTERNAL: (500, "Something is wrong on our side; the request id finds it in the log."),
    }
)


class Problem(Exception):  # noqa: N818  (named like what it becomes)
    """An error answer. Neither `detail` nor `faults` may hold anything of the input."""

    def __init__(self, code: Code, *, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.faults = tuple(faults)
        self.headers = dict(headers or {})


def _without_default(schema: JsonDict) -> None:
    """Leave out a default that stands for an absent member, and is never in an answer."""
    del schema["default"]


class FaultBody(BaseModel):
    """One fault of a request."""

    pointer: str = Field(
        description="JSON pointer (RFC 6901) into the body, or to the parent of what is at fault.",
        json_schema_extra={"format": "json-pointer"},
    )
    code: FaultCode
    detail: str = Field(description="For people.")


class ProblemBody(BaseModel):
    """An error (RFC 9457). `code` is stable; no error repeats what was sent."""

    type: str = Field(pattern="^urn:fencepost:problem:[a-z_]+$")
    title: str = Field(description="For people; the same for each error of this code.")
    status: int = Field(ge=400, le=599, description="The status of the answer.")
    code: Code
    request_id: str = Field(pattern="^[0-9a-f]{32}$", description="`X-Request-Id` of the answer.")
    errors: Annotated[list[FaultBody], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        default=None,
        description="What is at fault; absent where that is no field.",
        json_schema_extra=_without_default,
    )


def answer(request: Request, problem: Problem) -> JSONResponse:
    """Build the answer of a problem."""
    status, title = ERRORS[problem.code]
    headers = problem.headers
    if problem.code is Code.UNAVAILABLE:
        headers = {"Retry-After": str(_RETRY_AFTER_SECONDS), **headers}
    if problem.code is Code.UNAUTHENTICATED:
        headers = {"WWW-Authenticate": "Bearer", **headers}
    body: dict[str, Any] = {
        "type": f"urn:fencepost:problem:{problem.code}",
        "title": title,
        "status": status,
        "code": problem.code,
        "request_id": request.scope.get("fencepost.request_id", ""),
    }
    if problem.faults:
        body["errors"] = [asdict(fault) for fault in problem.faults]
    return JSONResponse(body, status_code=status, headers=headers, media_type=_MEDIA_TYPE)


def documented(*codes: Code) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a call for OpenAPI: each status with its headers, its codes, and an example of each."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        status, title = ERRORS[code]
        content = by_status.setdefault(status, _described(status))["content"][_MEDIA_TYPE]
        content["schema"]["properties"]["code"]["enum"].append(str(code))
        value = {
            "type": f"urn:fencepost:problem:{code}",
            "title": title,
            "status": status,
            "code": str(code),
            "request_id": "0192f0c0e5b07a3c9f0d5a0d6a1b2c3d",
        }
        if code is Code.INVALID_REQUEST:
            detail = "The body has a member that this call doesn't know."
            value["errors"] = [{"pointer": "", "code": str(FaultCode.UNKNOWN_FIELD), "detail": detail}]
        content["examples"][str(code)] = {"value": value}
    return by_status


def _described(status: int) -> dict[str, Any]:
    schema = {
        "$ref": f"#/components/schemas/{ProblemBody.__name__}",
        "properties": {"status": {"const": status}, "code": {"enum": []}},
    }
    return {
        "description": HTTPStatus(status).phrase,
        "headers": _HEADERS.get(status, {}),
        "content": {_MEDIA_TYPE: {"schema": schema, "examples": {}}},
    }


def _allowed(request: Request, named: str) -> str:
    """Name all methods of an address (RFC 9110 section 15.5.6); the framework has named those of its first route."""
    path = getattr(request.scope.get("route"), "path", None)
    others = [route.methods or () for route in iter_route_contexts(request.app.routes) if route.path == path]
    return ", ".join(sorted({*named.split(", "), *(method for methods in others for method in methods)}))


def install(app: FastAPI) -> None:
    """Let every error of the application, the framework's own included, leave as a problem."""

    async def on_problem(request: Request, error: Exception) -> JSONResponse:
        match error:
            case Problem():
                return answer(request, error)
            case InvalidRequest():
                return answer(request, Problem(Code.INVALID_REQUEST, faults=error.faults))
            case UnavailableError() | ConfinementUnavailableError():
                return answer(request, Problem(Code.UNAVAILABLE))
            case HTTPException(status_code=404):
                return answer(request, Problem(Code.NOT_FOUND))
            case HTTPException(status_code=405, headers={"Allow": named}):
                return answer(request, Problem(Code.METHOD_NOT_ALLOWED, headers={"Allow": _allowed(request, named)}))
            case RequestValidationError():
                # Only a path or query parameter gets here, since bodies are read by us: such an id never existed.
                return answer(request, Problem(Code.NOT_FOUND))
            case _:
                raise error

    kinds = (
        Problem,
        InvalidRequest,
        UnavailableError,
        ConfinementUnavailableError,
        HTTPException,
        RequestValidationError,
    )
    for kind in kinds:
        app.add_exception_handler(kind, on_problem)
