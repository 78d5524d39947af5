"""OpenAPI is a document, and true of the calls that there are."""

import httpx
import pytest
from openapi_spec_validator import validate

from api.problems import ERRORS, Code
from db.lifecycle import State
from db.outcomes import Reason
from tests.api.conftest import Api


async def test_it_is_valid(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()

    validate(document)
    assert document["openapi"].startswith("3.1")


async def test_it_names_every_status_and_code_of_sending(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()

    responses = document["paths"]["/v1/messages"]["post"]["responses"]
    documented = {
        code
        for response in responses.values()
        for code in response["content"].get("application/problem+json", {}).get("examples", {})
    }
    assert set(responses) == {"200", "202", "400", "401", "403", "409", "413", "415", "422", "429", "500", "503"}
    assert documented == set(Code) - {Code.NOT_FOUND, Code.METHOD_NOT_ALLOWED, Code.CURSOR_INVALID}


async def test_it_lists_every_state_and_reason(api: Api) -> None:
    schemas = (await api.http.get("/openapi.json")).json()["components"]["schemas"]

    assert set(schemas["State"]["enum"]) == set(State)
    assert set(schemas["Reason"]["enum"]) == set(Reason)
    assert "HTTPValidationError" not in schemas


async def test_every_v1_call_says_that_it_needs_a_key(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()

    for path, calls in document["paths"].items():
        for call in calls.values():
            assert ("security" in call) == path.startswith("/v1/")


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_status_and_a_title(code: Code) -> None:
    status, title = ERRORS[code]

    assert 400 <= status < 600
    assert title.endswith((".", "fp_..."))


async def test_the_documentation_page_loads_nothing_from_elsewhere(api: Api) -> None:
    page: httpx.Response = await api.http.get("/docs")

    assert page.status_code == 200
    assert "https://" not in page.text
