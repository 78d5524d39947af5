"""What stands around every request: an id, and one line in the log that names the route and nothing of the input."""

import time
from uuid import uuid4

import structlog
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import Code, Problem, answer

_log = structlog.get_logger("api")


class RequestLog:
    """Pure ASGI: a middleware that wraps handlers in tasks would cancel an accepted command with its connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid4().hex
        scope["fencepost.request_id"] = request_id
        status = 500
        answering = False
        begun = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status, answering
            if message["type"] == "http.response.start":
                status, answering = message["status"], True
                message = {**message, "headers": [*message["headers"], (b"x-request-id", request_id.encode())]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            # Nobody is there to be answered; nginx's number for it.
            status = 499
        except Exception as error:
            _log.exception("request_failed", request_id=request_id, error=type(error).__name__)
            if answering:
                raise
            await answer(Request(scope), Problem(Code.INTERNAL))(scope, receive, send_with_id)
        finally:
            route = scope.get("route")
            _log.info(
                "request_served",
                request_id=request_id,
                method=scope["method"],
                # The route's own pattern: a path can hold anything that somebody typed.
                route=getattr(route, "path", None),
                status=status,
                milliseconds=round((time.perf_counter() - begun) * 1000, 1),
            )
