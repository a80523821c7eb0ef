"""The engine decodes real graphs of a Transformer, in place and out of place, as the reference decoder does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.bundles import NULL
from tests.server.engine_fakes import END, request
from tests.small_transformer import SIZES, small_graphs, small_transformer

from regard.contract.bundle import LoadedBundle, load_bundle
from regard.contract.model_ports import GraphPorts
from regard.contract.names import ModelKey
from regard.contract.ports import GraphSpec
from regard.server.engine.pool import Pool
from regard.server.engine.segment import PoolKey, Segment
from regard.server.request import DecodeRequest, Hypothesis
from regard.server.runtime.session import open_model
from regard.server.search.searches import slots_needed
from regard.training.decoding.search import SearchConfig, search

WIDTH = 16


def spec(path: Path, ports: GraphPorts) -> GraphSpec:
    return GraphSpec(path=path, inputs=ports.inputs, outputs=ports.outputs)


def bundle(folder: Path, *, in_place: bool) -> LoadedBundle:
    traced = small_graphs("shared-buffer" if in_place else "plain")
    for name, graph in (("encode.onnx", traced.encode), ("step.onnx", traced.step)):
        (folder / name).write_bytes(graph.SerializeToString())
    return dataclasses.replace(
        load_bundle(NULL),
        encode=spec(folder / "encode.onnx", traced.ports.encode),
        step=spec(folder / "step.onnx", traced.ports.step),
        state_in_place=in_place,
        ports=traced.ports,
        max_source_tokens=WIDTH,
        max_target_tokens=40,
        alignment_heads=((1, 0),),
    )


@pytest.mark.parametrize("in_place", [False, True])
def test_a_transformer_says_in_the_engine_what_it_says_in_training(tmp_path: Path, in_place: bool) -> None:
    model = small_transformer()
    opened = open_model(bundle(tmp_path, in_place=in_place), device="cpu", intra_op_threads=1)

    random = np.random.default_rng(1)
    asked = [
        request([*random.integers(4, SIZES.vocabulary, size=length).tolist(), END], beam_size=beams, max_length=256)
        for length, beams in ((1, 1), (3, 4), (7, 1), (15, 5), (15, 1), (2, 3))
    ]
    pool = Pool(opened, capacity=64, width=WIDTH)
    key = PoolKey(ModelKey("transformer", "1"), WIDTH)
    answers: dict[DecodeRequest, tuple[Hypothesis, ...] | None] = {}
    waiting = list(asked)
    while waiting or pool.rows:
        # One comes with every other step, so that rows are of different ages.
        for one in waiting[:1]:
            source = np.zeros((1, WIDTH), dtype=np.int64)
            source[0, : len(one.source)] = one.source
            segment = Segment(
                pool=key, rows=slots_needed(one), request=one, deliver=lambda outcome: None, submitted=0.0
            )
            pool.admit([segment], opened.encode(source, np.array([len(one.source)])), now=0.0, encode_seconds=0.0)
        del waiting[:1]
        for _ in range(2):
            if pool.rows:
                answers.update((ended.request, ended.hypotheses) for ended in pool.step())

    for one in asked:
        (expected,) = search(
            model,
            torch.as_tensor(one.source)[None],
            torch.tensor([len(one.source)]),
            SearchConfig(beam_size=one.search.beam_size, max_length=min(2 * len(one.source) + 10, 40)),
        )
        found = answers[one]
        assert found is not None
        for ours, theirs in zip(found, expected, strict=True):
            ended = theirs.finish == "end"
            assert (*ours.tokens.tolist(), *((END,) if ended else ())) == theirs.tokens
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
            weights = theirs.attention[: len(ours.tokens), 1, 0, : len(one.source)].numpy()
            np.testing.assert_allclose(ours.alignment, weights, atol=1e-5)
