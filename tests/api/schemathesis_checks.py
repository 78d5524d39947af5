"""What schemathesis checks of each answer besides its own checks; it loads this file itself (schemathesis.toml)."""

import re
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, Response, SerializationContext

from api.faults import FaultCode
from api.problems import Code

#: Faults of a request that fits its schema, by where they may be: rules that JSON Schema can't say.
BEYOND_A_SCHEMA = {
    FaultCode.ADDRESS_INVALID: ".*",  # RFC 5321, IDNA 2008, and domains that nobody can have
    FaultCode.TOO_LONG: "/(to|cc|bcc|reply_to)(/.*)?",  # the parts of `Name <a@b.c>`
    FaultCode.TOO_MANY: "",  # recipients, in three lists together
    FaultCode.DUPLICATE: "/(headers|reason)",  # in another letter case; in the query and in the body
    FaultCode.CSV_MALFORMED: "",
    FaultCode.CSV_HEADER: "",
    FaultCode.JSON_NUMBER: "",  # an integer that a double can't hold
    FaultCode.OUT_OF_RANGE: "/expires_at",  # passed
    FaultCode.SCHEMA_INVALID: "/context_schema.*",
    FaultCode.SUBJECT_NOT_ONE_LINE: "/subject",  # once it is rendered
    FaultCode.REQUIRED: "/(html|reason)",  # HTML that shows no text, with no text beside it; a reason in query or body
    FaultCode.TEMPLATE_TOO_COSTLY: "/(subject|text|html|context_schema)",
    FaultCode.TEMPLATE_SYNTAX: "/(subject|text|html)",
    FaultCode.TEMPLATE_UNDEFINED: "/(subject|text|html)",
}
#: What a version's own schema says of a context, and what its templates can do with one.
OF_A_TEMPLATE = "/context(/.*)?"


@schemathesis.serializer("text/csv")
def as_it_is(_: SerializationContext, value: object) -> bytes:
    """Send a list as the text that was made up for it."""
    return str(value).encode(errors="surrogatepass")


@schemathesis.check
def what_fits_its_schema_is_refused_for_known_reasons_only(
    _: CheckContext, response: Response, case: Case[Any]
) -> None:
    """Narrow down what schemathesis.toml lets through of `positive_data_acceptance`."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code not in (400, 422):
        return
    problem = response.json()
    # Nobody can make a cursor up, or what SNS signs.
    known = problem["code"] in (Code.CURSOR_INVALID, Code.EVENT_INVALID) or all(
        re.fullmatch(OF_A_TEMPLATE, fault["pointer"])
        or re.fullmatch(BEYOND_A_SCHEMA.get(fault["code"], "(?!)"), fault["pointer"])
        for fault in problem.get("errors", [{"code": "", "pointer": ""}])
    )
    if not known:
        raise AssertionError(f"This fits its schema: {response.text}")


@schemathesis.check
def an_error_names_its_request(_: CheckContext, response: Response, __: Case[Any]) -> None:
    """Compare `request_id` with the header of the same answer."""
    is_problem = response.headers.get("content-type") == ["application/problem+json"] and response.content
    if is_problem and response.headers["x-request-id"] != [response.json()["request_id"]]:
        raise AssertionError("Another request id than in X-Request-Id")
