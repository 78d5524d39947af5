"""One cell for all tests of a file."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from tests.conftest import Database
from tests.faults.cell import Cell, cell


@pytest.fixture(scope="module")
async def shared_cell(
    database: Database, temporal_client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cell]:
    """Run one API and no worker yet."""
    async with cell(database, temporal_client, tmp_path_factory.mktemp("cell")) as made:
        await made.start_api()
        yield made
