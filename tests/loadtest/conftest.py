"""What the tests of the load test share: a toy server in a process of its own."""

from collections.abc import Iterator

import pytest

from regard.loadtest.base.processes import Served, served, toy


@pytest.fixture(scope="session")
def toy_server() -> Iterator[Served]:
    with served(toy()) as server:
        yield server
