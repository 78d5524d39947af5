"""A worker's parts, on the database and the namespace of a file of tests."""

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.client import Client

from db.store import MessageStore
from tests.factories import make_tenant
from tests.workflows.delivery import Delivery


@pytest.fixture
async def delivery(temporal_client: Client, worker_engine: AsyncEngine, superuser: asyncpg.Connection) -> Delivery:
    await make_tenant(superuser)
    return Delivery(temporal_client, MessageStore(worker_engine), superuser)
