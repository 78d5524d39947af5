"""Every guard that the mutation run takes out, by the place where it stands."""

from typing import Final

from tests.mutation import (
    decisions,
    facts,
    intake,
    lifecycle,
    provider,
    schema,
    settling,
    statements,
    store,
    submission,
    workflow,
)
from tests.mutation.mutant import Mutant

GUARDS: Final[tuple[Mutant, ...]] = (
    *decisions.GUARDS,
    *settling.GUARDS,
    *facts.GUARDS,
    *statements.GUARDS,
    *store.GUARDS,
    *lifecycle.GUARDS,
    *schema.GUARDS,
    *submission.GUARDS,
    *provider.GUARDS,
    *intake.GUARDS,
    *workflow.GUARDS,
)
