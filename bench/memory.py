"""What a worker holds of the machine's memory after many messages, beside what it held after the first of them."""

from typing import Final

from bench.figures import Better, Figure
from bench.measuring import Measuring
from bench.own_stack import another
from bench.sides import Fencepost, drive_all
from bench.throughput import IN_FLIGHT
from workflows import policies

REACH: Final = 1.1
FIRST, LAST = 2_000, 20_000
QUICK_FIRST, QUICK_LAST = 200, 600
#: Messages between two looks at the simulator's record, which grows with each.
_BATCH: Final = 1_000
_MEGABYTE: Final = 1024 * 1024


async def measure(measuring: Measuring) -> list[Figure]:
    """Drive messages through a worker that is new at the start, once: they are many. Raises WrongRun."""
    first, last = (QUICK_FIRST, QUICK_LAST) if measuring.extent.quick else (FIRST, LAST)
    batch = min(_BATCH, first)
    held: dict[int, float] = {}
    async with another(measuring, settings={}) as fresh:
        # It would start the runs that are held back.
        await fresh.client.get_schedule_handle(policies.SWEEP_SCHEDULE_ID).pause()
        ours = Fencepost(fresh.client, fresh.stack)
        try:
            for done in range(batch, last + 1, batch):
                await _drive(fresh, ours, batch)
                held[done] = ours.worker.memory_info().rss / _MEGABYTE
                measuring.say(f"{held[done]:.1f} MB after {done:,} messages of {last:,}")
        finally:
            await ours.close()
    figure = Figure(
        name="worker_memory",
        measure="MB",
        better=Better.LOWER,
        as_ratio=True,
        reach=REACH,
        ours_runs=(held[last],),
        baseline_runs=(held[first],),
    )
    return [figure]


async def _drive(fresh: Measuring, ours: Fencepost, count: int) -> None:
    messages = await ours.prepare(count)
    await fresh.fresh_provider()
    await drive_all(fresh.client, messages, in_flight=IN_FLIGHT)
    await fresh.check_accepted_once({message.message_id for message in messages})
