"""Keys say where to look and values what is found there: exchanging either shows which does what, to the bit."""

# torch types manual_seed only in part.
# pyright: reportUnknownMemberType=false

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.training.data.vocabulary import Vocabulary
from regard.training.learning import checkpoint
from regard.training.models.rnn import Rnn, RnnConfig
from regard.training.models.transformer import Transformer, TransformerConfig
from regard.training.studies.key_value import NextWord, exchange, main, position, step_with_exchanges

SOURCE = (5, 6, 7, 8, 3)
TARGET = (4, 6, 5)
FIRST, SECOND = 1, 3


def recurrent() -> Rnn:
    return Rnn(RnnConfig(vocabulary=12, output=9, embedding=8, encoder=5, decoder=7, attention=6))


def transformer() -> Transformer:
    sizes = TransformerConfig(
        vocabulary=12, output=9, dim=8, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=2
    )
    return Transformer(sizes)


@pytest.fixture(params=[recurrent, transformer])
def found(request: pytest.FixtureRequest) -> dict[str, NextWord]:
    """The step_with_exchanges of an untrained model whose weights are large enough to prefer something."""
    torch.manual_seed(3)
    model: Any = request.param().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return {look.exchange: look for look in step_with_exchanges(model, SOURCE, TARGET, FIRST, SECOND)}


def exchanged(weights: torch.Tensor) -> torch.Tensor:
    order = torch.arange(len(SOURCE))
    order[[FIRST, SECOND]] = order[[SECOND, FIRST]]
    return weights[..., order]


def test_exchanged_values_leave_the_look_where_it_was_to_the_bit(found: dict[str, NextWord]) -> None:
    # The first layer's: what it found is part of what the second one asks.
    assert torch.equal(found["values exchanged"].weights[0], found["as trained"].weights[0])


def test_exchanged_keys_exchange_the_weights(found: dict[str, NextWord]) -> None:
    weights, moved = found["as trained"].weights[0], found["keys exchanged"].weights[0]
    # But for the order in which a softmax sums.
    torch.testing.assert_close(moved, exchanged(weights), atol=1e-6, rtol=0)
    assert (moved - weights).abs().max() > 0.01


def test_exchanged_values_change_what_is_said_as_much_as_exchanged_keys(found: dict[str, NextWord]) -> None:
    before = found["as trained"].log_probabilities
    by_values, by_keys = found["values exchanged"].log_probabilities, found["keys exchanged"].log_probabilities
    assert (by_values - before).abs().max() > 0.01
    torch.testing.assert_close(by_values, by_keys, atol=1e-4, rtol=0)


def test_a_memory_is_a_set_of_pairs(found: dict[str, NextWord]) -> None:
    before, both = found["as trained"], found["both exchanged"]
    torch.testing.assert_close(both.log_probabilities, before.log_probabilities, atol=1e-4, rtol=0)
    torch.testing.assert_close(both.weights, exchanged(before.weights), atol=1e-5, rtol=0)


def test_a_memory_without_keys_is_refused_by_name() -> None:
    model = transformer().eval()
    source = torch.tensor([SOURCE])
    memory, _ = model.encode(source, torch.tensor([len(SOURCE)]))
    with pytest.raises(ValueError, match="This memory has no hashes, only keys, values, mask"):
        exchange(memory, memory, ["hashes"], 0, 1)  # pyright: ignore[reportArgumentType]  wrong on purpose


def test_a_word_of_one_piece_is_found(vocabulary: Vocabulary) -> None:
    text = "the bread is bread"
    ids = vocabulary.encode(text)
    assert vocabulary.tokenizer.id_to_token(ids[position(vocabulary, text, "is")]) == "▁is"


@pytest.mark.parametrize("word", ["cheese", "Zanzibar"])
def test_a_word_that_cannot_be_exchanged_is_refused(word: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match=f"'{word}' has .* only words of one piece"):
        position(vocabulary, "We saw Zanzibar.", word)


def test_the_command_prints_a_table_and_draws(
    vocabulary: Vocabulary, learnt: tuple[Vocabulary, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Rnn(RnnConfig(vocabulary=vocabulary.size, output=learnt[1], embedding=8, encoder=5, decoder=7, attention=6))
    made = checkpoint.Checkpoint(recipe="", model=model, vocabulary=vocabulary, metrics={}, provenance={})
    checkpoint.save(tmp_path / "run", made)
    picture = tmp_path / "look.png"
    text = ["We know the bread.", "--exchange", "know", "the", "--after", "Estamos"]
    assert main([str(tmp_path / "run"), *text, "--picture", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| | looks at know | looks at the | would say |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "as trained",
        "keys exchanged",
        "values exchanged",
        "both exchanged",
    ]
    assert picture.stat().st_size > 1000
    assert main([str(tmp_path / "run"), *text, "--head", "1"]) == 1
    assert "head 1, but the model has 1 and 1" in capsys.readouterr().err
