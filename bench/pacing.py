"""How near a paced worker comes to its pace with a backlog before it, and that it never goes beyond it."""

from typing import Final

from bench.correctness import WrongRun
from bench.figures import Better, Figure
from bench.measuring import Measuring
from bench.own_stack import another
from bench.posted import all_accepted, post_new

PER_SECOND: Final = 20
REACH: Final = 0.9
#: Beyond it, the provider would refuse. It is a rule of the run and no reach: a faster run is a wrong one.
MOST: Final = 1.0
QUEUED: Final = 400
QUICK_QUEUED: Final = 100
_CONNECTIONS: Final = 16

_ATTEMPTS: Final = """
SELECT count(*) AS attempts, count(DISTINCT message_id) AS messages,
    count(*) FILTER (WHERE outcome IS DISTINCT FROM 'accepted') AS wasted,
    string_agg(DISTINCT concat_ws(' ', outcome, reason), ', ')
        FILTER (WHERE outcome IS DISTINCT FROM 'accepted') AS endings,
    count(*) FILTER (WHERE closed_at > lease_expires_at) AS expired,
    extract(epoch FROM max(begun_at) - min(begun_at))::float8 AS seconds
FROM attempts WHERE message_id = ANY($1::uuid[])
"""


async def measure(measuring: Measuring) -> list[Figure]:
    """Let a backlog through at a set rate, on a stack of its own. Raises WrongRun."""
    async with another(measuring, settings={"FENCEPOST_WORKER_CLAIMS_PER_SECOND": str(PER_SECOND)}) as paced:
        # Not counted: a new worker's first begins wait for connections, and one that waits too long wastes its attempt.
        key = paced.stack.kept.api_key
        await all_accepted(paced, await post_new(paced, key, _CONNECTIONS, connections=_CONNECTIONS))
        rates = []
        for _ in range(measuring.extent.runs):
            rates.append(await _run(paced))
            measuring.say(f"{rates[-1]:.2f}/s, set to {PER_SECOND}/s")
    figure = Figure(
        name="paced_rate",
        measure="messages/s",
        better=Better.HIGHER,
        as_ratio=True,
        reach=REACH,
        ours_runs=tuple(rates),
        baseline_runs=(PER_SECOND,) * len(rates),
    )
    return [figure]


async def _run(paced: Measuring) -> float:
    """Queue them all at once, and return how many attempts were begun in a second, from the first to the last."""
    await paced.fresh_provider()
    queued = QUICK_QUEUED if paced.extent.quick else QUEUED
    messages = await post_new(paced, paced.stack.kept.api_key, queued, connections=_CONNECTIONS)
    await all_accepted(paced, messages)
    await paced.check_accepted_once({str(message) for message in messages})
    (row,) = await paced.database.fetch(_ATTEMPTS, messages)
    if row["attempts"] != len(messages) or row["messages"] != len(messages) or row["wasted"]:
        raise WrongRun(
            f"{row['attempts']} attempts were made for {len(messages)} messages, {row['wasted']} in vain"
            f" ({row['endings']})"
        )
    if row["expired"]:
        raise WrongRun(f"{row['expired']} leases expired before their attempts were over")
    rate: float = (len(messages) - 1) / row["seconds"]
    if rate > PER_SECOND * MOST:
        raise WrongRun(f"{rate:.2f} attempts a second were begun, where {PER_SECOND} were set")
    return rate
