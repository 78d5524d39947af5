"""The guards of settle in db/decisions.py: what evidence counts, and what may be tried again, and when."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/decisions.py", "tests/db/test_decisions.py")
_FACTS: Final = Source("db/evidence.py", "tests/db/test_decisions.py")

_EVIDENCE: Final = (
    _FACTS.changed(
        "attempt: strongest event",
        "return max(self.events,",
        "return min(self.events,",
        "of one attempt's events the weakest counts",
        "test_of_one_attempts_events_the_strongest_counts",
    ),
    _FACTS.without(
        "attempt: rejected",
        "        if event is EventType.REJECT:\n            return 0\n",
        "a rejection does not outweigh the acceptance of its own attempt",
        "test_a_rejection_outweighs_the_acceptance_of_its_own_attempt",
    ),
    _FACTS.changed(
        "attempt: accepted",
        "int(self.outcome is Outcome.ACCEPTED or self.vouched)",
        "int(self.vouched)",
        "the provider's own yes is no acceptance",
        "test_an_accepted_attempt_is_provider_accepted",
    ),
)

_RANK: Final = "    if best is not None and (heard or not current.begun or current.lease_over):\n"
_SETTLE: Final = (
    _IN.changed(
        "decide_settle: token",
        "not facts.token_is_current or facts.state is not State.LEASED",
        "facts.state is not State.LEASED",
        "settle does not ask whether its token is the message's",
        "test_settle_changes_nothing_under_a_stale_token",
    ),
    _IN.changed(
        "decide_settle: leased",
        "not facts.token_is_current or facts.state is not State.LEASED",
        "not facts.token_is_current",
        "settle does not ask whether the message is leased",
        "test_settle_changes_nothing_unless_the_message_is_leased",
    ),
    _IN.without(
        "decide_settle: after the lease only",
        "    if facts.settle_after_lease_only and not current.lease_over:\n"
        "        return Settlement(answer=SettleAnswer.STALE)\n",
        "the sweep settles leases that have not run out",
        "test_the_sweep_leaves_a_lease_alone_that_still_runs",
    ),
    _IN.changed(
        "decide_settle: acceptance",
        _RANK,
        _RANK.replace("best is not None and ", ""),
        "settle takes every end for an acceptance",
        "test_a_final_no_is_dead_with_its_reason",
    ),
    _IN.changed(
        "decide_settle: call under way",
        _RANK,
        "    if best is not None:\n",
        "an older acceptance ends a call that is still under way",
        "test_an_older_acceptance_does_not_end_a_call_that_is_still_under_way",
    ),
    _IN.changed(
        "decide_settle: accepted and heard",
        _RANK,
        _RANK.replace("heard or ", ""),
        "settle does not take the provider's yes before the lease is over",
        "test_an_accepted_attempt_is_provider_accepted",
    ),
    _IN.changed(
        "decide_settle: accepted before, and never begun",
        _RANK,
        _RANK.replace("not current.begun or ", ""),
        "an older acceptance does not stop an attempt that has not begun",
        "test_an_older_attempt_that_was_accepted_after_all_ends_a_lease_that_has_not_begun",
    ),
    _IN.changed(
        "decide_settle: accepted before, and lease over",
        _RANK,
        _RANK.replace(" or current.lease_over", ""),
        "an older acceptance does not count when a silent call's lease is over",
        "test_an_older_acceptance_counts_when_the_lease_of_a_silent_call_is_over",
    ),
    _IN.without(
        "decide_settle: reject event",
        "    if event is EventType.REJECT:\n"
        "        return _moved(current, (Move.PROVE, None), (Move.REJECT_LATE, Reason.REJECTED))\n",
        "settle does not heed a Reject event",
        "test_an_event_that_came_before_finalize_is_applied_by_it",
    ),
    _IN.without(
        "decide_settle: final no",
        "    if current.outcome is Outcome.REJECTED:\n        return _moved(current, (Move.REJECT, current.reason))\n",
        "settle does not heed a final no",
        "test_a_final_no_is_dead_with_its_reason",
    ),
    _IN.changed(
        "decide_settle: refused",
        "in (Outcome.REFUSED, Outcome.NOT_SUBMITTED)",
        "is Outcome.NOT_SUBMITTED",
        "settle does not heed a refusal",
        "test_a_no_that_may_change_is_retryable[refused]",
    ),
    _IN.changed(
        "decide_settle: not submitted",
        "in (Outcome.REFUSED, Outcome.NOT_SUBMITTED)",
        "is Outcome.REFUSED",
        "settle does not heed that nothing was submitted",
        "test_a_no_that_may_change_is_retryable[not_submitted]",
    ),
    _IN.changed(
        "decide_settle: unknown is no refusal",
        "in (Outcome.REFUSED, Outcome.NOT_SUBMITTED)",
        "in (Outcome.REFUSED, Outcome.NOT_SUBMITTED, Outcome.UNKNOWN)",
        "settle tries an unknown outcome again, as if it were a refusal",
        "test_an_unknown_outcome_is_ambiguous_at_once",
        "test_nothing_that_may_have_been_submitted_is_ever_free_to_be_claimed_again",
    ),
    _IN.changed(
        "decide_settle: begun",
        "    if not current.begun:\n",
        "    if True:\n",
        "settle makes every silent attempt retryable, begun or not",
        "test_a_begun_attempt_without_an_outcome_is_ambiguous_when_its_lease_is_over",
        "test_nothing_that_may_have_been_submitted_is_ever_free_to_be_claimed_again",
    ),
    _IN.changed(
        "decide_settle: never begun",
        "    if not current.begun:\n",
        "    if False:\n",
        "settle takes an attempt that never began for one that did",
        "test_an_attempt_that_never_began_is_retryable_and_closed",
    ),
    _IN.changed(
        "decide_settle: unknown at once",
        "    if current.outcome is Outcome.UNKNOWN or current.lease_over:\n",
        "    if current.lease_over:\n",
        "a recorded unknown is not ambiguous before the lease is over",
        "test_an_unknown_outcome_is_ambiguous_at_once",
    ),
    _IN.changed(
        "decide_settle: silent until the end",
        "    if current.outcome is Outcome.UNKNOWN or current.lease_over:\n",
        "    if current.outcome is Outcome.UNKNOWN:\n",
        "a silent attempt is never settled",
        "test_a_begun_attempt_without_an_outcome_is_ambiguous_when_its_lease_is_over",
    ),
    _IN.changed(
        "decide_settle: wait",
        "    if current.outcome is Outcome.UNKNOWN or current.lease_over:\n",
        "    if True:\n",
        "finalize does not wait for the end of the lease before it says ambiguous",
        "test_a_begun_attempt_without_an_outcome_waits_for_the_end_of_its_lease",
    ),
    _IN.changed(
        "decide_settle: closed as never begun",
        "Outcome.UNKNOWN if current.begun else Outcome.NOT_BEGUN",
        "Outcome.UNKNOWN",
        "an attempt that never began is closed as unknown",
        "test_an_attempt_that_never_began_is_retryable_and_closed",
    ),
    _IN.changed(
        "decide_settle: closed as unknown",
        "Outcome.UNKNOWN if current.begun else Outcome.NOT_BEGUN",
        "Outcome.NOT_BEGUN",
        "an attempt that began and is silent is closed as never begun",
        "test_a_begun_attempt_without_an_outcome_is_ambiguous_when_its_lease_is_over",
    ),
)

_RETRY: Final = (
    _IN.changed(
        "account: refusals",
        "    if current.reason in ACCOUNT_REASONS:\n",
        "    if False:\n",
        "a refusal of the whole account is one of this message",
        "test_a_refusal_of_the_whole_account_uses_up_no_attempt_and_waits_long",
    ),
    _IN.changed(
        "account: attempt given back",
        "delay=delay, gives_attempt_back=True)",
        "delay=delay)",
        "a refusal of the whole account uses up an attempt",
        "test_a_refusal_of_the_whole_account_uses_up_no_attempt_and_waits_long",
    ),
    _IN.changed(
        "account: long wait",
        "delay = limits.account_wait * (1 + spread)",
        "delay = backoff(limits, used, spread)",
        "a refusal of the whole account is asked about again soon",
        "test_a_refusal_of_the_whole_account_uses_up_no_attempt_and_waits_long",
    ),
    _IN.without(
        "retry: last attempt",
        "    if used >= limits.attempts:\n        return _moved(current, (Move.REJECT, Reason.ATTEMPTS_EXHAUSTED))\n",
        "a refusal of the last attempt is tried again",
        "test_a_no_to_the_last_attempt_is_dead",
    ),
    _IN.changed(
        "backoff: cap",
        "return min(limits.backoff_cap, grown) * jitter",
        "return grown * jitter",
        "the backoff grows without end",
        "test_backoff_doubles_up_to_its_cap",
    ),
    _IN.changed(
        "backoff: growth bounded",
        " - 1, 32)",
        " - 1, 10_000)",
        "the backoff of very many attempts overflows",
        "test_backoff_is_full_jitter_below_a_cap",
    ),
    _IN.changed(
        "backoff: growth",
        "grown: timedelta = limits.backoff_base * 2**exponent",
        "grown: timedelta = limits.backoff_base * (1 + 0 * exponent)",
        "the backoff does not grow",
        "test_backoff_doubles_up_to_its_cap",
    ),
    _IN.changed(
        "backoff: leases in vain",
        "delay=backoff(limits, in_vain, spread)",
        "delay=backoff(limits, 1, spread)",
        "under overload messages come back as fast as ever, and only claim",
        "test_each_lease_that_ends_before_anything_began_makes_the_wait_longer",
    ),
    _IN.changed(
        "backoff: jitter used",
        "return min(limits.backoff_cap, grown) * jitter",
        "return min(limits.backoff_cap, grown)",
        "the backoff has no jitter",
        "test_messages_that_were_refused_together_do_not_come_back_together",
    ),
    _IN.changed(
        "backoff: jitter drawn",
        "spread = random.random() if jitter is None else jitter",
        "spread = 1.0 if jitter is None else jitter",
        "every message draws the same jitter",
        "test_messages_that_were_refused_together_do_not_come_back_together",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_EVIDENCE, *_SETTLE, *_RETRY)
