"""What a mail provider is to Fencepost: one call, one typed result."""

from typing import Protocol, TypeVar

from db.records import CallResult, Submission

Request = TypeVar("Request")


class Provider(Protocol[Request]):
    """A provider that takes mail.

    `prepare` is pure and happens before begin. `call` makes exactly one request, blocks, and may be called from many
    threads at once. It sends no byte after `deadline`, a moment of `time.monotonic()`, and ends soon after it whatever
    the provider does. It never raises for what the provider or the network does: each such case is a CallResult, and
    what it can't tell is `unknown`.
    """

    name: str

    def prepare(self, submission: Submission) -> Request:
        """Build the request."""
        ...

    def call(self, request: Request, *, deadline: float) -> CallResult:
        """Submit it, once."""
        ...
