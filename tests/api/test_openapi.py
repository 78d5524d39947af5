"""OpenAPI is a document, and true of the calls that there are."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import asyncpg
import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from api import keys
from api.certificates import Certificates
from api.problems import ERRORS, Code
from api.sns import MAX_BYTES, EventSettings, Verifier
from db.ids import TenantId
from db.lifecycle import State
from db.outcomes import Reason
from tests.api.conftest import Api, make_key, serving
from tests.api.operations import Operation, document_of, furnish, operations_of, schemas_in
from tests.conftest import Database, free_port
from tests.publishing import TOPIC, certificate_server

#: CONTRACT section 2: what is built of it so far.
CONTRACT = """
    POST /v1/messages
    GET /v1/messages
    GET /v1/messages/{message_id}
    POST /v1/templates/{key}/versions
    GET /v1/templates
    GET /v1/templates/{key}/versions/{n}
    POST /v1/templates/{key}/versions/{n}/preview
    POST /v1/senders
    GET /v1/senders
    PATCH /v1/senders/{key}
    GET /v1/suppressions
    POST /v1/suppressions
    DELETE /v1/suppressions/{suppression_id}
    GET /v1/suppressions/export
    POST /v1/suppressions/import
    POST /v1/tenants
    GET /v1/tenants
    PATCH /v1/tenants/{tenant_id}
    POST /v1/tenants/{tenant_id}/keys
    GET /v1/tenants/{tenant_id}/keys
    PATCH /v1/tenants/{tenant_id}/keys/{key_id}
    POST /v1/tenants/{tenant_id}/keys/{key_id}/rotate
    DELETE /v1/tenants/{tenant_id}/keys/{key_id}
    GET /v1/operator/ambiguous
    POST /v1/operator/messages/{message_id}/resolution
    GET /v1/operator/providers
    POST /v1/operator/providers/{name}/pause
    POST /v1/operator/providers/{name}/resume
    POST /v1/provider-events/ses
    GET /healthz
    GET /readyz
"""
PROBLEM = "application/problem+json"
DOCUMENT = "urn:document"


@pytest.fixture
async def document(api: Api) -> dict[str, Any]:
    return await document_of(api)


@pytest.fixture
async def operations(document: dict[str, Any]) -> list[Operation]:
    return operations_of(document)


def schema_at(document: Mapping[str, Any], pointer: str) -> Draft202012Validator:
    """Give what judges a value by the schema at a JSON pointer into the document."""
    registry: Registry[Any] = Registry().with_resource(DOCUMENT, DRAFT202012.create_resource(document))
    return Draft202012Validator({"$ref": f"{DOCUMENT}{pointer}"}, registry=registry)


def resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference, if the schema is one."""
    if "$ref" not in schema:
        return schema
    found: Any = document
    for token in schema["$ref"].removeprefix("#/").split("/"):
        found = found[token]
    return dict(found)


def responses(operations: list[Operation]) -> Iterator[tuple[Operation, int, Mapping[str, Any]]]:
    for operation in operations:
        for status, response in operation.raw["responses"].items():
            yield operation, int(status), response


async def test_it_is_valid(document: dict[str, Any]) -> None:
    validate(document)

    assert document["openapi"].startswith("3.1")


async def test_it_has_every_call_of_the_contract(operations: list[Operation]) -> None:
    assert set(CONTRACT.strip().split("\n    ")) <= {operation.name for operation in operations}


async def test_each_call_says_what_it_does(operations: list[Operation]) -> None:
    names = [operation.raw["operationId"] for operation in operations]

    assert len(set(names)) == len(names)
    for operation in operations:
        assert re.fullmatch("[a-z]+(_[a-z]+)*", operation.raw["operationId"])
        assert operation.raw["summary"]
        assert operation.raw["description"].endswith(".")
        assert len(operation.raw["tags"]) == 1


async def test_each_call_names_the_key_and_the_scope_that_open_it(operations: list[Operation]) -> None:
    assert {operation.path for operation in operations if operation.scope is None and not operation.signed} == {
        "/healthz",
        "/readyz",
    }


async def test_every_error_is_a_problem_with_just_the_codes_that_can_occur(
    document: dict[str, Any], operations: list[Operation]
) -> None:
    documented = set()
    for operation, status, response in responses(operations):
        if status < 400 or PROBLEM not in response["content"]:
            # Not ready is an answer of its own, not an error.
            assert status < 400 or operation.name == "GET /readyz"
            continue
        ((media_type, content),) = response["content"].items()
        codes = content["schema"]["properties"]["code"]["enum"]
        assert media_type == PROBLEM
        assert content["schema"]["$ref"] == "#/components/schemas/ProblemBody"
        assert set(content["examples"]) == set(codes)
        assert all(ERRORS[Code(code)][0] == status for code in codes)
        documented |= set(codes)
    # No call that is described has another method.
    assert documented == set(Code) - {Code.METHOD_NOT_ALLOWED}
    assert set(document["components"]["schemas"]["Code"]["enum"]) == set(Code)


