"""What a run does, drawn from its seed: the messages in their order, and the faults in theirs."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any, Final

from dev.simulator.events import AWS_SIMULATOR_DOMAIN
from dev.simulator.faults import FAULT_DOMAIN, Fault


class Kind(StrEnum):
    """A fault; the name stands in the results."""

    KILL_API = "kill_api"
    KILL_WORKER = "kill_worker"
    KILL_TEMPORAL = "kill_temporal"
    KILL_POSTGRES = "kill_postgres"
    STOP_API = "stop_api"
    STOP_WORKER = "stop_worker"
    STOP_TEMPORAL = "stop_temporal"
    STOP_POSTGRES = "stop_postgres"
    RESTART_API = "restart_api"
    RESTART_WORKER = "restart_worker"
    RESTART_TEMPORAL = "restart_temporal"
    RESTART_POSTGRES = "restart_postgres"
    RESET = "reset"  #: of a run, to the workflow task that scheduled its last attempt: a body runs again
    TERMINATE = "terminate"
    DELETE = "delete"
    PAUSE_ACTIVITY = "pause_activity"
    PAUSE_PROVIDER = "pause_provider"
    SENDER_OFF = "sender_off"  #: while messages of it wait
    RESOLVE = "resolve"


#: In each run, however short: what guards a submission rests on begin, the lease, the re-check and the audit.
_ALWAYS: Final = (Kind.RESET, Kind.KILL_WORKER, Kind.SENDER_OFF, Kind.RESOLVE, Kind.STOP_WORKER)
#: Drawn more often: what calls the provider is what can go wrong twice.
_OFTEN: Final = (Kind.KILL_WORKER, Kind.STOP_WORKER, Kind.RESET, Kind.RESOLVE)
#: Of the messages, at least, for each of the simulator's faults, and for each recipient of AWS's own simulator.
_SHARE_OF_FAULT: Final = 0.03
_SHARE_OF_AWS: Final = 0.01
#: Recipients of AWS's own mailbox simulator.
AWS_NAMES: Final = ("success", "bounce", "ooto", "complaint", "suppressionlist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """What must stand nowhere: in each value that is protected. None of them stands anywhere by chance."""

    local_part: str = "chaoslocalpart"
    name: str = "Chaosrecipient"
    context_value: str = "chaoscontextvalue"
    template_text: str = "chaostemplatetext"
    header: str = "chaosheadervalue"
    key: str = "chaosidempotencykey"


CANARIES: Final = Canaries()
TEMPLATE: Final = "chaos"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A message to send.

    Attributes:
        replay_after: Seconds after its answer; None: it is not asked for again.
        conflict_after: The same for another command under its key.

    """

    key: str
    command: dict[str, Any]
    plain: bool  #: the simulator behaves
    replay_after: float | None
    conflict_after: float | None


def messages(generator: random.Random, count: int) -> list[Planned]:
    """Draw the messages: 3 % for each of the simulator's faults, 1 % for each of AWS's recipients, the rest plain.

    Shares are rounded up. Labels make every address another one, so that a bounce suppresses none of the others.
    """
    special: list[tuple[str, str] | None] = []
    special += [(fault, FAULT_DOMAIN) for fault in Fault for _ in range(ceil(count * _SHARE_OF_FAULT))]
    special += [(name, AWS_SIMULATOR_DOMAIN) for name in AWS_NAMES for _ in range(ceil(count * _SHARE_OF_AWS))]
    mix = special + [None] * (count - len(special))
    generator.shuffle(mix)
    return [_message(generator, number, recipient) for number, recipient in enumerate(mix, 1)]


def _message(generator: random.Random, number: int, recipient: tuple[str, str] | None) -> Planned:
    label = f"{CANARIES.local_part}{number}"
    address = f"{label}@example.com" if recipient is None else f"{recipient[0]}+{label}@{recipient[1]}"
    return Planned(
        key=f"{CANARIES.key}-{number}",
        command={
            "to": f"{CANARIES.name} <{address}>",
            "sender": "demo",
            "template": {"key": TEMPLATE, "version": 1},
            "context": {"name": f"{CANARIES.context_value} {number}"},
            "headers": {"X-Chaos": CANARIES.header},
            "tags": {"chaos": str(number)},
        },
        plain=recipient is None,
        replay_after=generator.uniform(0, 4) if generator.random() < 0.3 else None,  # noqa: PLR2004
        conflict_after=generator.uniform(0, 4) if generator.random() < 0.1 else None,  # noqa: PLR2004
    )


def faults(generator: random.Random, count: int, only: Collection[Kind] = ()) -> list[Kind]:
    """Draw the faults: round after round of every kind, each round in an order of its own.

    Args:
        generator: By the run's seed.
        count: How many.
        only: Kinds; all where it is empty.

    """
    kinds = [kind for kind in Kind if not only or kind in only]

    def rounds() -> Iterator[Kind]:
        first = [kind for kind in _ALWAYS if kind in kinds]
        yield from first
        yield from _shuffled(generator, [kind for kind in kinds if kind not in first])
        while True:
            yield from _shuffled(generator, kinds + [kind for kind in _OFTEN if kind in kinds])

    endless = rounds()
    return _shuffled(generator, [next(endless) for _ in range(count)])


def _shuffled(generator: random.Random, kinds: list[Kind]) -> list[Kind]:
    return generator.sample(kinds, len(kinds))
