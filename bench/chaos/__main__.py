"""The command: `python -m bench.chaos`, or `make chaos`."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from rich.console import Console
from typing_extensions import override

from bench import stack
from bench.chaos import report
from bench.chaos.plan import Kind
from bench.chaos.run import SETTLED_WITHIN, Extent, Ran, run
from bench.correctness import WrongRun
from bench.measuring import Stopwatch
from dev.refusals import StartRefused

RESULTS: Final = stack.ROOT / "bench" / "results"
#: Fewer have no place for each of the simulator's recipients, and for mail that nothing is wrong with.
_LEAST_MESSAGES, _MOST_MESSAGES = 30, 5000
_MOST_FAULTS: Final = 1000
_MOST_SEED: Final = 2**32
_MOST_RATE: Final = 50
#: One fault for so many messages, unless it is said.
_MESSAGES_A_FAULT: Final = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge and report; return 0, or 1 on any breach and where there is nothing to judge."""
    options = _parser().parse_args(arguments)
    faults = options.messages // _MESSAGES_A_FAULT if options.faults is None else options.faults
    extent = Extent(
        messages=options.messages,
        faults=faults,
        seed=options.seed,
        rate=options.rate,
        only=tuple(map(Kind, options.only or ())),
    )
    # So that what was started is ended then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    watch = Stopwatch()

    def say(text: str) -> None:
        print(f"[{watch.seconds:4.0f} s] {text}", file=sys.stderr, flush=True)

    say("starting a stack")
    try:
        with tempfile.TemporaryDirectory(prefix="fencepost-chaos-") as folder:
            ran = asyncio.run(run(extent, Path(folder), say))
    except (StartRefused, WrongRun) as refusal:
        print(f"fencepost chaos: {refusal}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return _tell(extent, ran, options.results)


def _tell(extent: Extent, ran: Ran, directory: Path) -> int:
    faults = {str(kind): times for kind, times in ran.struck.done.items()}
    judged = report.judge(ran.observed, seed=extent.seed, messages=extent.messages, faults=faults)
    written = report.write(directory, judged.results)
    console = Console(highlight=False, soft_wrap=True)
    console.print(report.table(judged.results))
    for line in (*_figures(judged, ran), *report.stories(judged)):
        console.print(line, markup=False)
    verdict = "nothing broken" if judged.passed else "BROKEN"
    console.print(f"Seed {extent.seed}: {verdict}. Written to {written}.", markup=False)
    return 0 if judged.passed else 1


def _figures(judged: report.Judged, ran: Ran) -> list[str]:
    """Say what happened and how it went, in a few sentences."""
    results, struck, seconds = judged.results, ran.struck, ran.load_seconds
    missed = report.counted({str(kind): times for kind, times in struck.missed.items()})
    settled = f"after {ran.settled_seconds:.0f} s" if ran.settled_seconds is not None else "NOT"
    ambiguous = results["ambiguous"]
    published = ran.observed.notifications
    again = sum(notification.tries > 1 for notification in published)
    answers, requests = len(ran.observed.answers), len(ran.observed.requests)
    return [
        "",
        f"Load: {results['messages']} messages in {seconds:.0f} s, {results['messages'] / seconds:.1f} a second.",
        f"Seen: {answers} answers, {requests} requests in the simulator's record.",
        f"Faults: {report.counted(results['faults'])}.",
        f"Without anything to do them to: {missed}.",
        f"On processes: {struck.on_processes}; {struck.aimed} of them aimed: at an open attempt, or at its events.",
        f"Decisions of the operator: {report.counted(report.decisions(ran.observed))}.",
        f"Asked again by the client: {report.counted(ran.retries)}.",
        f"States: {report.counted(results['states'])}.",
        f"Settled: {settled}; {SETTLED_WITHIN:.0f} s were allowed.",
        f"Provider events: {len(published)}; {again} of them were published again until they were taken.",
        f"Ambiguous: {ambiguous['total']}; never accepted by the simulator: {ambiguous['not_accepted_by_simulator']}.",
        f"Ambiguity ended by evidence: {ambiguous['ended_by_evidence']}.",
        "",
    ]


class _Parser(argparse.ArgumentParser):
    @override
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"fencepost chaos: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m bench.chaos",
        description="Runs a stack of its own under load while parts of it are killed, stopped, restarted and misused;"
        " then checks what must hold. The exit status is 1 where anything doesn't. Kinds of faults: "
        + ", ".join(Kind)
        + ".",
        epilog='Example: make chaos ARGS="--messages 300 --seed 7"',
    )
    parser.add_argument(
        "--messages",
        type=_between(_LEAST_MESSAGES, _MOST_MESSAGES),
        default=300,
        help="to send (default: %(default)s, which takes about four minutes)",
    )
    parser.add_argument(
        "--seed", type=_between(0, _MOST_SEED), default=7, help="of what is drawn (default: %(default)s)"
    )
    parser.add_argument(
        "--faults",
        type=_between(0, _MOST_FAULTS),
        help=f"how many (default: one for each {_MESSAGES_A_FAULT} messages)",
    )
    parser.add_argument(
        "--rate",
        type=_between(1, _MOST_RATE),
        default=2,
        help="messages a second; beyond what the machine carries, what is left at the end is a backlog"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        choices=[kind.value for kind in Kind],
        action="append",
        metavar="KIND",
        help="faults of this kind; may be given again (default: all)",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="where chaos.json goes (default: bench/results)")
    return parser


def _between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"between {least} and {most}")
        return int(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
