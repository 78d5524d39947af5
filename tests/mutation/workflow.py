"""The guards of workflows/: the order of steps, the waits, and what Temporal may learn of a failure."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("workflows/message.py", "tests/workflows/test_message.py")
_POLICIES: Final = Source("workflows/policies.py", "tests/workflows/test_message.py")
_FAILURES: Final = Source("workflows/failures.py", "tests/workflows/test_delivery.py")
_WORKER: Final = Source("worker.py", "tests/workflows/test_delivery.py")
_START: Final = Source("workflows/temporal.py", "tests/workflows/test_temporal_operations_on_runs.py")
_BRANCH: Final = "test_each_branch_ends_where_it_should_and_uses_its_whole_script"
_WAITS: Final = "test_it_waits_as_long_as_it_is_told"

_STEPS: Final = (
    _IN.changed(
        "workflow: claim id",
        "claim_id=str(workflow.uuid4())",
        "claim_id=message.message_id",
        "every try claims under the same id",
        "test_each_claim_has_an_id_of_its_own",
    ),
    _IN.changed(
        "workflow: finalize after a failed submit",
        '        except ActivityError:\n            workflow.logger.warning("submit_without_result")\n',
        "        except ActivityError:\n            raise\n",
        "a submit without a result ends the run, and nobody asks the row",
        f"{_BRANCH}[submit_failed]",
    ),
    _POLICIES.changed(
        "workflow: submit once",
        "ONCE: Final = RetryPolicy(maximum_attempts=1)",
        "ONCE: Final = RetryPolicy(maximum_attempts=2)",
        "Temporal runs a failed submit again",
        f"{_BRANCH}[submit_failed]",
    ),
    _IN.changed(
        "workflow: wait for the lease",
        "            if reply.answer is not FinalAnswer.WAIT:\n                return reply\n",
        "            return reply\n",
        "the run claims anew while its call may still be under way",
        f"{_BRANCH}[waited_for_the_lease]",
    ),
    _IN.without(
        "workflow: lease's wait",
        '            await _wait(reply.wait_seconds, "unanswered: wait for the end of the lease")\n',
        "finalize is asked again at once",
        f"{_WAITS}[unanswered]",
    ),
    _IN.without(
        "workflow: backoff's wait",
        '                    await _wait(end.wait_seconds, f"{end.state}: next try")\n',
        "the next try does not wait for its backoff",
        f"{_WAITS}[backoff]",
    ),
    _IN.changed(
        "workflow: look-again's wait",
        '                    await _wait(claim.wait_seconds, f"{claim.answer}: look again")\n',
        "                    pass\n",
        "a claim that was told to wait is made again at once",
        f"{_WAITS}[busy]",
        f"{_WAITS}[paused]",
    ),
    _IN.changed(
        "workflow: long history",
        "            if workflow.info().is_continue_as_new_suggested():",
        "            if False:",
        "a message that waits for long makes a history without end",
        "test_a_history_that_grows_long_is_continued_in_a_new_run",
    ),
    _IN.changed(
        "workflow: shortest wait",
        "max(timedelta(seconds=seconds), policies.SHORTEST_WAIT)",
        "timedelta(seconds=seconds)",
        "a wait of nothing spins",
        "test_a_wait_of_nothing_does_not_spin",
    ),
)

_LOGGED: Final = '            _log.error("activity_failed", error=type(error).__name__, activity=input.fn.__name__)\n'
_RAISED: Final = "            raise ApplicationError(code, type=code, non_retryable=final)"
_TEXT: Final = "test_no_exceptions_text_reaches_temporal"
_FAILED: Final = (
    _FAILURES.changed(
        "failures: no cause",
        _LOGGED,
        f"{_LOGGED}{_RAISED} from error\n",
        "the text of an exception stands in the history as a cause",
        _TEXT,
    ),
    _FAILURES.changed(
        "failures: no context",
        _LOGGED,
        f"{_LOGGED}{_RAISED}\n",
        "the text of the exception that is being handled stands in the history as a cause",
        _TEXT,
    ),
    _FAILURES.changed(
        "failures: outside of the except block",
        _LOGGED,
        f"{_LOGGED}{_RAISED} from None\n",
        "the raise stands where an exception is being handled",
        _TEXT,
        stands_in="`from None` hides the exception that is being handled",
    ),
    _FAILURES.changed(
        "failures: from None",
        "non_retryable=final) from None",
        "non_retryable=final)",
        "the raise does not say that it has no cause",
        _TEXT,
        stands_in="outside of the except block no exception is being handled",
    ),
    _FAILURES.changed(
        "failures: unknown message is final",
        'code, final = "unknown_message", True',
        'code, final = "unknown_message", False',
        "a message that this database does not know is asked for again without end",
        "test_a_message_that_this_database_does_not_know_fails_its_workflow",
    ),
    _WORKER.changed(
        "failures: installed",
        "        graceful_shutdown_timeout=grace,\n"
        "        interceptors=[SanitizeFailures()],\n"
        "    )\n"
        "    return claims, messages\n",
        "        graceful_shutdown_timeout=grace,\n    )\n    return claims, messages\n",
        "the worker gives Temporal the text of every exception of submit",
        _TEXT,
    ),
)

_OPERATED: Final = (
    _IN.without(
        "workflow: cancel waits for the call",
        "                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,\n",
        "a cancelled run takes its submit for over while the call is under way",
        f"{_START.tests}::test_a_call_whose_run_is_ended_or_reset_is_recorded_or_ambiguous_at_the_end_of_its_lease",
    ),
    _START.changed(
        "start: another run of a closed one",
        "id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,",
        "id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,",
        "a message whose run was ended by a person gets no other, and goes out never",
        "test_a_run_that_is_ended_before_its_claim_is_started_again_by_the_sweep",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_STEPS, *_FAILED, *_OPERATED)
