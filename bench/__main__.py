"""The command: `python -m bench`, or `make bench`."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg
import httpx
from rich.console import Console
from temporalio.client import Client

from bench import events, intake, results, single, stack, throughput
from bench.correctness import WrongRun
from bench.figures import Figure
from bench.measuring import Extent, Measuring, Stopwatch
from dev.refusals import StartRefused
from dev.temporal import NAMESPACE
from workflows import logs, policies

BENCHMARKS: Final[dict[str, Callable[[Measuring], Awaitable[list[Figure]]]]] = {
    "throughput": throughput.measure,
    "single": single.measure,
    "intake": intake.measure,
    "events": events.measure,
}
RESULTS: Final = stack.ROOT / "bench" / "results"
#: For its whole record, of thousands of submissions, on a busy machine.
_SIMULATOR_SECONDS: Final = 60.0
_MOST_RUNS, _MOST_MESSAGES = 50, 5000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen benchmarks; return 0, or 1 where one was wrong. Figures that are not met are figures too."""
    options = _parser().parse_args(arguments)
    extent = Extent(runs=options.runs, messages=options.messages)
    # The product's own modules log each thing they do.
    logs.set_up("bench", level="ERROR")
    # So that what was started is ended then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def run() -> None:
        with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
            asyncio.run(_run(options.only or list(BENCHMARKS), extent, Path(folder), options.results))

    return exit_status(run)


def exit_status(run: Callable[[], None]) -> int:
    """Run it, and turn what keeps it from having figures into one line on stderr and an exit status."""
    try:
        run()
    except (StartRefused, WrongRun) as refusal:
        print(f"fencepost bench: {refusal}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


async def _run(names: Sequence[str], extent: Extent, folder: Path, directory: Path) -> None:
    load_at_start = results.load()
    figures: list[Figure] = []
    screen = _Progress(steps=len(names) * extent.runs)
    async with _measuring(folder, extent, screen) as measuring:
        machine = await results.describe_machine(measuring, load_at_start)
        for name in names:
            screen.begin(name)
            try:
                figures += await BENCHMARKS[name](measuring)
            except WrongRun as wrong:
                raise WrongRun(f"{name} did not do what it was timed for, so it has no figures: {wrong}") from None
    written = results.write(
        directory,
        {"machine": machine, "commit": results.commit(), "figures": [figure.as_json() for figure in figures]},
    )
    console = Console(highlight=False)
    console.print(results.table(figures))
    console.print(f"\nLoad before: {load_at_start[0]}. Written to {written}.", soft_wrap=True)


@asynccontextmanager
async def _measuring(folder: Path, extent: Extent, screen: "_Progress") -> AsyncIterator[Measuring]:
    """Run a stack, with the sweep paused: it would start the runs that are held back."""
    async with AsyncExitStack() as opened:
        running = await opened.enter_async_context(stack.running(folder))
        client = await Client.connect(f"127.0.0.1:{running.ports.temporal}", namespace=NAMESPACE)
        await client.get_schedule_handle(policies.SWEEP_SCHEDULE_ID).pause()
        simulator = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{running.ports.simulator}", trust_env=False, timeout=_SIMULATOR_SECONDS
        )
        database = await asyncpg.connect(running.database_url, ssl=False)
        opened.push_async_callback(database.close)
        yield Measuring(
            stack=running,
            client=client,
            database=database,
            simulator=await opened.enter_async_context(simulator),
            extent=extent,
            say=screen.step,
        )


class _Progress:
    """A line on stderr for each run, with how far it is."""

    def __init__(self, *, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._name = ""
        self._watch = Stopwatch()
        self._say("Starting a stack ...")

    def begin(self, name: str) -> None:
        """Say what comes."""
        self._name = name
        self._say(f"{name}: warming up ...")

    def step(self, came: str) -> None:
        """Say what a run came to."""
        self._done += 1
        self._say(f"{self._name}: {came}")

    def _say(self, text: str) -> None:
        print(f"[{self._watch.seconds:4.0f} s, {self._done}/{self._steps}] {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures Fencepost beside its baselines, in turn, on a stack of its own that it ends afterwards.",
        epilog='Example: make bench ARGS="--only throughput --runs 3 --messages 100"',
    )
    parser.add_argument(
        "--runs", type=_up_to(_MOST_RUNS), default=5, help="of each side, in turn (default: %(default)s)"
    )
    parser.add_argument(
        "--messages",
        type=_up_to(_MOST_MESSAGES),
        default=150,
        help="in a run of throughput; single takes a tenth, intake and events the double (default: %(default)s)",
    )
    parser.add_argument(
        "--only", choices=list(BENCHMARKS), action="append", help="this one; may be given again (default: all)"
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="where latest.json and its dated copy go (default: bench/results)"
    )
    return parser


def _up_to(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"between 1 and {most}")
        return int(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
