"""The guards of provider events: who is believed, what is kept once, and where events take a message."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_STORE: Final = Source("db/events.py", "tests/db/test_events.py")
_STATEMENTS: Final = Source("db/event_statements.py", "tests/db/test_events.py")
_EVIDENCE: Final = Source("db/evidence.py", "tests/db/test_events.py")
_SNS: Final = Source("api/sns.py", "tests/api/test_sns.py")
_DOOR: Final = Source("api/event_intake.py", "tests/api/test_provider_events.py")
_CONSUMER: Final = Source("api/consumer.py", "tests/api/test_consumer.py")
_ONCE: Final = "test_in_whatever_order_events_come_the_strongest_wins_and_each_stands_once"

GUARDS: Final[tuple[Mutant, ...]] = (
    _EVIDENCE.changed(
        "decide_event: begun",
        "        if current.begun or best is None:\n",
        "        if best is None:\n",
        "an event ends a lease whose call is under way",
        "test_an_event_waits_for_settle_while_its_attempt_is_begun",
    ),
    _EVIDENCE.changed(
        "decide_event: closes",
        "moves=_proven(best), closes_current=True",
        "moves=_proven(best)",
        "an attempt stays open though its message moved on",
        "test_an_event_about_an_older_attempt_closes_one_that_has_not_begun",
    ),
    _EVIDENCE.without(
        "upwards: never down",
        "    if RANKS.index(goal) <= RANKS.index(state):\n        return ()\n",
        "a weaker event takes a message back",
        _ONCE,
    ),
    _EVIDENCE.changed(
        "decide_event: rejection of the present attempt",
        "facts.state is State.AMBIGUOUS and named.is_current",
        "facts.state is State.AMBIGUOUS",
        "the rejection of an older attempt ends a newer one's ambiguity",
        "test_a_rejection_of_an_older_attempt_leaves_a_newer_ones_ambiguity_alone",
    ),
    _EVIDENCE.changed(
        "rank: vouched",
        "int(self.outcome is Outcome.ACCEPTED or self.vouched)",
        "int(self.outcome is Outcome.ACCEPTED)",
        "what a person vouched for counts nothing",
        "test_what_a_person_vouched_for_outlives_the_rejection_of_another_attempt",
    ),
    _STORE.changed(
        "event: once in the timeline",
        "    if new and not moved.moves:\n",
        "    if not moved.moves:\n",
        "a repeat is written down again",
        _ONCE,
    ),
    _STORE.changed(
        "event: the primary recipient",
        '    if event in _OUTCOME and not any(to.role == "to" for to in about):\n        return EventType.OTHER\n',
        "",
        "what became of a copy moves the message",
        "test_an_event_that_names_only_a_copy_proves_acceptance_and_writes_the_copys_outcome",
    ),
    _STORE.changed(
        "event: suppresses once",
        "    if new:\n        await _write_outcomes",
        "    if True:\n        await _write_outcomes",
        "a repeat undoes a person's removal of a suppression",
        "test_a_bounce_or_complaint_suppresses_once_and_a_removal_is_not_undone_by_a_repeat",
    ),
    _STORE.without(
        "event: waits no more",
        '    await message.connection.execute(event_statements.MATCHED, {"this_event": event_id})\n',
        "a matched event is looked for for ever",
        "test_an_event_that_comes_before_its_message_waits_and_is_applied_once",
    ),
    _STORE.changed(
        "event: tags",
        "return _Named(message_id=message_id, attempt=attempt) if 0 < attempt < 2**31 else None",
        "return _Named(message_id=message_id, attempt=attempt)",
        "a number that is none of ours reaches Postgres",
        "test_tags_that_we_never_wrote_match_nothing",
    ),
    _STATEMENTS.changed(
        "KEPT: natural key",
        '            provider_events.c.natural_key == sa.bindparam("natural", type_=sa.Text),\n',
        "            sa.false(),\n",
        "the same event under another id is not found again",
        "test_the_same_event_under_another_notification_is_a_repeat",
    ),
    _STATEMENTS.changed(
        "OUTCOMES: the stronger stays",
        "        sa.or_(recipients.c.outcome.is_(None), recipients.c.outcome.in_(weaker)),\n",
        "",
        "a weaker outcome overwrites a stronger one",
        "test_each_recipient_keeps_its_strongest_outcome_whatever_the_order",
    ),
    _SNS.changed(
        "verify: topic",
        "        if topic is None:\n            raise UnverifiedError(Refusal.TOPIC)\n",
        "        topic = topic or next(iter(self._topics.values()))\n",
        "everybody's topic may post",
        "tests/api/test_provider_events.py"
        "::test_what_sns_did_not_sign_changes_nothing_and_fetches_nothing_for_a_topic_that_is_not_ours",
    ),
    _SNS.changed(
        "verify: signature",
        "            key.verify(signature, _signed(envelope), PKCS1v15(), digest)\n",
        "",
        "anything goes for a signature",
        "tests/api/test_provider_events.py"
        "::test_what_sns_did_not_sign_changes_nothing_and_fetches_nothing_for_a_topic_that_is_not_ours",
    ),
    _DOOR.changed(
        "intake: verified",
        "            await self._verifier.verify(envelope)\n",
        "            pass\n",
        "what nobody signed is taken",
        "test_what_sns_did_not_sign_changes_nothing_and_fetches_nothing_for_a_topic_that_is_not_ours",
    ),
    _CONSUMER.changed(
        "consumer: raw by setting",
        "if self._settings.raw and _could_be_from_ses(text):",
        "if _could_be_from_ses(text):",
        "what nobody signed is taken from a queue that nobody said to trust",
        "test_what_cannot_be_believed_or_read_is_left_to_the_dead_letter_queue",
    ),
    _CONSUMER.changed(
        "consumer: deleted once done",
        "if is_done]",
        "]",
        "what could not be taken is deleted",
        "test_what_cannot_be_believed_or_read_is_left_to_the_dead_letter_queue",
    ),
    _CONSUMER.changed(
        "consumer: held",
        "                    await self._queue.hold(list(waiting), self._settings.visibility_seconds)\n",
        "                    pass\n",
        "what waits for Postgres becomes visible, and is used up",
        "test_while_postgres_is_away_events_are_held_past_their_time_and_then_applied",
    ),
)
