"""The guards of claim and begin in db/decisions.py: what they look at before they decide."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/decisions.py", "tests/db/test_decisions.py")

_POLICY: Final = tuple(
    _IN.without(
        f"policy: {fact}",
        f"            (self.{fact}, Reason.{fact.upper()}),\n",
        f"policy does not know '{fact}'",
        f"test_policy_stops_a_claim[{fact}]",
        f"test_policy_stops_a_begin[{fact}]",
    )
    for fact in ("tenant_disabled", "sender_disabled", "credential_revoked", "scope_missing", "recipient_suppressed")
)

_CLAIM: Final = (
    _IN.without(
        "decide_claim: own lease",
        "    if facts.own_attempt_open is not None:\n"
        "        return (ClaimAnswer.LEASED if facts.own_attempt_open else ClaimAnswer.LOST), None\n",
        "a claim that is run again does not look for its own lease",
        "test_a_repeated_claim_finds_its_own_lease",
        "test_a_repeated_claim_whose_lease_is_over_is_lost_and_takes_none_anew",
    ),
    _IN.changed(
        "decide_claim: lost",
        "(ClaimAnswer.LEASED if facts.own_attempt_open else ClaimAnswer.LOST)",
        "ClaimAnswer.LEASED",
        "a claim that is run again does not ask whether its lease is over",
        "test_a_repeated_claim_whose_lease_is_over_is_lost_and_takes_none_anew",
    ),
    _IN.without(
        "decide_claim: busy",
        "    if facts.state is State.LEASED:\n        return ClaimAnswer.BUSY, None\n",
        "claim does not tell somebody else's lease from an end",
        "test_a_leased_message_is_busy",
    ),
    _IN.without(
        "decide_claim: settled",
        "    if facts.state not in CLAIMABLE:\n        return ClaimAnswer.SETTLED, None\n",
        "claim does not ask whether the message is free to be claimed",
        "test_a_message_in_any_other_state_is_settled",
    ),
    _IN.without(
        "decide_claim: due",
        "    if not facts.due:\n        return ClaimAnswer.NOT_DUE, None\n",
        "claim does not wait until the message is due",
        "test_a_message_that_is_not_due_waits",
    ),
    _IN.without(
        "decide_claim: switch",
        "    if facts.provider_paused:\n        return ClaimAnswer.PAUSED, Reason.PROVIDER_PAUSED\n",
        "claim does not look at the provider switch",
        "test_no_lease_is_taken_while_the_provider_is_switched_off",
    ),
    _IN.without(
        "decide_claim: policy",
        "    if refusal := facts.policy.refusal():\n        return ClaimAnswer.SUPPRESSED, refusal\n",
        "claim does not look at suppression, tenant, sender and credential",
        "test_policy_stops_a_claim",
    ),
    _IN.without(
        "decide_claim: attempts",
        "    if facts.attempts_used >= limits.attempts:\n        return ClaimAnswer.DEAD, Reason.ATTEMPTS_EXHAUSTED\n",
        "claim does not count the attempts",
        "test_a_message_whose_attempts_are_used_up_is_dead",
    ),
    _IN.changed(
        "decide_claim: last attempt",
        "facts.attempts_used >= limits.attempts",
        "facts.attempts_used > limits.attempts",
        "claim allows one attempt more than the limit",
        "test_a_message_whose_attempts_are_used_up_is_dead",
    ),
    _IN.without(
        "decide_claim: age",
        "    if facts.too_old:\n        return ClaimAnswer.DEAD, Reason.EXPIRED\n",
        "claim does not ask how old the message is",
        "test_a_message_that_is_too_old_is_dead",
    ),
)

_BEGIN: Final = (
    _IN.without(
        "decide_begin: token",
        "        facts.token_is_current\n        and ",
        "begin does not ask whether its token is the message's",
        "test_begin_refuses_a[stale token]",
    ),
    _IN.without(
        "decide_begin: leased",
        "        and facts.state is State.LEASED\n",
        "begin does not ask whether the message is leased",
        "test_begin_refuses_a_message_that_is_not_leased",
    ),
    _IN.without(
        "decide_begin: open",
        "        and facts.attempt_open\n",
        "begin does not ask whether its attempt was closed",
        "test_begin_refuses_a[closed attempt]",
    ),
    _IN.without(
        "decide_begin: unbegun",
        "        and not facts.attempt_begun\n",
        "begin does not ask whether its attempt has begun",
        "test_begin_refuses_a[begun already]",
    ),
    _IN.without(
        "decide_begin: lease",
        "        and facts.lease_suffices\n",
        "begin does not ask whether the lease has the call budget left",
        "test_begin_refuses_a[too little lease]",
    ),
    _IN.without(
        "decide_begin: policy",
        "    if refusal := facts.policy.refusal():\n        return BeginAnswer.SUPPRESSED, refusal\n",
        "begin does not look at the policy again",
        "test_policy_stops_a_begin",
    ),
    _IN.without(
        "decide_begin: switch",
        "    if facts.provider_paused:\n        return BeginAnswer.RELEASED, Reason.PROVIDER_PAUSED\n",
        "begin does not look at the provider switch",
        "test_a_begin_is_released_while_the_provider_is_switched_off",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_POLICY, *_CLAIM, *_BEGIN)
