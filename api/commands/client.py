"""The API's client: one call, and how what the API refuses becomes a line that names the fix."""

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from api.commands.refusals import BAD_USE, refuse, run, say
from api.commands.surroundings import find_dev_stack

if TYPE_CHECKING:
    import httpx

#: What a call asks of a key (CONTRACT section 2). The last one is an operator's, all others are tenants'.
SEND: Final = "messages:send"
READ: Final = "messages:read"
TEMPLATES: Final = "templates"
SENDERS: Final = "senders"
SUPPRESSIONS: Final = "suppressions"
OPERATOR: Final = "operator"
#: For a connection, and for each read of an answer.
TIMEOUT_SECONDS: Final = 10.0
#: The most that a list gives at once (CONTRACT section 2).
MAX_LIMIT: Final = 100
#: A person who waits longer than this is told what for.
PATIENCE_SECONDS: Final = 2.0

#: What mends a refusal, by its code; where that takes more than these words, it is in `Api._fix`.
_FIXES: Final = {
    "not_found": "is the id right, and does it belong to this key's tenant?",
    "template_not_found": "`fencepost template list` shows what there is.",
    "sender_not_found": "`fencepost sender list` shows what there is.",
    "sender_disabled": "`fencepost sender enable KEY` switches it on.",
    "tenant_disabled": "an operator switches it on: `fencepost tenant enable ID`.",
    "idempotency_conflict": "give another command another --idempotency-key.",
    "not_ambiguous": "`fencepost ambiguous list` shows what waits for a person, and which attempt.",
    "duplicate_risk_not_acknowledged": "if that is accepted, say --acknowledge-duplicate-risk.",
}


class RefusedError(Exception):
    """The API said no, or nothing that is the API's.

    Attributes:
        line: What to tell the person; nothing of the request stands in it.
        details: More lines, one for each fault.
        away: Nobody answered, or nobody could: asking again may help.
        perhaps_done: It may have been done all the same.

    """

    def __init__(
        self, line: str, *, details: Sequence[str] = (), away: bool = False, perhaps_done: bool = False
    ) -> None:
        super().__init__(line)
        self.line = line
        self.details = tuple(details)
        self.away = away
        self.perhaps_done = perhaps_done


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A list as far as it was read; `next_cursor` is None at its end."""

    data: list[dict[str, Any]]  # as JSON has it
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """Calls the API with one key. Raises RefusedError."""

    http: "httpx.Client" = field(repr=False)
    url: str
    scopes: tuple[str, ...]

    def call(
        self,
        method: str,
        path: str,
        *gives: str,
        body: Mapping[str, Any] | None = None,
        csv: str | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Make one call, and give the status and the object that the API answered (empty for 204).

        Args:
            method: Of HTTP.
            path: From `/v1` on; its variable parts were quoted with `segment`.
            gives: The members of the answer that the caller can't do without.
            body: JSON.
            csv: In place of JSON.
            query: Parameters.
            headers: Besides the key and the content type.

        """
        content = json.dumps(body) if body is not None else csv
        kind = {} if content is None else {"Content-Type": "application/json" if csv is None else "text/csv"}
        with self._answered(), patience(f"waiting for the API at {self.url} ..."):
            answer = self.http.request(
                method, f"{self.url}{path}", content=content, params=query, headers={**kind, **(headers or {})}
            )
        return answer.status_code, self._read(answer, gives)

    @contextmanager
    def download(self, path: str) -> Iterator[Iterator[str]]:
        """Give the text of a CSV list as it comes; it is whole where the block ends without a refusal."""
        with self._answered(), self.http.stream("GET", f"{self.url}{path}", headers={"Accept": "text/csv"}) as answer:
            if not answer.is_success:
                answer.read()
                self._read(answer, ())
            if not answer.headers.get("content-type", "").startswith("text/csv"):
                raise self._of_another(answer)
            yield answer.iter_text()

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Turn a connection that doesn't come about, or breaks, into a refusal."""
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            line = f"the API can't be reached at {self.url}: is it running, and is FENCEPOST_API_URL right?"
            raise RefusedError(line, away=True) from None
        except httpx.RequestError:
            line = f"the API at {self.url} gave no whole answer: is it running, and is FENCEPOST_API_URL right?"
            raise RefusedError(line, away=True, perhaps_done=True) from None

    def get(self, path: str, *gives: str) -> dict[str, Any]:
        """Read one thing."""
        return self.call("GET", path, *gives)[1]

    def pages(self, path: str, query: Mapping[str, str] | None = None, *, limit: int | None = None) -> Page:
        """Read a list, page by page, to its end or to the limit."""
        data: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            wanted = MAX_LIMIT if limit is None else min(MAX_LIMIT, limit - len(data))
            asked = {**(query or {}), **cursor, "limit": str(wanted)}
            _, page = self.call("GET", path, "data", "next_cursor", query=asked)
            data += page["data"]
            if page["next_cursor"] is None or (limit is not None and len(data) >= limit):
                return Page(data=data, next_cursor=page["next_cursor"])
            cursor = {"cursor": page["next_cursor"]}

    def _read(self, answer: "httpx.Response", gives: Sequence[str]) -> dict[str, Any]:
        try:
            body = answer.json() if answer.content else {}
        except ValueError:
            body = None
        wanted = gives if answer.is_success else ("title", "code", "request_id")
        unsure = not answer.is_client_error
        if not isinstance(body, dict) or not body.keys() >= set(wanted):
            raise self._of_another(answer)
        if answer.is_success:
            return body
        fix = self._fix(body["code"], answer.headers.get("retry-after", ""))
        raise RefusedError(
            f"{body['title']} ({body['code']}, request {body['request_id']}) {fix}".rstrip(),
            details=[f"{fault['pointer'] or 'the body'}: {fault['detail']}" for fault in body.get("errors", ())],
            away=unsure,
            perhaps_done=unsure,
        )

    def _of_another(self, answer: "httpx.Response") -> RefusedError:
        unsure = not answer.is_client_error
        line = f"what answers at {self.url} (with {answer.status_code}) isn't this API: is FENCEPOST_API_URL right?"
        return RefusedError(line, away=unsure, perhaps_done=unsure)

    def _fix(self, code: str, retry_after: str) -> str:
        operator = self.scopes == (OPERATOR,)
        match code:
            case "unauthenticated":
                variable = "FENCEPOST_OPERATOR_KEY" if operator else "FENCEPOST_API_KEY"
                return f"Fix: set {variable} to a key that is valid here."
            case "forbidden" if operator:
                return "Fix: this command needs an operator's key in FENCEPOST_OPERATOR_KEY."
            case "forbidden":
                return f"Fix: this command needs a key with {' and '.join(self.scopes)} in FENCEPOST_API_KEY."
            case "not_found" if operator:
                return (
                    "Fix: is it right? `fencepost tenant list`, `key list`, `ambiguous list`, `provider list`,"
                    " `events confirm --list` show all."
                )
            case "rate_limited" | "unavailable" if retry_after.isdecimal():
                return f"Fix: try again in {retry_after} s."
            case _:
                return f"Fix: {_FIXES[code]}" if code in _FIXES else ""


