from collections.abc import Generator

import pytest
from tests.client.fake_server import FakeServer, running_fake_server


@pytest.fixture
def fake_server() -> Generator[FakeServer]:
    with running_fake_server() as fake:
        yield fake