async def test_it_names_every_status_and_code_of_sending(operations: list[Operation]) -> None:
    (sending,) = [operation for operation in operations if operation.name == "POST /v1/messages"]

    statuses = {"200", "202", "400", "401", "403", "409", "413", "415", "422", "429", "500", "503"}
    assert set(sending.raw["responses"]) == statuses
    assert sending.codes == set(Code) - {
        Code.NOT_FOUND,
        Code.METHOD_NOT_ALLOWED,
        Code.CURSOR_INVALID,
        Code.SENDER_EXISTS,
        Code.KEY_NOT_ACTIVE,
        Code.NOT_AMBIGUOUS,
        Code.DUPLICATE_RISK_NOT_ACKNOWLEDGED,
        Code.EVENT_INVALID,
        Code.EVENT_UNVERIFIED,
        Code.SUBSCRIPTION_REFUSED,
    }


async def test_each_answer_says_which_headers_come_with_it(
    document: dict[str, Any], operations: list[Operation]
) -> None:
    for operation, status, response in responses(operations):
        headers = {name: resolved(document, header) for name, header in response["headers"].items()}
        required = {name for name, header in headers.items() if header.get("required")}
        expected = {"X-Request-Id"}
        if status == 401:
            expected.add("WWW-Authenticate")
        if status in (429, 503) and operation.name != "GET /readyz":
            expected.add("Retry-After")
        if operation.raw["operationId"] in ("issue_key", "rotate_key") and status == 201:
            expected.add("Cache-Control")
        assert all(header["description"] and header["schema"] for header in headers.values())
        assert required >= expected, f"{operation.name} {status}"


