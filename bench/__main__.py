"""The command: `python -m bench`, or `make bench`."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import (
    chart,
    events,
    fairness,
    intake,
    memory,
    own_stack,
    pacing,
    peers,
    results,
    scale,
    single,
    stack,
    throughput,
)
from bench.correctness import WrongRun
from bench.figures import Figure
from bench.measuring import Extent, Measuring, Stopwatch
from dev.refusals import StartRefused
from workflows import logs, policies

BENCHMARKS: Final[dict[str, Callable[[Measuring], Awaitable[list[Figure]]]]] = {
    "throughput": throughput.measure,
    "single": single.measure,
    "peers": peers.measure,
    "events": events.measure,
    "fairness": fairness.measure,
    "pacing": pacing.measure,
    "memory": memory.measure,
    "scale": scale.measure,
    # Last: the messages that it makes wait until its worker goes on.
    "intake": intake.measure,
}
#: What `--quick` runs. The others need a package of their own, or much time before they say anything.
QUICK: Final = ("throughput", "single", "events", "fairness", "pacing", "intake")
#: These don't depend on the machine: one that isn't met fails the run.
EXACT: Final = frozenset({"history_events", "billable_actions", "history_bytes", "write_transactions"})
RESULTS: Final = stack.ROOT / "bench" / "results"
_MOST_RUNS, _MOST_MESSAGES, _MOST_SCALE = 50, 5000, 10_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen benchmarks; return 0, or 1 where one was wrong. Figures that are not met are figures too."""
    options = _parser().parse_args(arguments)
    extent = Extent(
        runs=options.runs or (1 if options.quick else 5),
        messages=options.messages or (30 if options.quick else 150),
        scale=options.scale,
        quick=options.quick,
    )
    names = options.only or (QUICK if options.quick else list(BENCHMARKS))
    # The product's own modules log each thing they do.
    logs.set_up("bench", level="ERROR")
    # So that what was started is ended then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def run() -> None:
        with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
            asyncio.run(_run(names, extent, Path(folder), options.results))

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
    screen = _Progress(steps=len(names))
    async with _measuring(folder, extent, screen) as measuring:
        machine = await results.describe_machine(measuring, load_at_start)
        for name in names:
            screen.begin(name)
            try:
                figures += await BENCHMARKS[name](measuring)
            except WrongRun as wrong:
                raise WrongRun(f"{name} did not do what it was timed for, so it has no figures: {wrong}") from None
    measured: results.Results = {
        "machine": machine,
        "commit": results.commit(),
        "figures": [figure.as_json() for figure in figures],
    }
    written = results.write(directory, measured)
    console = Console(highlight=False)
    console.print(results.table(figures))
    console.print(f"\nLoad before: {load_at_start[0]}. Written to {written}.", soft_wrap=True)
    if not extent.quick:
        chart.draw(measured, directory)
    costly = [figure.name for figure in figures if figure.name in EXACT and not figure.met]
    if costly:
        raise WrongRun(f"a message costs more than it may: {', '.join(costly)}")


@asynccontextmanager
async def _measuring(folder: Path, extent: Extent, screen: "_Progress") -> AsyncIterator[Measuring]:
    """Run a stack, with the sweep paused: it would start the runs that are held back."""
    async with own_stack.opened(folder, extent=extent, say=screen.step) as measuring:
        await measuring.client.get_schedule_handle(policies.SWEEP_SCHEDULE_ID).pause()
        yield measuring


class _Progress:
    """A line on stderr for each run, with which benchmark of how many it belongs to."""

    def __init__(self, *, steps: int) -> None:
        self._steps = steps
        self._begun = 0
        self._name = ""
        self._watch = Stopwatch()
        self._say("Starting a stack ...")

    def begin(self, name: str) -> None:
        """Say what comes."""
        self._begun += 1
        self._name = name
        self._say(f"{name}: warming up ...")

    def step(self, came: str) -> None:
        """Say what a run came to."""
        self._say(f"{self._name}: {came}")

    def _say(self, text: str) -> None:
        print(f"[{self._watch.seconds:4.0f} s, {self._begun}/{self._steps}] {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures Fencepost beside its baselines, in turn, on a stack of its own that it ends afterwards.",
        epilog='Example: make bench ARGS="--only throughput --runs 3 --messages 100"',
    )
    parser.add_argument("--runs", type=_up_to(_MOST_RUNS), help="of each side, in turn (default: 5; with --quick: 1)")
    parser.add_argument(
        "--messages",
        type=_up_to(_MOST_MESSAGES),
        help="in a run of throughput; single takes a tenth, intake and events the double"
        " (default: 150; with --quick: 30)",
    )
    parser.add_argument(
        "--scale",
        type=_up_to(_MOST_SCALE),
        default=3_000_000,
        help="messages of the large database (default: %(default)s, which takes some ten minutes and 15 GB)",
    )
    parser.add_argument(
        "--only", choices=list(BENCHMARKS), action="append", help="this one; may be given again (default: all)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"under two minutes: {', '.join(QUICK)}, for their correctness and the exact counts, not for times",
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
