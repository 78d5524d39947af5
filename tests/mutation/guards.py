"""Every guard that the mutation run takes out, by the place where it stands."""

from typing import Final

from tests.mutation import (
    crashes,
    decisions,
    door,
    events,
    facts,
    intake,
    lifecycle,
    provider,
    rendering,
    resolving,
    schema,
    settling,
    statements,
    store,
    submission,
    suppressing,
    sweeping,
    tenancy,
    workflow,
)
from tests.mutation.mutant import Mutant

GUARDS: Final[tuple[Mutant, ...]] = (
    *decisions.GUARDS,
    *settling.GUARDS,
    *facts.GUARDS,
    *statements.GUARDS,
    *store.GUARDS,
    *sweeping.GUARDS,
    *lifecycle.GUARDS,
    *schema.GUARDS,
    *submission.GUARDS,
    *provider.GUARDS,
    *intake.GUARDS,
    *workflow.GUARDS,
    *door.GUARDS,
    *rendering.GUARDS,
    *tenancy.GUARDS,
    *crashes.GUARDS,
    *resolving.GUARDS,
    *suppressing.GUARDS,
    *events.GUARDS,
)
