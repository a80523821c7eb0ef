"""Dropout from a pool of masks: the statistics of ordinary dropout."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import pytest
import torch

from regard.training.models.dropout import POOL_SIZE, PooledDropout


@pytest.mark.parametrize("count", [100_000, POOL_SIZE // 2])
def test_the_asked_share_is_dropped_and_the_mean_kept(count: int) -> None:
    torch.manual_seed(5)
    dropped = PooledDropout(0.25)(torch.ones(count))
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.01)


def test_two_calls_drop_differently() -> None:
    torch.manual_seed(5)
    dropout = PooledDropout(0.5)
    assert not torch.equal(dropout(torch.ones(1000)), dropout(torch.ones(1000)))


def test_evaluation_drops_nothing() -> None:
    values = torch.randn(50)
    assert torch.equal(PooledDropout(0.5).eval()(values), values)