def segment(text: str) -> str:
    """Quote a variable part of a path."""
    return quote(text, safe="", errors="surrogateescape")


@contextmanager
def connected(*scopes: str) -> Iterator[Api]:
    """Give a client with the key for these scopes; whatever the API refuses ends the command."""
    import httpx

    from api.commands.settings import ClientSettings

    find_dev_stack()
    settings = run(ClientSettings, lambda: (ClientSettings,))
    operator = scopes == (OPERATOR,)
    key = (settings.operator_key if operator else None) or settings.api_key
    if key is None:
        wanted = "FENCEPOST_OPERATOR_KEY to an operator's" if operator else "FENCEPOST_API_KEY to a tenant's"
        refuse(f"an API key is missing: set {wanted}", status=BAD_USE)
    with httpx.Client(
        headers={"Authorization": f"Bearer {key.get_secret_value()}", "Accept": "application/json"},
        timeout=TIMEOUT_SECONDS,
        trust_env=False,
        follow_redirects=False,
    ) as http:
        try:
            yield Api(http=http, url=settings.api_url, scopes=scopes)
        except RefusedError as refusal:
            refuse(refusal.line, *refusal.details)


@contextmanager
def once(look: str) -> Iterator[None]:
    """Make a call that makes something new each time: where it may have been done, say which command shows that."""
    try:
        yield
    except RefusedError as refusal:
        if refusal.perhaps_done:
            refuse(refusal.line, f"it may have been done all the same: look at `{look}` before you repeat it")
        raise


@contextmanager
def patience(text: str) -> Iterator[None]:
    """Tell a person at a terminal what they wait for, if the block takes long."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(PATIENCE_SECONDS, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
