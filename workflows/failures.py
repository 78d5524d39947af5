"""What Temporal may learn of a failed activity: a code. No exception's text ever reaches a history or its logs."""

from typing import Any

import structlog
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)
from typing_extensions import override

from db.engine import UnavailableError
from db.transaction import UnknownMessageError

_log = structlog.get_logger(__name__)


class SanitizeFailures(Interceptor):
    """Stands around every activity of a worker; none can be written that forgets it."""

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Sanitizing(next)


class _Sanitizing(ActivityInboundInterceptor):
    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        code, final = "internal", False
        try:
            return await super().execute_activity(input)
        except UnavailableError:
            code = "unavailable"
        except UnknownMessageError:
            code, final = "unknown_message", True
        except Exception as error:  # noqa: BLE001
            # The kind says enough to find it; its text can hold a row.
            _log.error("activity_failed", error=type(error).__name__, activity=input.fn.__name__)
        # `from None`, and outside of the except block: else the cause would go into the history in clear.
        raise ApplicationError(code, type=code, non_retryable=final) from None
