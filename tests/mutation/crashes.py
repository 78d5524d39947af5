"""The guards that the rows of the crash table in ARCHITECTURE.md rest on, each against the test that its row names."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_TESTS: Final = "tests/faults/test_crash_points.py"
_DECISIONS: Final = Source("db/decisions.py", _TESTS)
_EVIDENCE: Final = Source("db/evidence.py", _TESTS)
_POLICIES: Final = Source("workflows/policies.py", _TESTS)
_TEMPORAL: Final = Source("workflows/temporal.py", _TESTS)
_SWEEP: Final = Source("activities/sweep.py", _TESTS)
_RESOLUTIONS: Final = Source("db/resolutions.py", _TESTS)
_API: Final = "test_an_api_that_dies_at_intake_leaves_one_message_for_the_clients_next_try"
_FINALIZE: Final = "test_a_worker_that_dies_before_temporal_knows_of_the_end_leaves_it_done_once"

GUARDS: Final[tuple[Mutant, ...]] = (
    _SWEEP.changed(
        "crash: the sweep starts what has no run",
        "started, failed_to_start = await self._start_runs()",
        "started, failed_to_start = 0, 0",
        "a message whose API died before it asked for a run is never sent",
        f"{_API}[intake_committed-200]",
    ),
    _POLICIES.changed(
        "crash: a claim is given up soon",
        "CLAIM_HEARTBEAT: Final = timedelta(seconds=5)",
        "CLAIM_HEARTBEAT: Final = timedelta(minutes=5)",
        "a claim that a dead worker took up is waited for",
        "test_a_worker_that_dies_before_it_claims_leaves_the_claim_to_another",
    ),
    _DECISIONS.changed(
        "crash: never begun is no call",
        "    if not current.begun:\n        # Leases",
        "    if False:\n        # Leases",
        "a lease that ended before begin is taken for a call",
        "test_a_worker_that_dies_before_begin_has_made_no_call_and_used_up_no_attempt[claim_committed]",
    ),
    _DECISIONS.changed(
        "crash: begun is unknown",
        "    if current.outcome is Outcome.UNKNOWN or current.lease_over:\n"
        "        return _moved(current, (Move.QUARANTINE, current.reason or Reason.LEASE_EXPIRED))\n",
        "    if current.outcome is Outcome.UNKNOWN or current.lease_over:\n"
        "        return _moved(current, (Move.RETRY, current.reason or Reason.LEASE_EXPIRED), delay=timedelta())\n",
        "what began and was never heard of is sent again",
        "test_a_worker_that_dies_between_begin_and_record_leaves_an_ambiguous_message[request_sent-1]",
    ),
    _EVIDENCE.changed(
        "crash: what is recorded counts",
        "return max(_RANK[event] if event else 0, int(self.outcome is Outcome.ACCEPTED or self.vouched))",
        "return _RANK[event] if event else 0",
        "an outcome that a dead worker recorded is not looked at",
        "test_what_was_recorded_is_no_longer_unknown_when_its_worker_dies",
    ),
    _DECISIONS.changed(
        "crash: settled once",
        "    if not facts.token_is_current or facts.state is not State.LEASED:\n"
        "        return Settlement(answer=SettleAnswer.STALE)\n",
        "",
        "a finalize that is done again decides again",
        _FINALIZE,
        stands_in="the statements repeat the guard: the attempt is closed, and the second decision is rolled back",
    ),
    _TEMPORAL.changed(
        "crash: a run is joined",
        "id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING",
        "id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING",
        "a sweep that finds no note of a run ends the run and starts another",
        "test_a_sweep_that_dies_after_it_started_a_run_has_it_joined_by_the_next",
    ),
    _SWEEP.changed(
        "crash: a sweep takes up what is left",
        "for lease in await self._store.expired_leases(MOST_SETTLED):",
        "for lease in await self._store.expired_leases(0):",
        "what a sweep that died has left is not taken up by the next",
        "test_a_sweep_that_dies_between_two_leases_leaves_the_rest_to_the_next",
    ),
    _RESOLUTIONS.changed(
        "crash: a resolution is one transaction",
        "                await message.connection.execute(sa.insert(operator_audit), _line(ref, resolution))\n",
        "                await message.connection.execute(sa.insert(operator_audit), _line(ref, resolution))\n"
        "                await message.connection.commit()\n",
        "the audit says that a message was resolved, and it was not",
        "test_an_api_that_dies_at_a_resolution_leaves_it_done_whole_or_not_at_all[resolution_uncommitted-ambiguous-200]",
    ),
)
