"""The guards of activities/submit.py: what stands around the one provider call."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("activities/submit.py", "tests/activities/test_submit.py")

_NEEDS: Final = "        needs = self._call_budget + BEGIN_MARGIN\n"
_TOO_LATE: Final = "        if answer is Reread.UNSENT or time.monotonic() - asked_at > BEGIN_MARGIN.total_seconds():\n"

GUARDS: Final[tuple[Mutant, ...]] = (
    _IN.changed(
        "submit: reread",
        "            if found is not Reread.CALL:\n                return found, frozenset()\n",
        "",
        "a body that lost its begin's reply calls whatever stands",
        "test_a_body_whose_begin_never_arrived_makes_no_call",
    ),
    _IN.changed(
        "submit: reread answers",
        '            _log.warning("begin_unanswered"',
        '            raise\n            _log.warning("begin_unanswered"',
        "a body that lost its begin's reply gives up an attempt that has begun",
        "test_a_body_that_lost_the_reply_to_its_begin_calls_once",
    ),
    _IN.without(
        "submit: only when begun",
        "        if answer is not BeginAnswer.BEGUN and answer is not Reread.UNSENT:\n"
        "            return Attempted(result=str(answer))\n",
        "submit calls though begin was refused",
        "test_a_refused_begin_makes_no_call",
    ),
    _IN.changed(
        "submit: too late after the reread",
        _TOO_LATE,
        _TOO_LATE.replace("answer is Reread.UNSENT or ", ""),
        "a body that finds its begin too late calls",
        "test_a_body_that_finds_its_begin_too_late_submits_nothing",
    ),
    _IN.changed(
        "submit: margin",
        _TOO_LATE,
        "        if answer is Reread.UNSENT:\n",
        "a body whose begin took longer than its margin calls",
        "test_a_begin_that_took_too_long_is_recorded_as_not_submitted",
    ),
    _IN.changed(
        "submit: lease for the margin",
        _NEEDS,
        "        needs = self._call_budget\n",
        "begin does not ask the lease for the margin",
        "test_a_refused_begin_makes_no_call[too little lease]",
    ),
    _IN.changed(
        "submit: lease for the call",
        _NEEDS,
        "        needs = BEGIN_MARGIN\n",
        "begin does not ask the lease for the call budget",
        "test_a_refused_begin_makes_no_call[too little lease]",
    ),
    _IN.changed(
        "submit: shield",
        "            await asyncio.shield(task)\n",
        "            await task\n",
        "a cancel cuts a call short, and its answer is thrown away",
        "test_a_cancelled_submit_ends_its_call_and_records_it",
    ),
    _IN.changed(
        "submit: cancel outlived",
        "            if task.cancelled():\n                raise\n",
        "            raise\n",
        "a cancelled submit ends before its call does",
        "test_a_cancelled_submit_ends_its_call_and_records_it",
    ),
    _IN.changed(
        "submit: record again",
        "begin_id=begin_id, result=result), until\n",
        "begin_id=begin_id, result=result), 0.0\n",
        "a record whose reply was lost is not made again",
        "test_an_outcome_is_recorded_once_whatever_is_lost",
    ),
    _IN.changed(
        "submit: provider raises",
        "            return CallResult(outcome=Outcome.UNKNOWN, provider=self._provider.name,"
        " reason=Reason.PROVIDER_ERROR)\n",
        "            raise\n",
        "a provider that raises leaves no outcome",
        "test_a_provider_that_raises_leaves_an_unknown_outcome",
    ),
)
