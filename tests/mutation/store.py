"""The guards of db/store.py and db/transaction.py: what a transaction looks at between its statements."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/store.py", "tests/db/test_store.py")
_TRANSACTION: Final = Source("db/transaction.py", "tests/db/test_store.py")
_FACTS: Final = "tests/db/test_facts.py::"
_RACES: Final = "tests/db/test_races.py"

_CLAIM_AND_BEGIN: Final = (
    _IN.changed(
        "claim: statement said no",
        "                    if taken is None:  # the guards of the statement said no, though the decision said yes\n"
        "                        return Claimed(answer=ClaimAnswer.BUSY, state=state, wait=timedelta())\n",
        "",
        "claim does not look whether its statement wrote",
        _RACES,
        stands_in="the decision reads the same facts under the same row lock",
    ),
    _IN.without(
        "begin: no attempt",
        "            if row is None:\n                return Begun(answer=BeginAnswer.REFUSED)\n",
        "begin does not ask whether there is such an attempt",
        _FACTS + "test_a_begin_is_refused_and_writes_nothing_though_policy_says_no[without an attempt]",
    ),
    _IN.without(
        "begin: suppress closes",
        "                    await message.close(token, Outcome.NOT_BEGUN, reason)\n",
        "a begin that policy stops does not close its attempt",
        "test_policy_that_turns_bad_after_the_claim_stops_the_begin",
    ),
    _IN.without(
        "begin: release closes",
        "                    await message.close(token, Outcome.RELEASED, reason)\n",
        "a begin that is released does not close its attempt",
        "test_a_switched_off_provider_takes_no_lease_and_gives_one_back_that_has_not_begun",
    ),
    _IN.without(
        "begin: statement said no",
        "                    if begun is None:  # the lease ran short between the decision and the write\n"
        "                        return Begun(answer=BeginAnswer.REFUSED)\n",
        "begin does not look whether its statement wrote",
        f"{_RACES}::test_a_begin_whose_attempt_is_closed_past_the_row_lock_is_refused",
    ),
    _IN.without(
        "begin: attempt counted",
        "                    await message.one(statements.USE_ATTEMPT, this_token=token)\n",
        "begin does not use up an attempt",
        "test_refusals_are_tried_again_until_the_attempts_are_used_up",
    ),
)

_OWN_BEGIN: Final = "        if row is None or row.begin_id != begin_id:\n            return Reread.STOP\n"
_CURRENT: Final = "row.token_is_current and row.state == State.LEASED and row.attempt_open"
_MAY_CALL: Final = _FACTS + "test_a_body_that_rereads_a_begin_may_call_only_if_everything_is_as_begin_left_it"
_REREAD: Final = (
    _IN.changed(
        "reread: no attempt",
        _OWN_BEGIN,
        _OWN_BEGIN.replace("row is None or ", ""),
        "a body that lost its begin's reply does not ask whether there is such an attempt",
        f"{_MAY_CALL}[without an attempt]",
    ),
    _IN.changed(
        "reread: begin id",
        _OWN_BEGIN,
        _OWN_BEGIN.replace(" or row.begin_id != begin_id", ""),
        "a body that lost its begin's reply does not ask whose begin stands",
        f"{_MAY_CALL}[somebody else's]",
    ),
    _IN.changed(
        "reread: token",
        _CURRENT,
        "row.state == State.LEASED and row.attempt_open",
        "a body that lost its begin's reply does not ask whether its token is the message's",
        f"{_MAY_CALL}[under a stale token]",
    ),
    _IN.changed(
        "reread: leased",
        _CURRENT,
        "row.token_is_current and row.attempt_open",
        "a body that lost its begin's reply does not ask whether the message is leased",
        f"{_MAY_CALL}[of a message that is not leased]",
    ),
    _IN.changed(
        "reread: open",
        _CURRENT,
        "row.token_is_current and row.state == State.LEASED",
        "a body that lost its begin's reply does not ask whether its attempt was closed",
        f"{_MAY_CALL}[of a closed attempt]",
    ),
    _IN.changed(
        "reread: lease",
        "Reread.CALL if current and row.lease_suffices else Reread.UNSENT",
        "Reread.CALL if current else Reread.UNSENT",
        "a body that lost its begin's reply does not ask whether the lease has the call budget left",
        f"{_MAY_CALL}[with too little lease]",
    ),
)

_RECORD: Final = (
    _IN.changed(
        "record: own begin",
        "if row is None or row.begin_id != begin_id:\n        return Recorded.NOT_OURS\n",
        "if row is None:\n        return Recorded.NOT_OURS\n",
        "record keeps the result of a body that did not begin the attempt",
        "test_nobody_records_into_an_attempt_that_another_body_began",
    ),
    _IN.changed(
        "record: no attempt",
        "if row is None or row.begin_id != begin_id:\n        return Recorded.NOT_OURS\n",
        "if row.begin_id != begin_id:\n        return Recorded.NOT_OURS\n",
        "record does not ask whether there is such an attempt",
        _FACTS + "test_nobody_records_into_an_attempt_that_there_is_not",
    ),
    _IN.without(
        "record: same result",
        "    if (row.outcome, row.provider_message_id) == (result.outcome, result.provider_message_id):\n"
        "        return Recorded.RECORDED\n",
        "a record that is made again is late",
        "test_a_record_whose_reply_was_lost_is_found_recorded",
    ),
    _IN.changed(
        "record: same outcome",
        "(row.outcome, row.provider_message_id) == (result.outcome, result.provider_message_id)",
        "row.provider_message_id == result.provider_message_id or result.provider_message_id",
        "record takes another outcome for its own",
        _FACTS + "test_only_the_very_same_result_counts_as_recorded_already[another outcome]",
    ),
    _IN.changed(
        "record: same id",
        "(row.outcome, row.provider_message_id) == (result.outcome, result.provider_message_id)",
        "row.outcome == result.outcome",
        "record takes an acceptance under another id for its own",
        _FACTS + "test_only_the_very_same_result_counts_as_recorded_already[another id]",
    ),
    _IN.changed(
        "record: late result kept",
        "    await message.connection.execute(\n        statements.KEEP_LATE_RESULT,\n",
        "    (\n        statements.KEEP_LATE_RESULT,\n",
        "the result of a stale worker is thrown away",
        "test_a_late_result_is_kept_as_evidence_and_moves_nothing",
    ),
)

_STALE: Final = _FACTS + "test_a_finalize_that_is_not_the_lease_holders_changes_nothing_and_says_when_the_lease_ends"
_SETTLE: Final = (
    _IN.without(
        "finalize: wait",
        "    if settlement.answer is SettleAnswer.WAIT:\n"
        "        return Finalized(answer=FinalAnswer.WAIT, state=state, wait=lease_left)\n",
        "finalize does not say that a call may still be under way",
        "test_finalize_waits_while_a_call_may_be_under_way",
    ),
    _IN.without(
        "finalize: newer lease",
        "    if state is State.LEASED:  # a newer claim's lease: look again when it ends\n"
        "        return Finalized(answer=FinalAnswer.AGAIN, state=state, wait=_wait(row.lease_in))\n",
        "finalize takes somebody else's lease for an end",
        f"{_STALE}[stale]",
    ),
    _IN.without(
        "finalize: again",
        "    if state in CLAIMABLE:\n"
        "        return Finalized(answer=FinalAnswer.AGAIN, state=state, wait=_wait(row.due_in))\n",
        "finalize takes a message that is free to be claimed for settled",
        "test_refusals_are_tried_again_until_the_attempts_are_used_up",
    ),
    _IN.without(
        "settle: no attempt",
        "    if current is None:\n        return Settlement(answer=SettleAnswer.STALE), timedelta()\n",
        "settle does not ask whether there is such an attempt",
        f"{_STALE}[nobody's]",
    ),
    _IN.changed(
        "settle: token",
        "token_is_current=current.message_token == current.token",
        "token_is_current=True",
        "settle takes every attempt's token for the message's",
        f"{_STALE}[stale]",
    ),
    _IN.without(
        "settle: closes",
        "        await message.close(current.token, settlement.closes_as, settlement.closes_because)\n",
        "a settled message's attempt stays open",
        "test_a_late_body_cannot_begin_what_was_settled",
        "test_a_message_goes_from_queued_to_provider_accepted",
    ),
    _IN.changed(
        "sweep: after the lease only",
        "after_lease_only=True",
        "after_lease_only=False",
        "the sweep settles leases that have not run out",
        "test_the_sweep_refuses_a_lease_that_still_runs",
    ),
)

_TRANSACTIONS: Final = (
    _TRANSACTION.without(
        "transaction: unknown message",
        "            if await message.first(by) is None:\n                raise UnknownMessageError\n",
        "no transaction takes the message row, or asks whether there is one",
        "test_a_claim_of_a_message_that_nobody_accepted_is_an_error",
    ),
    _TRANSACTION.changed(
        "transaction: a move must happen",
        "        await self.one(statements.MOVES[move], **values)\n",
        "        await self.first(statements.MOVES[move], **values)\n",
        "a move that its statement refuses goes unseen",
        "tests/db/test_facts.py",
        stands_in="the decision reads the same facts under the same row lock",
    ),
    _TRANSACTION.changed(
        "transaction: an attempt must close",
        "        await self.one(statements.CLOSE, this_token",
        "        await self.first(statements.CLOSE, this_token",
        "an attempt that was closed already goes unseen",
        f"{_RACES}::test_a_settlement_whose_attempt_is_closed_past_the_row_lock_moves_nothing",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_CLAIM_AND_BEGIN, *_REREAD, *_RECORD, *_SETTLE, *_TRANSACTIONS)
