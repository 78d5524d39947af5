"""What a person sees of the stack: progress, lines from the supervisor, and the way on."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console, RenderableType
from typing_extensions import override


class _Console(Console):
    @override
    def on_broken_pipe(self) -> None:
        # By default this ends the program, as if nothing had to be stopped.
        self.quiet = True


class Screen:
    """The terminal of `make dev`, or a file or pipe in its place.

    Nothing here raises when the terminal has gone: the stack must still be able to stop in order.
    """

    def __init__(self) -> None:
        self._console = _Console(highlight=False, markup=False, emoji=False)

    def say(self, line: str) -> None:
        """Show a line as it is, unbroken, so that it can be copied."""
        with contextlib.suppress(OSError):
            self._console.print(line, soft_wrap=True)

    def show(self, renderable: RenderableType) -> None:
        """Show a table."""
        with contextlib.suppress(OSError):
            self._console.print(renderable)

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show what goes on until the end of the block, and then how long it took."""
        began_at = time.monotonic()
        if not self._console.is_terminal:
            self.say(f"{what} ...")
            yield
            return
        with self._console.status(f"{what} ..."):
            yield
        self.say(f"{what}: {time.monotonic() - began_at:.1f} s")
