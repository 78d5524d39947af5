"""A server on a real socket that reads a request whole, counts it, and then does exactly what a test says."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: What a script does with the connection once the request has been read.
Script = Callable[[socket.socket], None]


@dataclass(slots=True)
class ScriptedServer:
    """Where it listens, and how many requests it has read to their last byte."""

    port: int
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def answer(status: int, body: bytes, *, headers: str = "") -> Script:
    """Answer with this status line and body, and keep the connection."""

    def script(connection: socket.socket) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        connection.sendall(head.encode() + body)

    return script


def error(status: int, code: str, message: str = "someone@example.com was refused") -> Script:
    """Answer as SES answers an error."""
    body = f'{{"message": "{message}"}}'.encode()
    return answer(status, body, headers=f"x-amzn-ErrorType: {code}\r\nx-amzn-RequestId: request-1\r\n")


def drip(connection: socket.socket) -> None:
    """Answer one byte every 50 ms: no single read ever times out."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    quiet = threading.Event()
    for _ in range(1000):
        connection.sendall(b" ")
        quiet.wait(0.05)


def hang(connection: socket.socket) -> None:
    """Never answer; ends when the client does."""
    with contextlib.suppress(OSError):
        connection.recv(1)


def close(connection: socket.socket) -> None:
    """Close instead of answering."""
    connection.close()


def reset(connection: socket.socket) -> None:
    """Reset instead of answering."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def cut(connection: socket.socket) -> None:
    """Promise more than is sent, then close."""
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"Mess')
    connection.close()


@contextlib.contextmanager
def serving(script: Script, *, read: bool = True) -> Iterator[ScriptedServer]:
    """Run the server; `read=False` lets the script go before any byte is read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = ScriptedServer(port=listener.getsockname()[1])
        thread = threading.Thread(target=_accept, args=(listener, server, script, read), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _accept(listener: socket.socket, server: ScriptedServer, script: Script, read: bool) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, server, script, read), daemon=True).start()


def _serve(connection: socket.socket, server: ScriptedServer, script: Script, read: bool) -> None:
    with contextlib.suppress(OSError), connection:
        while True:
            if read:
                request = _whole_request(connection)
                if request is None:
                    return
                server.requests.append(request)
            script(connection)


def _whole_request(connection: socket.socket) -> bytes | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    # A request without a body says nothing of its length.
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
