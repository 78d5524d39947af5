"""OpenAPI, made true where FastAPI can't know: who may call, what every answer carries, what an error looks like."""

from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from api.auth import Scope
from api.examples import EXAMPLES
from api.problems import ProblemBody

_TENANT_KEY: Final = "api_key"
_OPERATOR_KEY: Final = "operator_key"
_SCHEMES: Final = {
    _TENANT_KEY: {"type": "http", "scheme": "bearer", "bearerFormat": "fp_...", "description": "A tenant's key."},
    _OPERATOR_KEY: {"type": "http", "scheme": "bearer", "bearerFormat": "fp_...", "description": "An operator's key."},
}
#: The scope that the calls of a tag need, or those of one method. Each call checks it for itself.
_SCOPES: Final = {
    "post messages": Scope.MESSAGES_SEND,
    "get messages": Scope.MESSAGES_READ,
    "templates": Scope.TEMPLATES,
    "senders": Scope.SENDERS,
    "suppressions": Scope.SUPPRESSIONS,
    "tenants": Scope.OPERATOR,
    "operators": Scope.OPERATOR,
}
#: What needs no key, since each body is signed.
_SIGNED: Final = "provider events"
_REQUEST_ID: Final = {
    "X-Request-Id": {
        "description": "Finds this request in the log; `request_id` of an error.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    }
}


def describe(app: FastAPI) -> None:
    """Have the application give its document with what FastAPI leaves out, and without what never happens."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(generate())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend its document


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document["components"]
    components["securitySchemes"] = _SCHEMES
    components["headers"] = _REQUEST_ID
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    _, problem = models_json_schema([(ProblemBody, "serialization")], ref_template="#/components/schemas/{model}")
    components["schemas"] |= problem["$defs"]
    for name, example in EXAMPLES.items():
        components["schemas"][name]["examples"] = [example]
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            if path.startswith("/v1/") and call["tags"][0] != _SIGNED:
                call["security"] = [_security(method, call["tags"][0])]
            _drop_framework_error(call["responses"])
            for response in call["responses"].values():
                response.setdefault("headers", {})["X-Request-Id"] = {"$ref": "#/components/headers/X-Request-Id"}
    return document


def _security(method: str, tag: str) -> dict[str, list[str]]:
    """Name the key that opens a call, with the scope it needs (OpenAPI 3.1: a role name)."""
    scope = _SCOPES.get(f"{method} {tag}") or _SCOPES[tag]
    return {_OPERATOR_KEY if scope is Scope.OPERATOR else _TENANT_KEY: [str(scope)]}


def _drop_framework_error(responses: dict[str, Any]) -> None:
    content = responses.get("422", {}).get("content", {}).get("application/json", {})
    if content.get("schema", {}).get("$ref", "").endswith("/HTTPValidationError"):
        del responses["422"]
