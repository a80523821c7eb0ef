"""What attention becomes on its way to a caller."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.server.request import Weights
from regard.server.services.alignment import (
    Encoding,
    Link,
    encode_columns,
    encode_weights,
    keep_largest,
    link_words,
    mean_of_heads,
    merge_words,
    select_heads,
)


class Run(NamedTuple):
    first_token: int
    token_count: int


def runs(*counts: int) -> list[Run]:
    starts = np.cumsum([0, *counts])
    return [Run(int(start), count) for start, count in zip(starts, counts, strict=False)]


def weights(*rows: list[float]) -> Weights:
    return np.array(rows, dtype=np.float32)


def softmax(generator: np.random.Generator, *shape: int) -> Weights:
    raw = np.exp(4 * generator.standard_normal(shape))
    return (raw / raw.sum(axis=-1, keepdims=True)).astype(np.float32)


def test_words_sum_over_source_tokens_and_average_over_target_tokens() -> None:
    tokens = weights([0.1, 0.2, 0.7], [0.5, 0.1, 0.4], [0.0, 0.0, 1.0])
    merged = merge_words(tokens, runs(2, 1), runs(1, 2))
    np.testing.assert_allclose(merged, [[0.3, 0.7], [0.0, 1.0]], atol=1e-7)


def test_words_of_one_token_each_change_nothing() -> None:
    tokens = softmax(np.random.default_rng(1), 3, 4)
    np.testing.assert_array_equal(merge_words(tokens, runs(1, 1, 1), runs(1, 1, 1, 1)), tokens)


def test_layers_and_heads_are_merged_one_by_one() -> None:
    tokens = softmax(np.random.default_rng(2), 2, 3, 4, 5)
    merged = merge_words(tokens, runs(3, 1), runs(2, 2, 1))
    assert merged.shape == (2, 3, 2, 3)
    np.testing.assert_allclose(merged[1, 2], merge_words(tokens[1, 2], runs(3, 1), runs(2, 2, 1)), atol=1e-7)


def test_no_target_tokens_make_no_rows() -> None:
    assert merge_words(np.zeros((0, 3), dtype=np.float32), [], runs(2, 1)).shape == (0, 2)
    assert merge_words(np.zeros((2, 1, 0, 3), dtype=np.float32), [], runs(2, 1)).shape == (2, 1, 0, 2)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 4), max_size=8),
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
)
def test_rows_of_words_sum_to_one(seed: int, target: list[int], source: list[int]) -> None:
    tokens = softmax(np.random.default_rng(seed), 2, sum(target), sum(source))
    merged = merge_words(tokens, runs(*target), runs(*source))

    assert merged.dtype == np.float32
    assert merged.shape == (2, len(target), len(source))
    np.testing.assert_allclose(merged.sum(axis=-1), 1, atol=1e-5)
    assert (merged >= 0).all()


def test_a_link_names_the_source_word_of_the_largest_weight() -> None:
    links = link_words(weights([0.1, 0.7, 0.2], [0.6, 0.3, 0.1]))
    assert links == [(1, 0, pytest.approx(0.7)), (0, 1, pytest.approx(0.6))]


def test_the_diagonal_is_linked_as_a_diagonal() -> None:
    links = link_words(np.eye(4, 5, dtype=np.float32))
    assert links == [Link(index, index, 1.0) for index in range(4)]


def test_the_end_of_sentence_is_never_linked() -> None:
    assert link_words(weights([0.1, 0.2, 0.7])) == [(1, 0, pytest.approx(0.2))]


def test_a_word_that_looked_at_nothing_but_the_end_has_no_link() -> None:
    assert link_words(weights([0.0, 0.0, 1.0], [1.0, 0.0, 0.0])) == [Link(0, 1, 1.0)]
    assert link_words(weights([1.0])) == []


def test_of_equal_weights_the_first_is_linked() -> None:
    assert link_words(weights([0.4, 0.4, 0.2]))[0].source_word == 0


def test_no_words_have_no_links() -> None:
    assert link_words(np.zeros((0, 3), dtype=np.float32)) == []


def test_the_largest_weights_are_kept_in_falling_order_with_their_columns() -> None:
    values, columns = keep_largest(weights([0.1, 0.6, 0.3], [0.25, 0.25, 0.5]), 2)
    np.testing.assert_array_equal(values, weights([0.6, 0.3], [0.5, 0.25]))
    np.testing.assert_array_equal(columns, [[1, 2], [2, 0]])
    assert columns.dtype == np.uint16


def test_of_equal_weights_the_first_are_kept() -> None:
    _, columns = keep_largest(np.tile(weights([0.002, 0.006, 0.004]), 100), 3)
    np.testing.assert_array_equal(columns, [[1, 4, 7]])


def test_more_than_there_are_keeps_all() -> None:
    values, columns = keep_largest(weights([0.2, 0.8]), 5)
    assert values.shape == columns.shape == (1, 2)


def test_the_largest_of_no_rows_are_no_rows() -> None:
    values, columns = keep_largest(np.zeros((2, 0, 3), dtype=np.float32), 2)
    assert values.shape == columns.shape == (2, 0, 2)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_kept_weights_are_those_of_their_columns_and_none_is_larger(seed: int, count: int) -> None:
    tokens = softmax(np.random.default_rng(seed), 3, 5, 7)
    values, columns = keep_largest(tokens, count)

    np.testing.assert_array_equal(np.take_along_axis(tokens, columns.astype(np.int64), axis=-1), values)
    np.testing.assert_array_equal(values, -np.sort(-tokens, axis=-1)[..., :count])


def test_layers_and_heads_are_chosen_in_the_order_asked_for() -> None:
    tokens = np.arange(2 * 3 * 1 * 2, dtype=np.float32).reshape(2, 3, 1, 2)
    chosen = select_heads(tokens, [1], [2, 0])
    np.testing.assert_array_equal(chosen, tokens[1:, [2, 0]])


def test_the_mean_of_heads_keeps_rows_at_one() -> None:
    mean = mean_of_heads(softmax(np.random.default_rng(3), 2, 4, 5, 6))
    assert mean.shape == (5, 6)
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean.sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("encoding", "dtype", "tolerance"),
    [(Encoding.FLOAT32, "<f4", 0), (Encoding.FLOAT16, "<f2", 2**-11), (Encoding.UINT8, "u1", 0.5 / 255 + 1e-6)],
)
def test_weights_can_be_read_back(encoding: Encoding, dtype: str, tolerance: float) -> None:
    tokens = softmax(np.random.default_rng(4), 3, 40)
    scale = 255 if encoding is Encoding.UINT8 else 1
    read = np.frombuffer(encode_weights(tokens, encoding), dtype=dtype).reshape(3, 40) / scale

    np.testing.assert_allclose(read, tokens, rtol=0, atol=tolerance)
    np.testing.assert_allclose(read.sum(axis=-1), 1, atol=max(tolerance * 40, 1e-5))


def test_a_sum_that_passes_one_by_rounding_is_the_largest_byte() -> None:
    over = np.array([[1.0000002, -1e-9, 1.004]], dtype=np.float32)
    assert encode_weights(over, Encoding.UINT8) == bytes([255, 0, 255])


def test_columns_are_two_bytes_each_the_small_one_first() -> None:
    assert encode_columns(np.array([[1, 258]], dtype=np.uint16)) == b"\x01\x00\x02\x01"


def test_rows_are_written_one_after_the_other() -> None:
    transposed = weights([0.0, 1.0], [0.25, 0.75]).T
    read = np.frombuffer(encode_weights(transposed, Encoding.FLOAT32), dtype="<f4")
    np.testing.assert_array_equal(read, [0.0, 0.25, 1.0, 0.75])
