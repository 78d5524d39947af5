"""Runs are asked for in the background, and no tenant waits behind another's backlog."""

import asyncio

from api.starter import Starter
from db.ids import TenantId, new_message_id
from db.records import MessageRef
from tests.waiting import until


def message(tenant: str) -> MessageRef:
    return MessageRef(id=new_message_id(), tenant_id=TenantId(tenant), request_hash="v1:" + "0" * 64)


async def test_tenants_take_turns_and_each_tenants_messages_keep_their_order() -> None:
    started: list[MessageRef] = []
    may_start = asyncio.Event()

    async def start(reference: MessageRef) -> None:
        await may_start.wait()
        started.append(reference)

    many = [message("many") for _ in range(100)]
    few = [message("few") for _ in range(3)]
    starter = Starter(start)
    starter.open()
    for each in (*many, *few):
        starter.want(each)
    may_start.set()
    await until(lambda: len(started) == len(many) + len(few), within=10)
    await starter.close()

    # Sixteen are on their way when the few come; from then on every second is one of theirs.
    assert max(started.index(each) for each in few) < 16 + 2 * len(few)
    assert [each for each in started if each in many] == many
    assert [each for each in started if each in few] == few