async def test_it_lists_every_state_and_reason(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert set(schemas["State"]["enum"]) == set(State)
    assert set(schemas["Reason"]["enum"]) == set(Reason)
    assert "HTTPValidationError" not in schemas


async def test_every_example_is_one(document: dict[str, Any]) -> None:
    judged = 0
    for pointer, node in schemas_in(document):
        found = []
        if isinstance(node.get("examples"), list):
            found = [(pointer, example) for example in node["examples"]]
        elif "schema" in node:
            media = [each["value"] for each in node.get("examples", {}).values()]
            found = [
                (f"{pointer}/schema", each) for each in [*media, *([node["example"]] if "example" in node else [])]
            ]
        for at, example in found:
            judged += 1
            assert [error.message for error in schema_at(document, at).iter_errors(example)] == [], at

    assert judged > 100


async def test_every_answer_with_a_body_has_an_example(document: dict[str, Any], operations: list[Operation]) -> None:
    for operation, status, response in responses(operations):
        if status == 204:
            assert "content" not in response
            continue
        ((_, content),) = response["content"].items()
        body = resolved(document, content["schema"])
        if "next_cursor" in body.get("properties", {}):
            body = resolved(document, body["properties"]["data"]["items"])
        assert content.get("examples") or body.get("examples"), f"{operation.name} {status}"


async def test_every_link_leads_to_a_call(document: dict[str, Any], operations: list[Operation]) -> None:
    by_id = {operation.raw["operationId"]: operation for operation in operations}
    links = 0
    for operation, _, response in responses(operations):
        for link in response.get("links", {}).values():
            links += 1
            target = by_id[link["operationId"]]
            known = {each["name"]: each["in"] for each in target.raw.get("parameters", ())}
            for name, expression in link.get("parameters", {}).items():
                place, _, bare = name.rpartition(".")
                assert known[bare] == (place or known[bare])
                assert _means_something(document, operation, response, expression), expression
            needed = {each["name"] for each in target.raw.get("parameters", ()) if each["in"] == "path"}
            assert needed <= {name.rpartition(".")[2] for name in link.get("parameters", {})}

    assert links > 10


def _means_something(
    document: Mapping[str, Any], operation: Operation, response: Mapping[str, Any], expression: str
) -> bool:
    """Tell whether a runtime expression names something that the request or the answer has."""
    source, _, name = expression.partition("#/" if "#" in expression else "path.")
    if source == "$response.body":
        (content,) = response["content"].values()
        return name in resolved(document, content["schema"])["required"]
    return source == "$request." and f"{{{name}}}" in operation.path


async def test_every_example_of_a_request_is_taken(
    document: dict[str, Any], operations: list[Operation], api: Api, superuser: asyncpg.Connection
) -> None:
    tries = [(operation, body) for operation in operations if not operation.signed for body in operation.bodies()]
    for number, (operation, body) in enumerate(tries):
        tenant_id = TenantId(f"fresh-{number}")
        makes_a_sender = operation.raw["operationId"] == "create_sender"
        ids = await furnish(superuser, tenant_id, sender="other" if makes_a_sender else "demo")
        scope = operation.scope
        api.key = await make_key(superuser, None if scope == "operator" else tenant_id, scopes=[scope or "templates"])

        content, kind = operation.written(body)
        headers = api.authorized(operation.headers() | kind)
        answer = await api.http.request(operation.method, operation.at(ids), headers=headers, content=content)

        assert answer.status_code in operation.successes, f"{operation.name}: {answer.text}"
        _assert_described(document, operation, answer)


async def test_whatever_sns_posts_is_answered_as_described(
    document: dict[str, Any], operations: list[Operation], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_ENVIRONMENT", "test")
    (operation,) = [each for each in operations if each.signed]
    statuses = []
    async with certificate_server() as publisher:
        lost = replace(publisher, origin=f"http://127.0.0.1:{free_port()}")
        for sender, bodies in {
            publisher: [
                publisher.notification(publisher.event("send", None)),
                publisher.notification("Successfully validated SNS topic for Amazon SES event publishing."),
                publisher.confirmation(),
                operation.bodies()[0].encode(),
                replace(publisher, topic=f"{TOPIC}-of-somebody-else").notification("{}"),
                b" " * (MAX_BYTES + 1),
            ],
            lost: [lost.notification("{}")],
        }.items():
            certificates = Certificates()
            verifier = Verifier(EventSettings(topics=TOPIC, certificate_origin=sender.origin), certificates)
            async with serving(database.url("fencepost_api"), "", verifier=verifier) as api:
                for body in bodies:
                    answer = await api.http.post(operation.path, content=body)

                    _assert_described(document, operation, answer)
                    statuses.append(answer.status_code)
            await certificates.aclose()

    assert statuses == [200, 200, 200, 400, 403, 413, 503]
    assert {str(status) for status in statuses} | {"500"} == set(operation.raw["responses"])


def _assert_described(document: Mapping[str, Any], operation: Operation, answer: httpx.Response) -> None:
    path = operation.path.replace("~", "~0").replace("/", "~1")
    at = f"#/paths/{path}/{operation.method}/responses/{answer.status_code}"
    response = operation.raw["responses"][str(answer.status_code)]
    for name, header in response["headers"].items():
        assert name in answer.headers or not resolved(document, header).get("required")
    assert {name.lower() for name in response["headers"]} >= set(answer.headers) - {"content-type", "content-length"}
    if "content" in response:
        ((media_type, _),) = response["content"].items()
        is_csv = media_type == "text/csv"
        assert answer.headers["content-type"] == (f"{media_type}; charset=utf-8" if is_csv else media_type)
        shown = answer.text if is_csv else answer.json()
        schema_at(document, f"{at}/content/{media_type.replace('/', '~1')}/schema").validate(shown)


async def test_nothing_in_it_looks_like_somebody_s(document: dict[str, Any]) -> None:
    text = json.dumps(document)

    # `a@b.c` stands for the form of an address.
    assert set(re.findall(r"[\w.+*-]+@([\w-]+(?:\.[\w-]+)+)", text)) <= {"example.com", "b.c"}
    assert not any(keys.parse(word) for word in re.findall(r"\w+", text))


async def test_every_pattern_is_one_that_all_clients_read_alike(document: dict[str, Any]) -> None:
    patterns = [node["pattern"] for _, node in schemas_in(document) if isinstance(node.get("pattern"), str)]

    assert len(patterns) > 20
    for pattern in patterns:
        re.compile(pattern)
        # What these classes hold, and how longer escapes are written, differs from one dialect to the next.
        assert not re.search(r"\\[dDwWsSbBUxpPAZz]|\(\?[a-zA-Z]", pattern), pattern
        # A pattern is found anywhere if it isn't anchored; one that is a single class means just that.
        assert re.fullmatch(r"\^.*\$|\[[^\]]*\]", pattern), pattern


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_status_and_a_title(code: Code) -> None:
    status, title = ERRORS[code]

    assert 400 <= status < 600
    assert title.endswith((".", "fp_..."))


async def test_the_documentation_page_loads_nothing_from_elsewhere(api: Api) -> None:
    page: httpx.Response = await api.http.get("/docs")

    assert page.status_code == 200
    assert "https://" not in page.text
