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
    """Give the raw body of a JSON request, see `read_body`."""
    return await read_body(request, "application/json")


async def read_body(request: Request, media_type: str) -> bytes:
    """Give the raw body of a request. Raises 415 for another type, and 413 before more than the limit is read."""
    kinds = [kind.partition(";")[0].strip(" \t").lower() for kind in request.headers.getlist("content-type")]
    if kinds != [media_type]:
        raise Problem(Code.UNSUPPORTED_MEDIA_TYPE)
    return await read_raw_body(request, at_most=MAX_BODY)


async def read_raw_body(request: Request, *, at_most: int) -> bytes:
    """Give the raw body of a request, of at most so many bytes. Raises 413 before more is read."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > at_most:
        raise Problem(Code.REQUEST_TOO_LARGE)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > at_most:
            raise Problem(Code.REQUEST_TOO_LARGE)
    return bytes(body)
