"""Every error answer: its code, its status and its body (RFC 9457). No other file builds one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from api.confinement import ConfinementUnavailableError
from api.faults import Fault, InvalidRequest
from db.engine import UnavailableError

_log = structlog.get_logger(__name__)

#: After this many seconds, asking again is worth it; Postgres answers again within ten of its return.
_RETRY_AFTER_SECONDS: Final = 2


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
        Code.CURSOR_INVALID: (400, "This cursor is not one that this list gave; begin without one."),
        Code.RATE_LIMITED: (429, "This tenant asks for more than its rate; Retry-After says when to ask again."),
        Code.UNAUTHENTICATED: (401, "A valid API key is needed: Authorization: Bearer fp_..."),
        Code.FORBIDDEN: (403, "This API key lacks the scope for this call."),
        Code.NOT_FOUND: (404, "There is nothing here."),
        Code.METHOD_NOT_ALLOWED: (405, "This address doesn't take this method."),
        Code.REQUEST_TOO_LARGE: (413, "The body is larger than 256 KiB."),
        Code.UNSUPPORTED_MEDIA_TYPE: (415, "The body has to be application/json."),
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


class FaultBody(BaseModel):
    """One fault of a request."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body, or to the parent of what is at fault.")
    code: str
    detail: str


class ProblemBody(BaseModel):
    """An error (RFC 9457). `code` is stable; no error repeats what was sent."""

    type: str
    title: str
    status: int
    code: Code
    request_id: str
    errors: list[FaultBody] | None = None


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
    return JSONResponse(body, status_code=status, headers=headers, media_type="application/problem+json")


def documented(*codes: Code) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a call for OpenAPI, each status with its codes and an example."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        status, title = ERRORS[code]
        entry = by_status.setdefault(
            status,
            {
                "model": ProblemBody,
                "description": HTTPStatus(status).phrase,
                "content": {"application/problem+json": {}},
            },
        )
        examples = entry["content"]["application/problem+json"].setdefault("examples", {})
        examples[str(code)] = {
            "value": {
                "type": f"urn:fencepost:problem:{code}",
                "title": title,
                "status": status,
                "code": str(code),
                "request_id": "0192f0c0e5b07a3c9f0d5a0d6a1b2c3d",
            }
        }
    return by_status


_OF_STATUS: Final = {404: Code.NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED}


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
            case HTTPException() if error.status_code in _OF_STATUS:
                return answer(request, Problem(_OF_STATUS[error.status_code], headers=error.headers))
            case RequestValidationError():
                # Only a path or query parameter gets here, since bodies are read by us: such an id never existed.
                return answer(request, Problem(Code.NOT_FOUND))
            case _:
                _log.error("request_failed", error=type(error).__name__, exc_info=error)
                return answer(request, Problem(Code.INTERNAL))

    kinds = (
        Problem,
        InvalidRequest,
        UnavailableError,
        ConfinementUnavailableError,
        HTTPException,
        RequestValidationError,
        Exception,
    )
    for kind in kinds:
        app.add_exception_handler(kind, on_problem)
