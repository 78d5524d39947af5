"""The simulator as a process: its command line, its two listeners and its end."""

import argparse
import asyncio
import contextlib
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final

import httpx
import uvicorn
from typing_extensions import override

from dev.simulator.control import create_app
from dev.simulator.endpoint import HOST, Endpoint, listen
from dev.simulator.publisher import Publisher
from dev.simulator.record import Record
from dev.simulator.sns import Signer

DEFAULT_PORT: Final = 7481
DEFAULT_SES_PORT: Final = 7487
DEFAULT_TOPIC_ARN: Final = "arn:aws:sns:us-east-1:000000000000:fencepost-dev"
KEY_FILE: Final = "sns.pem"
BAD_USE: Final = 2

_MAX_PORT: Final = 65535


class _ControlServer(uvicorn.Server):
    """Serves the page and the control calls, says so once it does, and leaves signals to this process."""

    def __init__(self, config: uvicorn.Config, ready: str) -> None:
        super().__init__(config)
        self._ready = ready

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._ready, flush=True)

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulator until SIGINT or SIGTERM; return the exit status, 2 where it could not start."""
    options = _parser().parse_args(arguments)
    directory: Path = options.dir
    try:
        record = Record(directory)
    except (OSError, sqlite3.Error) as error:
        return _refuse(f"cannot keep a record in {directory}: {error}")
    with record:
        signer = None
        if options.events_url is not None:
            try:
                signer = Signer.kept_in(directory / KEY_FILE)
            except (OSError, ValueError):
                return _refuse(f"cannot use the key in {directory / KEY_FILE}; delete the file to have a new one made")
        return asyncio.run(_run(record, signer, options))


async def _run(record: Record, signer: Signer | None, options: argparse.Namespace) -> int:
    try:
        listener = listen(options.port)
    except OSError as error:
        return _refuse(f"cannot listen on {HOST}:{options.port}, choose another with --port: {error.strerror}")
    page_url = f"http://{HOST}:{listener.getsockname()[1]}"
    publisher = None
    if signer is not None:
        publisher = Publisher(
            record, signer, events_url=options.events_url, topic_arn=options.topic_arn, page_url=page_url
        )
    endpoint = Endpoint(record, options.ses_port, publisher)
    try:
        await endpoint.start()
    except OSError as error:
        listener.close()
        return _refuse(f"cannot listen on {HOST}:{options.ses_port}, choose another with --ses-port: {error.strerror}")

    # No client can keep the process from ending: answers still under way have one second.
    config = uvicorn.Config(
        create_app(record, endpoint, publisher),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    ready = f"SES simulator: page and control on {page_url}, SES endpoint on http://{HOST}:{endpoint.port}"
    server = _ControlServer(config, ready)
    loop = asyncio.get_running_loop()
    for end in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(end, server.handle_exit, end, None)
    async with _publishing(publisher, server):
        await server.serve([listener])
        await endpoint.stop()
    return 0


@contextlib.asynccontextmanager
async def _publishing(publisher: Publisher | None, server: uvicorn.Server) -> AsyncIterator[None]:
    """Publish meanwhile; where that fails, end the server, and then raise what was wrong."""
    if publisher is None:
        yield
        return
    publishing = asyncio.create_task(publisher.run())
    publishing.add_done_callback(lambda _: server.handle_exit(signal.SIGTERM, None))
    try:
        yield
    finally:
        publishing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await publishing


def _refuse(text: str) -> int:
    print(f"SES simulator: {text}", file=sys.stderr)
    return BAD_USE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dev.simulator",
        description="A simulator of SES v2's SendEmail for development and tests. It mails nothing to anybody.",
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help="where the page, the record and the control calls are (default: %(default)s; 0: any free one)",
    )
    parser.add_argument(
        "--ses-port",
        type=_port,
        default=DEFAULT_SES_PORT,
        help="where the SES endpoint is (default: %(default)s; 0: any free one)",
    )
    parser.add_argument("--dir", type=Path, required=True, help="the folder that keeps the record; made if missing")
    parser.add_argument(
        "--events-url",
        type=_url,
        help="where provider events are published, as SNS delivers them (default: nowhere, and none are planned)",
    )
    parser.add_argument(
        "--topic-arn",
        default=DEFAULT_TOPIC_ARN,
        help="the SNS topic that the events are published through (default: %(default)s)",
    )
    return parser


def _url(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        raise argparse.ArgumentTypeError("a URL starts with http:// or https:// and a host")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {_MAX_PORT}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
