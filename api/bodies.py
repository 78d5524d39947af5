"""Reading a request's body: the right type, and never more than it may be."""

from typing import Final

from fastapi import Request

from api.problems import Code, Problem

#: CONTRACT: times and limits.
MAX_BODY: Final = 256 * 1024


def has_body(request: Request) -> bool:
    """Tell whether a request comes with a body (RFC 9112 section 6.3)."""
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


async def read_json_body(request: Request) -> bytes:
    """Give the raw body of a JSON request. Raises 415 for another type, and 413 before more than the limit is read."""
    kinds = [kind.partition(";")[0].strip(" \t").lower() for kind in request.headers.getlist("content-type")]
    if kinds != ["application/json"]:
        raise Problem(Code.UNSUPPORTED_MEDIA_TYPE)
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > MAX_BODY:
        raise Problem(Code.REQUEST_TOO_LARGE)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise Problem(Code.REQUEST_TOO_LARGE)
    return bytes(body)
