"""The engine finds what the reference decoder finds, which models are trained and evaluated with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.server.engine_fakes import END, request

from regard.contract.names import ModelKey
from regard.contract.ports import Port
from regard.server.engine.decoder import DecoderFacts, Tensors
from regard.server.engine.pool import Pool
from regard.server.engine.segment import PoolKey, Segment
from regard.server.request import DecodeRequest, Hypothesis, Ids, Pixels
from regard.training.decoding.search import SearchConfig, search
from regard.training.models.rnn import Rnn, RnnConfig, RnnMemory, RnnState

VOCABULARY, OUTPUT, WIDTH = 40, 30, 16
SIZES = RnnConfig(vocabulary=VOCABULARY, output=OUTPUT, embedding=12, encoder=10, decoder=14, attention=8, dropout=0.0)


def port(name: str, role: str, *axes: str | int, dtype: str = "float32") -> Port:
    assert role in ("memory", "state")
    return Port(name=name, role=role, dtype=dtype, axes=axes)


class TorchDecoder:
    """A recurrent model as the engine sees it, run by torch."""

    facts = DecoderFacts(
        memory=(
            port("memory.keys", "memory", "batch", "source", SIZES.attention),
            port("memory.values", "memory", "batch", "source", 2 * SIZES.encoder),
            port("memory.mask", "memory", "batch", "source", dtype="bool"),
        ),
        state=(port("state.hidden", "state", "batch", SIZES.decoder),),
        vocabulary_size=VOCABULARY,
        output_size=OUTPUT,
        layers=1,
        heads=1,
        alignment_heads=((0, 0),),
        pad_id=0,
        bos_id=2,
        eos_id=END,
        suppressed_ids=(0, 1, 2),
        max_source_tokens=WIDTH,
        max_target_tokens=256,
    )

    def __init__(self, model: Rnn) -> None:
        self.model = model

    @torch.inference_mode()
    def encode(self, source: Ids | Pixels, source_length: Ids, *, encoder_attention: bool = False) -> Tensors:
        memory, state = self.model.encode(torch.as_tensor(source), torch.as_tensor(source_length))
        found = {f"memory.{name}": getattr(memory, name).numpy() for name in memory._fields}
        return {**found, "state.hidden": state.hidden.numpy()}

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        def tensor(name: str) -> torch.Tensor:
            return torch.as_tensor(inputs[name][:rows])

        @torch.inference_mode()
        def run() -> None:
            memory = RnnMemory(tensor("memory.keys"), tensor("memory.values"), tensor("memory.mask"))
            scores, state, attention = self.model.step(tensor("token"), RnnState(tensor("state.hidden")), memory)
            outputs["scores"][:rows] = scores.numpy()
            outputs["next.state.hidden"][:rows] = state.hidden.numpy()
            outputs["attention"][:rows] = attention.numpy()

        return run


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("length_penalty", [0.6, 1.0])
@pytest.mark.parametrize("max_length", [None, 4])
def test_tokens_scores_and_attention_are_those_of_the_reference(
    beam_size: int, length_penalty: float, max_length: int | None
) -> None:
    torch.manual_seed(beam_size)  # pyright: ignore[reportUnknownMemberType]  torch does not say
    model = Rnn(SIZES).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # as sure of itself as a trained one
        model.output.bias[END] = 3.0
    random = np.random.default_rng(1)
    sources = [[*random.integers(4, VOCABULARY, size=length).tolist(), END] for length in (1, 3, 7, 15, 15)]
    padded = np.zeros((len(sources), WIDTH), dtype=np.int64)
    for row, source in enumerate(sources):
        padded[row, : len(source)] = source
    lengths = np.array([len(source) for source in sources])
    expected = search(
        model,
        torch.as_tensor(padded),
        torch.as_tensor(lengths),
        SearchConfig(beam_size=beam_size, length_penalty=length_penalty, max_length=max_length),
    )

    decoder = TorchDecoder(model)
    pool = Pool(decoder, capacity=64, width=WIDTH)
    key = PoolKey(ModelKey("rnn", "1"), WIDTH)
    asked = [
        request(source, beam_size=beam_size, length_penalty=length_penalty, max_length=max_length or 256)
        for source in sources
    ]
    segments = [
        Segment(pool=key, rows=beam_size, request=one, deliver=lambda outcome: None, submitted=0.0) for one in asked
    ]
    pool.admit(segments, decoder.encode(padded, lengths), now=0.0, encode_seconds=0.0)
    answers: dict[DecodeRequest, tuple[Hypothesis, ...] | None] = {}
    while pool.rows:
        answers.update((ended.request, ended.hypotheses) for ended in pool.step())
    for one, wanted in zip(asked, expected, strict=True):
        found = answers[one]
        assert found is not None
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            ended = theirs.finish == "end"
            assert ours.finish_reason.value == theirs.finish
            assert (*ours.tokens.tolist(), *((END,) if ended else ())) == theirs.tokens
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
            weights = theirs.attention[: len(ours.tokens), 0, 0].numpy()
            np.testing.assert_allclose(ours.alignment, weights, atol=1e-5)
