"""The lifecycle table in db/lifecycle.py, a pair of states too many or too few."""

from typing import Final

from tests.mutation.mutant import Mutant, Source

_IN: Final = Source("db/lifecycle.py", "tests/db/test_lifecycle.py")
_AS_DESIGNED: Final = "test_the_table_has_exactly_the_designed_pairs"
_CLAIM: Final = "Move.CLAIM: Transition(sources=CLAIMABLE,"
_ALONG: Final = "tests/db/test_decisions.py::test_whatever_is_stored_settle_goes_along_the_table_only"

GUARDS: Final[tuple[Mutant, ...]] = (
    _IN.changed(
        "claim from ambiguous",
        _CLAIM,
        "Move.CLAIM: Transition(sources=(*CLAIMABLE, State.AMBIGUOUS),",
        "an ambiguous message is claimed again",
        "test_no_sequence_of_machine_moves_reaches_a_lease_from_ambiguous",
        "test_no_way_of_the_machine_leads_from_ambiguous_back_to_a_lease",
        "test_only_people_move_a_message_out_of_ambiguous_without_evidence",
    ),
    _IN.changed(
        "ambiguous is free to be claimed",
        "CLAIMABLE: Final = (State.QUEUED, State.RETRYABLE)",
        "CLAIMABLE: Final = (State.QUEUED, State.RETRYABLE, State.AMBIGUOUS)",
        "an ambiguous message counts as free to be claimed",
        _AS_DESIGNED,
    ),
    _IN.changed(
        "claim from leased",
        _CLAIM,
        "Move.CLAIM: Transition(sources=(*CLAIMABLE, State.LEASED),",
        "a claim takes over a lease, begun or not",
        _AS_DESIGNED,
        "tests/db/test_statements.py::test_claim_takes_a_message_from_its_sources_only[leased]",
    ),
    _IN.changed(
        "retry from ambiguous",
        "            sources=(State.LEASED,),\n            targets=(State.RETRYABLE,),\n",
        "            sources=(State.LEASED, State.AMBIGUOUS),\n            targets=(State.RETRYABLE,),\n",
        "an ambiguous message is tried again",
        "test_no_sequence_of_machine_moves_reaches_a_lease_from_ambiguous",
    ),
    _IN.changed(
        "quarantine to retryable",
        "sources=(State.LEASED,), targets=(State.AMBIGUOUS,)",
        "sources=(State.LEASED,), targets=(State.RETRYABLE,)",
        "what nobody can know is tried again",
        _AS_DESIGNED,
    ),
    _IN.changed(
        "resend by the machine",
        "targets=(State.QUEUED,), by=Actor.OPERATOR",
        "targets=(State.QUEUED,), by=Actor.MACHINE",
        "a resend needs no person",
        "test_only_people_move_a_message_out_of_ambiguous_without_evidence",
    ),
    *(
        _IN.without(
            f"prove from {state.lower()}",
            f"                State.{state},\n",
            f"an event does not prove the acceptance of a message that is {state.lower()}",
            test,
        )
        for state, test in (
            ("AMBIGUOUS", "test_only_people_move_a_message_out_of_ambiguous_without_evidence"),
            ("QUEUED", _AS_DESIGNED),
            ("RETRYABLE", _AS_DESIGNED),
            ("LEASED", _ALONG),
            ("SUPPRESSED", _AS_DESIGNED),
            ("DEAD", _AS_DESIGNED),
        )
    ),
)
