"""botocore's HTTP connections with two things added: a wall-clock end, and a witness of whether a byte was sent.

`read_timeout` is per read, so an answer that drips one byte at a time never meets it: the watch shuts the socket at
the deadline instead. The same gate stands before the first byte: a call that is late sends nothing.
"""

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from db.crash_points import CrashPoint, passing

_of_this_thread = threading.local()


class TooLateError(Exception):
    """The deadline was over before the first byte: nothing was sent."""


class Watch:
    """Watches the one request that its thread makes between `with` and its end.

    Args:
        deadline: The moment of `time.monotonic()` at which the socket is shut.

    """

    def __init__(self, deadline: float) -> None:
        self.sent = False  #: a byte of the request may have left
        self.fired = False  #: the deadline came before the end
        self._deadline = deadline
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(max(deadline - time.monotonic(), 0), self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        _of_this_thread.watch = self
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._socket = None
        _of_this_thread.watch = None

    def let_go(self, connected: socket.socket) -> None:
        """Let the first byte out on this socket, or raise TooLateError."""
        with self._lock:
            if self.fired or time.monotonic() >= self._deadline:
                raise TooLateError
            self._socket = connected
            self.sent = True

    def _expire(self) -> None:
        with self._lock:
            self.fired = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it may be closed already
                    # The plain socket's own shutdown: TLS's would take the connection apart under the reader.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Watched:
    """What both kinds of connection add to botocore's."""

    sock: Any
    longest_rest: float
    _rests_since: float = 0.0

    def request(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  (botocore's signature)
        if self.sock is not None and time.monotonic() - self._rests_since > self.longest_rest:
            self.close()
        super().request(*arguments, **named)  # type: ignore[misc]  # a mixin: the connection is beside it
        passing(CrashPoint.REQUEST_SENT)

    def send(self, data: Any) -> Any:  # noqa: ANN401  (botocore's signature)
        watch: Watch | None = getattr(_of_this_thread, "watch", None)
        if watch is None:
            raise TooLateError  # an unwatched request is a mistake of ours, and must not reach the provider
        if not watch.sent:
            if self.sock is None:
                self.connect()
            watch.let_go(self.sock)
        self._rests_since = time.monotonic()
        sent = super().send(data)  # type: ignore[misc]  # a mixin: the connection is beside it
        passing(CrashPoint.HEADERS_SENT)  # which urllib3 sends apart, and first
        return sent

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # a mixin: the connection is beside it

    def close(self) -> None:
        super().close()  # type: ignore[misc]  # a mixin: the connection is beside it


def _pools(longest_rest: float) -> dict[str, type[Any]]:
    """Build the pools of one client."""

    class WatchedHTTPConnection(_Watched, AWSHTTPConnection):  # type: ignore[misc]  # as botocore's own bases
        pass

    class WatchedHTTPSConnection(_Watched, AWSHTTPSConnection):  # type: ignore[misc]  # as botocore's own bases
        pass

    class WatchedHTTPPool(AWSHTTPConnectionPool):
        ConnectionCls = WatchedHTTPConnection  # type: ignore[mutable-override]  # urllib3's way to set it

    class WatchedHTTPSPool(AWSHTTPSConnectionPool):
        ConnectionCls = WatchedHTTPSConnection  # type: ignore[mutable-override]  # urllib3's way to set it

    for connection in (WatchedHTTPConnection, WatchedHTTPSConnection):
        connection.longest_rest = longest_rest
    return {"http": WatchedHTTPPool, "https": WatchedHTTPSPool}


def install(client: Any, *, longest_rest: float) -> None:  # noqa: ANN401  (boto3's clients have no type)
    """Make every connection of this client a watched one.

    botocore has no public way to it. Where its inside has changed, this raises at start-up; and a connection that
    slipped through would fail the tests that count what was read.

    Args:
        client: A boto3 client.
        longest_rest: Seconds after which a kept connection is opened anew: the provider may be about to close it, and
            a request that is lost to that looks just like one that was taken.

    """
    session = client._endpoint.http_session  # noqa: SLF001
    pools = _pools(longest_rest)
    if set(session._pool_classes_by_scheme) != set(pools):  # noqa: SLF001
        raise RuntimeError("botocore's HTTP session has changed: the provider's calls can't be watched")
    session._pool_classes_by_scheme.update(pools)  # noqa: SLF001  (this dict is the manager's too, and each proxy's)
    if session._manager.pool_classes_by_scheme["https"] is not pools["https"]:  # noqa: SLF001
        raise RuntimeError("botocore's HTTP session has changed: the provider's calls can't be watched")
