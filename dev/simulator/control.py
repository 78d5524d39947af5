"""The control calls: read the record, stop and start the endpoint, slow it down, forget everything."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from dev.simulator.endpoint import Endpoint
from dev.simulator.event_calls import event_routes
from dev.simulator.page import page_routes
from dev.simulator.publisher import Publisher
from dev.simulator.record import Record, Submission


class Delay(BaseModel):
    """How long every answer takes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    ms: Annotated[int, Field(ge=0, le=600_000)]


def create_app(record: Record, endpoint: Endpoint, publisher: Publisher | None) -> FastAPI:
    """Return the application behind the simulator's page, record and control calls."""
    app = FastAPI(title="SES simulator", openapi_url=None)
    app.include_router(page_routes(record, endpoint))
    app.include_router(_control_routes(record, endpoint, publisher), prefix="/_sim")
    app.include_router(event_routes(record, publisher))
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    return app


def _control_routes(record: Record, endpoint: Endpoint, publisher: Publisher | None) -> APIRouter:
    router = APIRouter()

    @router.get("/submissions")
    async def submissions(tag: Annotated[str | None, Query()] = None) -> dict[str, list[dict[str, object]]]:
        wanted = None if tag is None else _name_and_value(tag)
        return {"data": [_listed(submission) for submission in await record.submissions(wanted)]}

    @router.post("/stop")
    async def stop() -> dict[str, bool]:
        await endpoint.stop()
        return {"listening": endpoint.listening}

    @router.post("/start")
    async def start() -> dict[str, bool]:
        await _start(endpoint)
        return {"listening": endpoint.listening}

    @router.post("/delay")
    async def delay(body: Delay) -> Delay:
        endpoint.delay = body.ms / 1000
        return body

    @router.post("/reset")
    async def reset() -> dict[str, bool]:
        await record.clear()
        if publisher is not None:
            await publisher.forget()
        endpoint.delay = 0.0
        await _start(endpoint)
        return {"listening": endpoint.listening}

    return router


async def _start(endpoint: Endpoint) -> None:
    try:
        await endpoint.start()
    except OSError as error:
        text = f"Port {endpoint.port} has been taken by another program."
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text) from error


def _name_and_value(tag: str) -> tuple[str, str]:
    name, colon, value = tag.partition(":")
    if not (name and colon and value):
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "tag: give it as NAME:VALUE.")
    return name, value


def _listed(submission: Submission) -> dict[str, object]:
    """Return a submission as CONTRACT.md section 4 shows it."""
    request = submission.request
    message = request.content.simple
    return {
        "id": submission.id,
        "at": submission.at,
        "tags": request.tags,
        "to": request.destination.to_addresses,
        "cc": request.destination.cc_addresses,
        "bcc": request.destination.bcc_addresses,
        "from": request.from_email_address,
        "reply_to": request.reply_to_addresses,
        "subject": message.subject.data if message else None,
        "headers": {header.name: header.value for header in message.headers} if message else {},
        "answer": submission.answer,
        "ses_message_id": submission.ses_message_id,
    }


async def _bad_request(_: Request, error: Exception) -> JSONResponse:
    """Say in one sentence what is wrong, without repeating what was asked."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    text = "; ".join(f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults)
    return JSONResponse({"message": text}, HTTPStatus.UNPROCESSABLE_ENTITY)


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, StarletteHTTPException):
        raise error
    return JSONResponse({"message": error.detail}, error.status_code, error.headers)
