"""Who may come in, and when the house is empty."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.serving import PATIENCE

from regard.server.errors import NotServing, TooManyCalls
from regard.server.front.gate import Gate


def test_a_new_gate_is_closed() -> None:
    with pytest.raises(NotServing, match="the server is loading"), Gate[str](max_concurrent_calls=1).enter():
        pass


def test_an_open_gate_hands_out_the_services_up_to_the_bound() -> None:
    gate = Gate[str](max_concurrent_calls=1)
    gate.open("services")
    with gate.enter() as services:
        assert services == "services"
        with pytest.raises(TooManyCalls), gate.enter():
            pass
    with gate.enter():
        pass


def test_a_closed_gate_gives_its_reason_and_leaves_those_inside_alone() -> None:
    gate = Gate[str](max_concurrent_calls=2)
    gate.open("services")
    with gate.enter() as services:
        gate.close("the server is draining")
        assert services == "services"
        with pytest.raises(NotServing, match="the server is draining"), gate.enter():
            pass


def test_idle_comes_with_the_last_call_out_even_if_it_failed() -> None:
    async def run() -> None:
        gate = Gate[str](max_concurrent_calls=2)
        gate.open("services")
        await asyncio.wait_for(gate.idle(), PATIENCE)
        inside = gate.enter()
        inside.__enter__()
        waiting = asyncio.create_task(gate.idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        error = ValueError("boom")
        assert not inside.__exit__(ValueError, error, error.__traceback__)
        await asyncio.wait_for(waiting, PATIENCE)

    asyncio.run(run())
