"""The guards of the sweep: what it looks for, what it leaves to others, and what holds it up."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/sweep_statements.py", "tests/activities/test_sweep.py")
_STORE: Final = "tests/db/test_store.py::"
_TESTS: Final = "tests/activities/test_sweep.py::"

_EXPIRED_WHERE: Final = "    .where(attempts.c.closed_at.is_(None), attempts.c.lease_expires_at <= _NOW)\n"
_FORGOTTEN: Final = _STORE + "test_forgotten_messages_are_startable_once_in_a_while"
_FOUND: Final = (
    _IN.lacking(
        "EXPIRED_LEASES: open",
        _EXPIRED_WHERE,
        "attempts.c.closed_at.is_(None), ",
        "the sweep lists leases that are settled",
        _STORE + "test_the_sweep_settles_what_ran_out_and_touches_no_live_lease",
    ),
    _IN.lacking(
        "EXPIRED_LEASES: over",
        _EXPIRED_WHERE,
        ", attempts.c.lease_expires_at <= _NOW",
        "the sweep lists leases that still run",
        _STORE + "test_the_sweep_settles_what_ran_out_and_touches_no_live_lease",
    ),
    _IN.without(
        "STARTABLE: free",
        "        messages.c.state.in_(written(CLAIMABLE)),\n",
        "the sweep starts runs for messages that are not free to be claimed",
        _FORGOTTEN,
    ),
    _IN.without(
        "STARTABLE: overdue",
        '        messages.c.due_at <= _NOW - sa.bindparam("overdue", type_=sa.Interval),\n',
        "the sweep starts runs for messages that are not overdue",
        _FORGOTTEN,
    ),
    _IN.without(
        "STARTABLE: never asked",
        "            messages.c.run_requested_at.is_(None),\n",
        "the sweep starts no run for a message for which it never asked",
        _FORGOTTEN,
    ),
    _IN.without(
        "STARTABLE: asked long ago",
        '            messages.c.run_requested_at <= _NOW - sa.bindparam("again_after", type_=sa.Interval),\n',
        "the sweep asks for a run once and never again",
        _FORGOTTEN,
    ),
    _IN.changed(
        "STARTABLE: asked lately",
        "        sa.or_(\n            messages.c.run_requested_at.is_(None),\n",
        "        sa.or_(\n            sa.true(),\n",
        "every sweep asks again for a run that was asked for just now",
        _FORGOTTEN,
    ),
    _IN.without(
        "STARTABLE: switched on",
        "        sa.not_(providers.c.paused),\n",
        "every sweep asks for the runs of all that wait for a provider that is switched off",
        "test_a_sweep_asks_for_no_runs_while_the_provider_is_switched_off",
    ),
    _IN.without(
        "STARTABLE: never asked first",
        "messages.c.run_requested_at.nulls_first(), ",
        "what waits its turn in a backlog holds up what has no run",
        "test_messages_without_a_run_come_before_those_that_wait_their_turn",
    ),
    _IN.changed(
        "LOCK_IF_FREE: skip",
        "with_for_update(skip_locked=True)",
        "with_for_update()",
        "a sweep waits for each message that somebody else works on",
        "test_a_message_that_somebody_works_on_holds_up_no_sweep",
    ),
    _IN.changed(
        "EXPIRED_LEASES: bound",
        '    .limit(sa.bindparam("most", type_=sa.Integer))\n)\n"""Leases',
        ')\n"""Leases',
        "a sweep takes on any number of leases",
        "test_one_sweep_takes_on_no_more_than_its_bound_and_the_next_goes_on",
    ),
)

_SWEEP: Final = Source("activities/sweep.py", "tests/workflows/test_delivery.py")
_SWEPT: Final = (
    _SWEEP.changed(
        "sweep: settles",
        "await self._settle()",
        "(0, 0)",
        "nobody settles a lease that ran out but the run that claimed it",
        "test_the_sweep_settles_what_nobody_finalized",
    ),
    _SWEEP.changed(
        "sweep: starts",
        "await self._start_runs()",
        "(0, 0)",
        "nobody starts a run again",
        "test_the_sweep_starts_what_was_never_started_or_was_terminated",
    ),
    _SWEEP.changed(
        "sweep: settle, outages only",
        '                outages += _is_outage(error)\n                _log.warning("settle_failed"',
        '                outages += 1\n                _log.warning("settle_failed"',
        "three messages that can't be settled hold up all the others for ever",
        f"{_TESTS}test_messages_that_cannot_be_settled_hold_up_none_that_can",
    ),
    _SWEEP.changed(
        "sweep: start, outages only",
        '                outages += _is_outage(error)\n                _log.warning("start_failed"',
        '                outages += 1\n                _log.warning("start_failed"',
        "three messages that Temporal refuses hold up all the others for ever",
        f"{_TESTS}test_messages_that_temporal_refuses_hold_up_none_that_it_takes",
    ),
    _SWEEP.changed(
        "sweep: gives up",
        "return error.status in _AWAY",
        "return False",
        "a sweep without Temporal waits for each message's time-out",
        f"{_TESTS}test_a_sweep_without_temporal_gives_up_soon",
    ),
)

GUARDS: Final[tuple[Mutant, ...]] = (*_FOUND, *_SWEPT)
