"""How long a server that cannot answer now is asked again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from regard.client.batching.patience import Patience
from regard.client.errors import CannotConnect, InvalidRequest, NotServing, RegardCallError, ServerBusy

TIMEOUT = 10.0


class Caller:
    """A server that answers one after the other what is given, on a clock that only waiting moves."""

    def __init__(self, outcomes: Iterable[RegardCallError | str]) -> None:
        self.outcomes = iter(outcomes)
        self.now = 100.0
        self.pauses: list[float] = []
        self.left: list[float] = []
        self.patience = Patience(TIMEOUT, clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def ask(self) -> str:
        return self.patience.ask(self.send)

    def send(self, seconds: float) -> str:
        self.left.append(seconds)
        outcome = next(self.outcomes)
        if isinstance(outcome, RegardCallError):
            raise outcome
        return outcome


def busy(after: float | None = None) -> ServerBusy:
    return ServerBusy("full", code="RESOURCE_EXHAUSTED", retry_after=after)


def absent() -> CannotConnect:
    return CannotConnect("nobody", code="UNAVAILABLE")


def test_a_busy_or_loading_server_is_asked_when_it_says_and_at_least_every_second() -> None:
    caller = Caller(
        [busy(0.25), busy(30.0), busy(), NotServing("loading", code="UNAVAILABLE", retry_after=0.5), "done"]
    )
    assert caller.ask() == "done"
    assert caller.pauses == [0.25, 1.0, 1.0, 0.5]
    assert caller.left == [10.0, 9.75, 8.75, 7.75, 7.25]


def test_when_the_time_is_over_the_error_is_what_the_server_said_last() -> None:
    caller = Caller([busy(1.0)] * 100)
    with pytest.raises(ServerBusy):
        caller.ask()
    assert caller.now < 100.0 + TIMEOUT


def test_nobody_at_an_address_is_told_at_once() -> None:
    caller = Caller([absent()])
    with pytest.raises(CannotConnect):
        caller.ask()
    assert caller.pauses == []


@pytest.mark.parametrize("first", [["done"], [busy(), "done"]])
def test_a_server_that_has_answered_may_restart(first: list[RegardCallError | str]) -> None:
    caller = Caller([*first, absent(), absent(), "done"])
    assert caller.ask() == caller.ask() == "done"


def test_what_waiting_does_not_help_is_raised() -> None:
    caller = Caller([InvalidRequest("bad", code="INVALID_ARGUMENT")])
    with pytest.raises(InvalidRequest):
        caller.ask()
