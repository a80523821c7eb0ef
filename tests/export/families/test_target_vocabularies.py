"""A step scores the tokens of one target language as the model would if it knew no others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from regard.contract.model_ports import ModelPorts, with_target_vocabularies
from regard.contract.target_vocabulary import pack_tokens, unpack_tokens
from regard.export.calibration.sentences import target_vocabularies
from regard.export.errors import GraphError
from regard.export.families.profile import Traced
from regard.export.families.transformer import Body
from regard.export.families.transformer_machine import TransformerMachine
from regard.export.families.transformer_profiles import quantize_transformer
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.greedy import first_state, pad_sources, random_sources, step_inputs
from regard.export.parity.runtime import Arrays, OnnxMachine
from regard.export.surgery.rewrite import copy
from regard.export.surgery.vocabularies import collect_tokens, score_vocabularies
from regard.training.data.translation_data import Pair
from regard.training.data.vocabulary import END, UNKNOWN, Vocabulary
from regard.training.models.transformer import Transformer

VOCABULARIES = {"es": np.array([3, 5, 8, 40, 79]), "pt-BR": np.arange(3, 60)}


def scored(graphs: Traced) -> tuple[OnnxMachine, ModelPorts]:
    ports = with_target_vocabularies(graphs.ports, VOCABULARIES)
    step = score_vocabularies(graphs.step, ports)
    return OnnxMachine(graphs.encode.SerializeToString(), step.SerializeToString()), ports


def first_step(machine: OnnxMachine, ports: ModelPorts, choice: int) -> Arrays:
    sources = random_sources(3, 5, ports.vocabulary, np.random.default_rng(1))
    memory = machine.encode(pad_sources(sources))
    state = first_state(ports.step, memory, 3, 4)
    return machine.step(step_inputs(ports.step, np.array([7, 8, 9]), state, memory, scores=choice))


@pytest.mark.parametrize("body", ["plain", "shared-buffer"])
def test_scores_of_a_language_are_those_of_a_model_with_its_tokens_alone(
    body: Body, model: Transformer, traced: Mapping[str, Traced]
) -> None:
    machine, ports = scored(traced[body])
    record = measure(
        TransformerMachine(model, ports),
        machine,
        ports,
        grid=Grid(batches=(1, 3), source_lengths=(4,), steps=6),
        tolerances={"": 2e-5},
        sources=[],
    )
    assert {"scores", "scores.es", "scores.pt_br"} <= {port.port for port in record.ports}


def test_in_int8_a_language_decides_as_all_tokens_do_among_its_own(traced: Mapping[str, Traced]) -> None:
    sources = random_sources(8, 6, 100, np.random.default_rng(4))
    machine, ports = scored(quantize_transformer(traced["shared-buffer"], sources, lambda line: None))
    everything, some = first_step(machine, ports, 0), first_step(machine, ports, 1)
    among: NDArray[np.float64] = everything["scores"][:, VOCABULARIES["es"]].astype(np.float64)
    among -= np.log(np.exp(among).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(some["scores.es"], among, atol=1e-5)


def test_scores_that_are_not_wanted_have_no_rows(traced: Mapping[str, Traced]) -> None:
    machine, ports = scored(traced["plain"])
    sizes = {name: [len(first_step(machine, ports, choice)[name]) for choice in range(3)] for name in ports.scores}
    assert sizes == {"scores": [3, 0, 0], "scores.es": [0, 3, 0], "scores.pt_br": [0, 0, 3]}


def test_a_step_without_a_product_to_choose_columns_of_is_refused(traced: Mapping[str, Traced]) -> None:
    graphs = traced["plain"]
    step = copy(graphs.step)
    (softmax,) = [node for node in step.graph.node if node.output[0] == "scores"]
    step.graph.node.append(helper.make_node("Relu", [softmax.input[0]], ["cut"]))
    softmax.input[0] = "cut"
    with pytest.raises(GraphError, match="Relu"):
        score_vocabularies(step, with_target_vocabularies(graphs.ports, VOCABULARIES))


def test_a_language_has_the_tokens_of_its_sentences_and_every_character() -> None:
    pairs = [
        Pair("the cat", "el gato", "es"),
        Pair("the cat", "le chat", "fr"),
        Pair("the dog", "el perro", "es"),
        Pair("the dog", "le chien", "fr"),
        Pair("x y z", "x y z", "es"),
    ] * 3
    vocabulary, predictable = Vocabulary.train(
        [pair.source for pair in pairs], [pair.target for pair in pairs], size=80, languages=("es", "fr")
    )
    found = target_vocabularies(vocabulary, pairs, ("es", "fr"), predictable=predictable)
    for pair in pairs:
        assert set(vocabulary.encode(pair.target)) <= set(found[pair.language].tolist())
    whole = vocabulary.encode("gato")[:-1]
    assert len(whole) == 1
    assert whole[0] in found["es"]
    assert whole[0] not in found["fr"]
    letters = {vocabulary.tokenizer.token_to_id(f"▁{letter}") for letter in "xyz"}
    assert letters <= set(found["fr"].tolist())
    assert UNKNOWN not in found["es"]
    assert END in found["es"]
    assert target_vocabularies(vocabulary, pairs, ("es",), predictable=predictable) == {}


def test_ids_that_cannot_be_predicted_are_left_out() -> None:
    found = collect_tokens({"es": [[4, 9, 12]]}, always=[3, 30], never=[0, 1, 2], predictable=10)
    assert found["es"].tolist() == [3, 4, 9]


def test_tokens_come_back_from_their_bits() -> None:
    tokens = np.array([3, 8, 9, 20])
    packed = pack_tokens(tokens, 21)
    assert packed == bytes([0b1000, 0b11, 0b10000])
    assert unpack_tokens(packed).tolist() == tokens.tolist()
