"""What calls may hold, alone and together."""

from __future__ import annotations

import pytest

from regard.server.byte_budget import ByteBudget
from regard.server.errors import AnswerTooLarge, TooManyCalls


def test_one_call_may_hold_half_and_keeps_what_it_has_when_more_is_refused() -> None:
    budget = ByteBudget(100)
    account = budget.open()
    account.add(30)
    with pytest.raises(AnswerTooLarge):
        account.add(21)
    account.add(20)
    assert budget.held == 50


def test_all_calls_together_may_hold_no_more_than_the_whole() -> None:
    budget = ByteBudget(100)
    first, second, third = budget.open(), budget.open(), budget.open()
    first.add(50)
    second.add(40)
    with pytest.raises(TooManyCalls):
        third.add(11)
    first.close()
    third.add(50)
    assert budget.held == 90


def test_closing_twice_gives_back_once() -> None:
    budget = ByteBudget(100)
    account, other = budget.open(), budget.open()
    account.add(10)
    other.add(10)
    account.close()
    account.close()
    assert budget.held == 10
