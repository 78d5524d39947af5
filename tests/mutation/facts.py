"""The guards of what is read in db/statements.py: the row lock, the policy, and the facts of each decision."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/statements.py", "tests/db/test_statements.py")
_STORE: Final = "tests/db/test_store.py::"
_FACTS: Final = "tests/db/test_facts.py::"
_RACES: Final = "tests/db/test_races.py::"
_AT_CLAIM: Final = _STORE + "test_policy_that_turns_bad_after_queueing_stops_the_claim"
_SWITCHED_OFF: Final = _STORE + "test_a_switched_off_provider_takes_no_lease_and_gives_one_back_that_has_not_begun"

_LOCK: Final = (
    _IN.without(
        "LOCK: for update",
        ".with_for_update()",
        "no transaction takes the message row before it decides",
        _RACES + "test_a_begin_that_waited_for_the_row_sees_a_suppression_that_came_meanwhile",
        _RACES + "test_of_many_bodies_one_begins",
    ),
)

_POLICY_COLUMNS: Final = (
    ("tenant_disabled", '(tenants.c.state != "active")'),
    ("sender_disabled", '(senders.c.state != "active")'),
    ("credential_revoked", "credentials.c.revoked_at.is_not(None)"),
    ("scope_missing", 'sa.not_(sa.literal("messages:send") == sa.any_(credentials.c.scopes))'),
)
_POLICY: Final = (
    *(
        _IN.changed(
            f"_POLICY: {label}",
            f'    {column}.label("{label}"),\n',
            f'    sa.false().label("{label}"),\n',
            f"claim and begin do not read '{label}'",
            f"{_AT_CLAIM}[{label}]",
        )
        for label, column in _POLICY_COLUMNS
    ),
    _IN.changed(
        "_POLICY: recipient_suppressed",
        '_SUPPRESSED.label("recipient_suppressed")',
        'sa.false().label("recipient_suppressed")',
        "claim and begin do not read the suppressions",
        f"{_AT_CLAIM}[suppressed]",
    ),
    _IN.changed(
        "_POLICY: provider_paused",
        'providers.c.paused.label("provider_paused")',
        'sa.false().label("provider_paused")',
        "claim and begin do not read the provider switch",
        _SWITCHED_OFF,
    ),
)

_OF_THIS_MESSAGE: Final = '.where(recipients.c.message_id == messages.c.id, recipients.c.role == "to")'
_SUPPRESSED: Final = (
    _IN.without(
        "_MATCHED: tenant",
        "    suppressions.c.tenant_id == recipients.c.tenant_id,\n",
        "another tenant's suppression stops a message",
        _FACTS + "test_another_tenants_suppression_stops_nothing",
    ),
    _IN.without(
        "_MATCHED: address",
        "    suppressions.c.address_hash == recipients.c.address_hash,\n",
        "the suppression of anybody stops every message",
        _FACTS + "test_another_messages_recipient_stops_nothing",
    ),
    _IN.changed(
        "_SUPPRESSED: message",
        _OF_THIS_MESSAGE,
        '.where(recipients.c.role == "to")',
        "a suppression stops every message of its tenant",
        _FACTS + "test_another_messages_recipient_stops_nothing",
    ),
    _IN.changed(
        "_SUPPRESSED: primary recipient",
        _OF_THIS_MESSAGE,
        ".where(recipients.c.message_id == messages.c.id)",
        "a suppressed copy stops the message",
        _FACTS + "test_a_suppressed_copy_is_left_out_and_the_others_are_not",
    ),
    _IN.without(
        "_MATCHED: removed",
        "    suppressions.c.removed_at.is_(None),\n",
        "a suppression that was removed still stops a message",
        _STORE + "test_a_suppression_for_another_purpose_or_one_that_was_removed_stops_nothing",
    ),
    _IN.without(
        "_MATCHED: scope",
        '    suppressions.c.scope.in_(("all", messages.c.purpose)),\n',
        "a suppression for another purpose stops a message",
        _STORE + "test_a_suppression_for_another_purpose_or_one_that_was_removed_stops_nothing",
    ),
    _IN.changed(
        "_SUPPRESSED_COPIES: copies only",
        '        recipients.c.role != "to",\n        sa.exists(',
        "        sa.exists(",
        "the primary recipient is left out of a mail to the copies alone",
        _FACTS + "test_the_primary_recipient_is_no_copy",
    ),
    _IN.changed(
        "LEAVE_OUT: what an event wrote",
        "        sa.or_(recipients.c.outcome.is_(None), recipients.c.outcome == RecipientOutcome.SUPPRESSED),\n",
        "",
        "what became of a copy is forgotten at the next claim",
        _FACTS + "test_a_copy_that_bounced_before_keeps_its_outcome_and_is_left_out",
    ),
    _IN.changed(
        "_SUPPRESSED: scope of its purpose",
        '("all", messages.c.purpose)',
        '("all",)',
        "a suppression for the message's purpose does not stop it",
        f"{_AT_CLAIM}[suppressed for its purpose]",
    ),
)

_OWN: Final = (
    "            sa.and_(_own.c.message_id == messages.c.id,"
    ' _own.c.claim_id == sa.bindparam("this_claim", type_=sa.Text)),\n'
)
_CLAIM_FACTS: Final = (
    _IN.changed(
        "CLAIM_FACTS: due",
        '(messages.c.due_at <= _NOW).label("due")',
        'sa.true().label("due")',
        "claim takes every message for due",
        _FACTS + "test_a_message_that_is_not_due_is_told_how_long_to_wait",
    ),
    _IN.changed(
        "CLAIM_FACTS: age",
        '(messages.c.age_from <= _NOW - sa.bindparam("max_age", type_=sa.Interval)).label("too_old")',
        'sa.false().label("too_old")',
        "claim takes no message for too old",
        _STORE + "test_a_message_that_is_too_old_is_given_up_without_a_call",
    ),
    _IN.changed(
        "CLAIM_FACTS: own lease open",
        "sa.case((_own.c.token.is_not(None), _own.c.closed_at.is_(None)))",
        "sa.case((_own.c.token.is_not(None), sa.true()))",
        "a claim that is run again takes its closed lease for open",
        _STORE + "test_a_claim_that_is_run_again_after_its_lease_takes_none_anew",
    ),
    _IN.changed(
        "CLAIM_FACTS: own claim id",
        _OWN,
        "            _own.c.message_id == messages.c.id,\n",
        "a claim takes anybody's lease for its own",
        _STORE + "test_another_claim_is_told_how_long_the_lease_runs",
    ),
    _IN.changed(
        "CLAIM_FACTS: own message",
        _OWN,
        _OWN.replace("_own.c.message_id == messages.c.id, ", ""),
        "a claim finds a lease of another message",
        _SWITCHED_OFF,
    ),
)

_REFUSED: Final = _FACTS + "test_a_begin_is_refused_and_writes_nothing_though_policy_says_no"
_BEGIN_FACTS: Final = (
    _IN.changed(
        "BEGIN_FACTS: token",
        '(messages.c.token == attempts.c.token).label("token_is_current")',
        'sa.true().label("token_is_current")',
        "begin takes every token for the message's",
        f"{_REFUSED}[under a stale token]",
    ),
    _IN.changed(
        "BEGIN_FACTS: open",
        'attempts.c.closed_at.is_(None).label("attempt_open")',
        'sa.true().label("attempt_open")',
        "begin takes every attempt for open",
        f"{_REFUSED}[of a closed attempt]",
    ),
    _IN.changed(
        "BEGIN_FACTS: begun",
        'attempts.c.begun_at.is_not(None).label("attempt_begun")',
        'sa.false().label("attempt_begun")',
        "begin takes no attempt for begun",
        f"{_REFUSED}[of a begun attempt]",
    ),
    _IN.changed(
        "BEGIN_FACTS: lease",
        '(attempts.c.lease_expires_at > _NOW + sa.bindparam("needs", type_=sa.Interval)).label("lease_suffices")',
        'sa.true().label("lease_suffices")',
        "begin takes every lease for long enough",
        f"{_REFUSED}[with too little lease]",
    ),
)

_SETTLE_FACTS: Final = (
    _IN.changed(
        "SETTLE_FACTS: begun",
        'attempts.c.begun_at.is_not(None).label("begun")',
        'sa.false().label("begun")',
        "settle takes no attempt for begun",
        _STORE + "test_finalize_waits_while_a_call_may_be_under_way",
    ),
    _IN.changed(
        "SETTLE_FACTS: lease still runs",
        '(attempts.c.lease_expires_at <= _NOW).label("lease_over")',
        'sa.true().label("lease_over")',
        "settle takes every lease for over",
        _STORE + "test_finalize_waits_while_a_call_may_be_under_way",
    ),
    _IN.changed(
        "SETTLE_FACTS: lease over",
        '(attempts.c.lease_expires_at <= _NOW).label("lease_over")',
        'sa.false().label("lease_over")',
        "settle takes no lease for over",
        _STORE + "test_the_sweep_settles_what_ran_out_and_touches_no_live_lease",
    ),
    _IN.without(
        "SETTLE_FACTS: event of this message",
        "                evidence.c.message_id == attempts.c.message_id,\n",
        "an event counts for every message",
        _FACTS + "test_an_event_counts_for_its_own_attempt_of_its_own_message_only",
    ),
    _IN.without(
        "SETTLE_FACTS: event of this attempt",
        "                evidence.c.attempt == attempts.c.number,\n",
        "an event counts for every attempt of its message",
        _FACTS + "test_an_event_counts_for_its_own_attempt_of_its_own_message_only",
    ),
    _IN.without(
        "SETTLE_FACTS: events only",
        "                evidence.c.kind == EvidenceKind.EVENT,\n",
        "a late result is read as an event",
        _FACTS + "test_a_late_result_is_no_event",
    ),
    _IN.changed(
        "SETTLE_FACTS: events",
        "                evidence.c.kind == EvidenceKind.EVENT,\n",
        "                evidence.c.kind == EvidenceKind.EVENT,\n                sa.false(),\n",
        "settle does not read the events that came before it",
        _FACTS + "test_an_event_that_was_stored_before_finalize_is_its_evidence",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_LOCK, *_POLICY, *_SUPPRESSED, *_CLAIM_FACTS, *_BEGIN_FACTS, *_SETTLE_FACTS)
