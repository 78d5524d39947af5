"""The page in a browser: the mail that was submitted, newest first, and each one with its text, HTML and headers."""

import base64
import hashlib
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Path as PathParameter
from fastapi.responses import HTMLResponse
from minijinja import Environment

from dev.simulator import publications
from dev.simulator.endpoint import HOST, Endpoint
from dev.simulator.record import Record

MAX_LISTED: Final = 200

# SQLite's largest integer.
_MAX_ID: Final = 2**63 - 1

_TEMPLATES: Final = {
    path.name: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "templates").iterdir()
}
# Templates whose name ends in .html escape every value.
_PAGES: Final = Environment(templates=_TEMPLATES, undefined_behavior="strict", debug=False)

_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_TEMPLATES["style.css"].encode()).digest()).decode()
_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src {style}"
_STRICT_POLICY: Final = _POLICY.format(style=f"'sha256-{_STYLE_HASH}'")
# The frame with a mail's HTML inherits the page's policy, and mails style themselves and embed pictures.
_MAIL_POLICY: Final = _POLICY.format(style="'unsafe-inline'") + "; img-src data:"

# The frame has a policy of its own besides, so that its content stays shut in whatever a browser inherits.
_FRAME_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_FRAME_HEAD: Final = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_FRAME_POLICY}">'


def page_routes(record: Record, endpoint: Endpoint) -> APIRouter:
    """Return the routes that a person meets."""
    router = APIRouter(default_response_class=HTMLResponse)

    @router.get("/")
    async def mails() -> HTMLResponse:
        return _page(
            "mails.html",
            submissions=await record.newest(MAX_LISTED),
            max_listed=MAX_LISTED,
            endpoint_url=f"http://{HOST}:{endpoint.port}",
            listening=endpoint.listening,
        )

    @router.get("/mail/{submission_id:int}")
    async def mail(submission_id: Annotated[int, PathParameter(le=_MAX_ID)]) -> HTMLResponse:
        submission = await record.find(submission_id)
        if submission is None:
            return _page("missing.html", status=HTTPStatus.NOT_FOUND)
        return _page(
            "mail.html",
            policy=_MAIL_POLICY,
            submission=submission,
            publications=await record.run(publications.of_submission, submission_id),
            frame_head=_FRAME_HEAD,
        )

    return router


def _page(
    template: str, *, policy: str = _STRICT_POLICY, status: HTTPStatus = HTTPStatus.OK, **context: object
) -> HTMLResponse:
    return HTMLResponse(
        _PAGES.render_template(template, style=_TEMPLATES["style.css"], **context),
        status_code=status,
        headers={
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        },
    )
