"""What a run came to: chaos.json for programs, a table and the evidence for the person."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from rich.table import Table

from bench.chaos.checker import INVARIANTS, PASSING, Finding, check
from bench.chaos.records import Observed, by_message
from bench.chaos.submissions import ACCEPTED, lost, submitted_twice
from db.lifecycle import Actor, State
from dev.description import TENANT

#: Messages whose story is told; a breach that is everywhere is told well enough by these.
_MOST_STORIES: Final = 10


class Ambiguous(TypedDict):
    """Messages that were ever ambiguous."""

    total: int
    not_accepted_by_simulator: int
    ended_by_evidence: int


class Results(TypedDict):
    """chaos.json (CONTRACT section 6)."""

    seed: int
    messages: int
    faults: dict[str, int]
    states: dict[str, int]
    breaches: dict[str, int]
    twice: int
    lost: int
    stuck: int
    ambiguous: Ambiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run and its judgement."""

    results: Results
    findings: tuple[Finding, ...]
    observed: Observed

    @property
    def passed(self) -> bool:
        """Whether nothing is broken, twice, lost or stuck."""
        return not (self.findings or self.results["twice"] or self.results["lost"] or self.results["stuck"])


def judge(observed: Observed, *, seed: int, messages: int, faults: dict[str, int]) -> Judged:
    """Check a run and count what it came to."""
    findings = check(observed)
    breaches = Counter(finding.invariant for finding in findings)
    states = Counter(row.state for row in observed.rows if row.tenant == TENANT)
    return Judged(
        results={
            "seed": seed,
            "messages": messages,
            "faults": dict(sorted(faults.items())),
            "states": dict(sorted(states.items())),
            "breaches": {name: breaches[name] for name in INVARIANTS},
            "twice": len(submitted_twice(observed)),
            "lost": len(lost(observed)),
            "stuck": sum(states[state] for state in PASSING) + len(observed.unanswered),
            "ambiguous": _ambiguous(observed),
        },
        findings=tuple(findings),
        observed=observed,
    )


def _ambiguous(observed: Observed) -> Ambiguous:
    accepted = {request.message_id for request in observed.requests if request.answer == ACCEPTED}
    been, proven = set(), set()
    for message_id, message in observed.known():
        for line in message["timeline"]:
            if line["to"] == State.AMBIGUOUS:
                been.add(message_id)
            if line["from"] == State.AMBIGUOUS and line["actor"] == Actor.PROVIDER:
                proven.add(message_id)
    return {
        "total": len(been),
        "not_accepted_by_simulator": len(been - accepted),
        "ended_by_evidence": len(proven),
    }


def write(directory: Path, results: Results) -> Path:
    """Write chaos.json whole, and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    written, unfinished = directory / "chaos.json", directory / "chaos.json.unfinished"
    unfinished.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(written)
    return written


def table(results: Results) -> Table:
    """Draw the invariants with their breaches, and the counts."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "breaches", "what must hold"):
        drawn.add_column(heading, justify="right" if heading == "breaches" else "left", overflow="fold")
    for name, invariant in INVARIANTS.items():
        meaning = (invariant.__doc__ or "").partition(": ")[2].strip().rstrip(".")
        drawn.add_row(name, str(results["breaches"][name]), meaning)
    drawn.add_row("twice", str(results["twice"]), "messages that the simulator accepted again without a person's order")
    drawn.add_row("lost", str(results["lost"]), "messages that were promised or called accepted, and are not there")
    drawn.add_row("stuck", str(results["stuck"]), "messages still on their way, and commands without an answer")
    return drawn


def stories(judged: Judged) -> Iterator[str]:
    """Tell of each breach, and of the messages that they are about; in ids, numbers and codes only."""
    for finding in judged.findings:
        yield f"{finding.invariant}: {finding.message_id or '-'}: {finding.what}"
    about = dict.fromkeys(finding.message_id for finding in judged.findings if finding.message_id)
    for message_id in list(about)[:_MOST_STORIES]:
        yield from _story(judged.observed, message_id)


def _story(observed: Observed, message_id: str) -> Iterator[str]:
    yield f"\nmessage {message_id}"
    for line in (observed.messages.get(message_id) or {}).get("timeline", ()):
        reason = f" ({line['reason']})" if line["reason"] else ""
        yield f"  {line['at']} {line['move']}: {line['from']} -> {line['to']}{reason}, attempt {line['attempt']}"
    for attempt in by_message(observed.attempts)[message_id]:
        begun, closed = "begun" if attempt.begun else "not begun", "closed" if attempt.closed else "open"
        yield f"  attempt {attempt.number} of {attempt.claimed_at}: {begun}, {attempt.outcome}, {closed}"
    for request in by_message(observed.requests)[message_id]:
        yield f"  {request.at} request of attempt {request.attempt}: {request.answer}"
    for event in by_message(observed.notifications)[message_id]:
        taken = "taken" if event.taken else "not taken"
        yield f"  {event.type} event about attempt {event.attempt}: {taken}, tries: {event.tries}"
    for row in by_message(observed.audit)[message_id]:
        yield f"  {row.at} audited: {row.decision}, attempt {row.attempt}"


def decisions(observed: Observed) -> dict[str, int]:
    """Count what an operator decided about ambiguous messages, and how often that was refused or had no answer."""
    asked = [action for action in observed.actions if action.decision]
    named = (
        str(action.decision) if action.done else "unanswered" if action.status is None else "refused"
        for action in asked
    )
    return dict(Counter(named))


def counted(times: Mapping[str, int]) -> str:
    """Say how often each happened."""
    return ", ".join(f"{name} {count}" for name, count in sorted(times.items()) if count) or "none"
