"""chaos.json, as CONTRACT section 6 has it; and what a run is asked for."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from bench.chaos.__main__ import main
from bench.chaos.plan import AWS_NAMES, Kind, faults, messages
from bench.chaos.report import judge, stories, write
from db.lifecycle import Move
from dev.simulator.faults import Fault
from tests.bench.chaos_records import ACCEPTED, ID, attempt, line, message, observed, request, row, told


def test_results_have_the_contracts_shape(tmp_path: Path) -> None:
    judged = judge(observed(), seed=7, messages=1, faults={"kill_worker": 9})

    written = write(tmp_path / "results", judged.results)

    assert written.name == "chaos.json"
    assert [path.name for path in written.parent.iterdir()] == ["chaos.json"]
    assert json.loads(written.read_text()) == {
        "seed": 7,
        "messages": 1,
        "faults": {"kill_worker": 9},
        "states": {"provider_accepted": 1},
        "breaches": {f"I{number}": 0 for number in range(1, 14)},
        "twice": 0,
        "lost": 0,
        "stuck": 0,
        "ambiguous": {"total": 0, "not_accepted_by_simulator": 0, "ended_by_evidence": 0},
    }
    assert judged.passed


def test_a_breach_is_counted_and_its_message_told_of() -> None:
    untaken = told("send", taken=False)
    judged = judge(observed(requests=(request(), request()), **untaken), seed=7, messages=1, faults={})

    assert not judged.passed
    assert (judged.results["twice"], judged.results["breaches"]["I2"], judged.results["breaches"]["I3"]) == (1, 1, 1)
    story = "\n".join(stories(judged))
    assert f"I2: {ID}: 2 requests, where 1 were allowed" in story
    assert "claim: queued -> leased" in story
    assert "request of attempt 1: accepted" in story
    assert "send event about attempt 1: not taken, tries: 1" in story


def test_messages_that_were_ever_ambiguous_are_counted() -> None:
    ambiguous = (*ACCEPTED[:2], line(3, Move.QUARANTINE, "leased", "ambiguous"))
    proven = (*ambiguous, line(4, Move.PROVE, "ambiguous", "provider_accepted"))
    unknown = {"attempts": (attempt(outcome="unknown"),)}

    never = judge(
        observed(messages={ID: message(*ambiguous)}, rows=(row("ambiguous"),), requests=(), **unknown),
        seed=7,
        messages=1,
        faults={},
    )
    ended = judge(observed(messages={ID: message(*proven)}, **unknown), seed=7, messages=1, faults={})

    assert never.results["ambiguous"] == {"total": 1, "not_accepted_by_simulator": 1, "ended_by_evidence": 0}
    assert ended.results["ambiguous"] == {"total": 1, "not_accepted_by_simulator": 0, "ended_by_evidence": 1}


def test_a_seed_draws_the_same_run_again() -> None:
    def drawn(seed: int) -> tuple[object, object]:
        generator = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        return messages(generator, 60), faults(generator, 30)

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


@pytest.mark.parametrize("count", [30, 100, 300])
def test_each_fault_of_the_simulator_has_three_percent_of_the_messages_and_each_of_awss_names_one(count: int) -> None:
    planned = messages(random.Random(7), count)  # noqa: S311 - the same

    recipients = Counter(each.command["to"].partition("<")[2].partition("+")[0] for each in planned if not each.plain)
    assert recipients.keys() == {*Fault, *AWS_NAMES}
    assert min(recipients[fault] for fault in Fault) >= 0.03 * count
    assert min(recipients[name] for name in AWS_NAMES) >= 0.01 * count
    assert len({each.command["to"].partition("<")[2] for each in planned}) == count
    assert len(planned) == count
    assert any(each.plain for each in planned)


def test_each_kind_of_fault_comes_before_any_comes_often() -> None:
    drawn = Counter(faults(random.Random(7), len(Kind)))  # noqa: S311 - the same

    assert set(drawn) == set(Kind)
    assert Kind.RESET in faults(random.Random(7), 1)  # noqa: S311
    assert set(faults(random.Random(7), 5, {Kind.TERMINATE})) == {Kind.TERMINATE}  # noqa: S311


@pytest.mark.parametrize(
    "arguments", [["--messages", "29"], ["--messages", "many"], ["--only", "rain"], ["--seed", "-1"], ["--faults", "x"]]
)
def test_wrong_arguments_are_told_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
