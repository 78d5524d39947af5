"""A run that was fast and wrong has no figures."""

from collections.abc import Iterable

import pytest

from bench.__main__ import exit_status
from bench.correctness import WrongRun, accepted_once


def submission(message_id: str, answer: str = "accepted") -> dict[str, object]:
    return {"tags": {"fencepost_message": message_id}, "answer": answer}


def test_each_message_accepted_once_is_right() -> None:
    accepted_once({"a", "b"}, [submission("b"), submission("a")])


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ([submission("a")], "1 of 2 messages never and 0 more than once"),
        ([submission("a"), submission("b"), submission("a")], "0 of 2 messages never and 1 more than once"),
        ([submission("a"), submission("b"), submission("c")], "asked for 1 other things"),
        ([submission("a"), submission("b"), submission("a", "throttled")], "asked for 1 other things"),
        ([submission("a"), submission("b"), {"tags": {}, "answer": "accepted"}], "asked for 1 other things"),
    ],
    ids=["lost", "twice", "somebody else's", "refused", "without a tag"],
)
def test_anything_else_is_a_wrong_run(record: Iterable[dict[str, object]], why: str) -> None:
    with pytest.raises(WrongRun, match=why):
        accepted_once({"a", "b"}, record)


def test_a_wrong_run_ends_with_status_1_and_a_line_that_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    status = exit_status(lambda: accepted_once({"a"}, []))

    assert status == 1
    assert capsys.readouterr().err == (
        "fencepost bench: the simulator accepted 1 of 1 messages never and 0 more than once,"
        " and was asked for 0 other things\n"
    )
