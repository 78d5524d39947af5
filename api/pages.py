"""Lists, a page at a time: what a query may say, the cursor that goes on from it, and the answer's shape."""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.faults import FaultCode
from api.fields import Fields
from api.problems import Code, Problem

MAX_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 50
_MAC_BYTES: Final = 16

Item = TypeVar("Item", bound=BaseModel)
Found = TypeVar("Found")


class PageBody(BaseModel, Generic[Item]):
    """A page of a list."""

    data: list[Item]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


#: For OpenAPI: what every list may be asked, and what it says about its next page.
PAGE_PARAMETERS: Final[list[dict[str, Any]]] = [
    {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    },
    {
        "name": "cursor",
        "in": "query",
        "description": "`next_cursor` of the page before, with the same filters.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
    },
]
LINK_HEADER: Final = {
    "Link": {
        "description": 'The next page, `<...>; rel="next"` (RFC 8288); absent at the end.',
        "schema": {"type": "string", "pattern": '^<[^>]+>; rel="next"$'},
    }
}


class Query(Fields):
    """The parameters of a list's query, each given once at most. A fault's pointer is `/` and the parameter's name.

    Attributes:
        given: Every parameter, as text.
        limit: How many items the page has.

    """

    def __init__(self, request: Request, known: Collection[str] = ()) -> None:
        super().__init__()
        self.given = dict(request.query_params)
        if not {*known, "limit", "cursor"}.issuperset(self.given):
            self.fault("", FaultCode.UNKNOWN_FIELD, "The query has a parameter that this call doesn't know.")
        elif len(self.given) != len(request.query_params.multi_items()):
            self.fault("", FaultCode.DUPLICATE, "The query gives a parameter twice.")
        self.limit = self._limit()

    @property
    def at_most(self) -> int:
        """One item more than the page has, which tells whether there is a next one."""
        return self.limit + 1

    def _limit(self) -> int:
        text = self.given.get("limit", str(DEFAULT_LIMIT))
        if not re.fullmatch("[0-9]{1,3}", text) or not 1 <= int(text) <= MAX_LIMIT:
            self.fault("/limit", FaultCode.OUT_OF_RANGE, f"The limit is between 1 and {MAX_LIMIT}.")
        return int(text) if re.fullmatch("[0-9]{1,3}", text) else DEFAULT_LIMIT


class Cursors:
    """Writes and reads cursors: the place after a page's last item, sealed with the list, its owner and its filters.

    Args:
        key: Seals them; the same in all API processes.

    """

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"fencepost list cursors", hashlib.sha256)

    def write(self, query: Query, *, of: str, place: Sequence[str]) -> str:
        """Return the cursor for what comes after `place` in the list `of` (its name and its owner's)."""
        seen = json.dumps(list(place)).encode()
        return base64.urlsafe_b64encode(self._seal(query, of, seen) + seen).decode().rstrip("=")

    def read(self, query: Query, *, of: str) -> list[str] | None:
        """Return the place that the query's cursor holds; None if it has none.

        Raises `cursor_invalid` if it was tampered with, or is another tenant's, another list's or of other filters.
        """
        text = query.given.get("cursor")
        if text is None:
            return None
        try:
            whole = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise Problem(Code.CURSOR_INVALID) from None
        seal, seen = whole[:_MAC_BYTES], whole[_MAC_BYTES:]
        # The last digit has bits to spare: another one could stand for the same bytes.
        exact = base64.urlsafe_b64encode(whole).decode().rstrip("=") == text
        if not exact or not hmac.compare_digest(seal, self._seal(query, of, seen)):
            raise Problem(Code.CURSOR_INVALID)
        place: list[str] = json.loads(seen)
        return place

    def _seal(self, query: Query, of: str, seen: bytes) -> bytes:
        filters = sorted((name, text) for name, text in query.given.items() if name not in ("limit", "cursor"))
        sealed = json.dumps(["v1", of, filters]).encode() + b"\n" + seen
        return hmac.digest(self._key, sealed, hashlib.sha256)[:_MAC_BYTES]


def page(
    request: Request,
    query: Query,
    found: Sequence[Found],
    *,
    of: str,
    show: Callable[[Found], BaseModel],
    place: Callable[[Found], Sequence[str]],
) -> JSONResponse:
    """Answer with a page, and say in `Link` where the next one is (RFC 8288).

    Args:
        request: What is answered.
        query: Its query; the page has as many items as it asks for.
        found: Up to one item more than the page has (`Query.at_most`), which tells whether there is a next one.
        of: The list's name and its owner's, as for `Cursors`.
        show: Makes the answer's item of a found one.
        place: Says where a found item stands in the list; what the next page's cursor holds.

    """
    shown = found[: query.limit]
    headers = {}
    next_cursor = None
    if len(found) > query.limit:
        next_cursor = cast("Cursors", request.app.state.cursors).write(query, of=of, place=place(shown[-1]))
        where = urlencode({**query.given, "cursor": next_cursor})
        headers["Link"] = f'<{quote(request.scope["path"])}?{where}>; rel="next"'
    content = {
        "data": [show(item).model_dump(mode="json", by_alias=True) for item in shown],
        "next_cursor": next_cursor,
    }
    return JSONResponse(content, headers=headers)
