"""Logs of every process: one JSON object a line, with names and codes, and never the text of an exception.

An exception's text can hold what must not be shown: a row (asyncpg), an address (botocore), a template's context.
"""

import logging
import sys
import traceback
from types import TracebackType
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger


def _frames(trace: TracebackType | None) -> list[str]:
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]


def _without_text(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace an exception by its kind and the places it came through."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    elif isinstance(info, BaseException):
        info = (type(info), info, info.__traceback__)
    if isinstance(info, tuple) and info[0] is not None:
        event["exception"] = info[0].__name__
        event["frames"] = _frames(info[2])
    event.pop("stack_info", None)
    return event


def set_up(process: str, *, level: str = "INFO") -> None:
    """Send all logs of this process to standard error, as JSON.

    Args:
        process: Stands in each line.
        level: The least level. `temporalio` stays at WARNING or above: at DEBUG it prints whole completions.

    """

    def named(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        return {"process": process, **event}

    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_text,
        named,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("temporalio", "botocore", "boto3", "urllib3", "asyncio", "httpx", "alembic"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
