"""Makes a small untrained model of every recurrent rung, or another, its bundle, and what a real server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
import torch
from onnx import ModelProto
from tests.export.toy import quiet
from tests.server.serving import Served, serving
from torch import Tensor, nn

from regard.contract.model_ports import GraphPorts
from regard.export.build import BuildSettings, build
from regard.export.bundle.writer import Bundle, write_bundle
from regard.export.families import generic, transformer_profiles
from regard.export.families.trace import trace
from regard.export.parity.comparison import Grid
from regard.export.surgery.checks import PLAIN
from regard.training.data.toy_data import make_toy
from regard.training.data.vocabulary import END, Vocabulary
from regard.training.families import TrainedModel
from regard.training.learning import checkpoint
from regard.training.learning.checkpoint import Checkpoint
from regard.training.models.recurrent import UnitName
from regard.training.models.rnn import ContextName, ReadoutName, Rnn, RnnConfig
from regard.v1 import attention_pb2, decoding_pb2, translation_pb2

TEXT = "ala bee cat dog"


class Rung(NamedTuple):
    """What tells one rung from the others."""

    context: ContextName
    cell: UnitName
    readout: ReadoutName

    @property
    def name(self) -> str:
        """Of its bundle."""
        return f"{self.context}-{self.cell}-{self.readout}"


# Each context with each cell; either readout with each cell.
RUNGS = (
    Rung("none", "gru", "mlp"),
    Rung("none", "lstm", "linear"),
    Rung("fixed", "gru", "linear"),
    Rung("fixed", "lstm", "mlp"),
    Rung("attention", "gru", "linear"),
    Rung("attention", "lstm", "mlp"),
)


class Made(NamedTuple):
    """A rung with its bundle, in memory and on disk."""

    rung: Rung
    folder: Path
    bundle: Bundle
    run: Path  # the checkpoint that it was made of


class Replies(NamedTuple):
    """What a server says of TEXT for one model."""

    default: translation_pb2.TranslationResult
    beam: translation_pb2.TranslationResult
    score: translation_pb2.ScoreResult
    attention: translation_pb2.TranslationResult | grpc.aio.AioRpcError


# Tracing is what takes long: that no size of input leads to another graph is tried on one rung, and by other tests on
# the one with attention.
TRACED_WITH_TWO_SIZES = RUNGS[1]


def make(rung: Rung, root: Path) -> Made:
    """Export an untrained model, large enough for its products to become int8, to root/models/NAME/1."""

    def untrained(vocabulary: int, output: int) -> Rnn:
        return Rnn(
            RnnConfig(
                vocabulary=vocabulary,
                output=output,
                embedding=64,
                encoder=32,
                decoder=64,
                attention=64,
                dropout=0.0,
                context=rung.context,
                cell=rung.cell,
                readout=rung.readout,
            )
        )

    run, bundle, folder = export_untrained(untrained, rung.name, root, traced_once=rung != TRACED_WITH_TWO_SIZES)
    return Made(rung, folder, bundle, run)


def export_untrained(
    make_model: Callable[[int, int], TrainedModel],
    name: str,
    root: Path,
    *,
    traced_once: bool,
    sureness: float = 2.0,
    cuda: bool = False,
) -> tuple[Path, Bundle, Path]:
    """Export what is made, given a vocabulary's size and how much of it can be predicted, to root/models/NAME/1.

    Its parameters are multiplied by `sureness`, as a trained model is more sure of itself.
    Returns the checkpoint, the bundle and where that was written.
    """
    corpus = make_toy("reverse")
    vocabulary, output = Vocabulary.train(
        [pair.source for pair in corpus.train], [pair.target for pair in corpus.train], size=64
    )
    torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType]  half typed
    model = make_model(vocabulary.size, output).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(sureness)
        model.output.bias[END] = -4.0  # so that it says something
    run = root / "runs" / name
    made = Checkpoint(
        recipe="toy_reverse",
        model=model,
        vocabulary=vocabulary,
        metrics={},
        provenance={"data": {"origin": corpus.origin}},
    )
    checkpoint.save(run, made)
    settings = BuildSettings(
        calibration_sentences=8,
        compared_sentences=8,
        # Untrained, it is often undecided, and int8 then decides otherwise.
        least_agreement=0.0,
        grid=Grid(batches=(1, 3), source_lengths=(1, 9), steps=2),
        cuda=cuda,
    )
    with pytest.MonkeyPatch.context() as patch:
        if traced_once:
            for module in (generic, transformer_profiles):
                patch.setattr(module, "trace", _trace_once)
        bundle = build(run, settings, quiet)
    folder = root / "models" / name / "1"
    write_bundle(folder, bundle)
    return run, bundle, folder


def _trace_once(
    module: nn.Module, samples: Sequence[tuple[Tensor, ...]], ports: GraphPorts, *, domains: frozenset[str] = PLAIN
) -> ModelProto:
    return trace(module, samples[:1], ports, domains=domains)


def serve(models: Path, names: Sequence[str], *, profile: str) -> dict[str, Replies]:
    """Ask a real server, in this process, about TEXT for every model of these names."""

    async def run() -> dict[str, Replies]:
        async with serving(models=(models,), profile=profile) as served:
            return {name: await _ask(served, name) for name in names}

    return asyncio.run(run())


async def _ask(served: Served, model: str) -> Replies:
    every_head = attention_pb2.AttentionOptions(reduction=attention_pb2.ATTENTION_REDUCTION_NONE)
    attention: translation_pb2.TranslationResult | grpc.aio.AioRpcError
    try:
        attention = (await served.translate(TEXT, model=model, attention=every_head)).results[0]
    except grpc.aio.AioRpcError as error:
        attention = error
    beam = await served.translate(TEXT, model=model, decoding=decoding_pb2.DecodingOptions(beam_size=4, n_best=4))
    score = await served.translation.ScoreTranslation(
        translation_pb2.ScoreTranslationRequest(
            model=model, pairs=[translation_pb2.TranslationPair(source=TEXT, target="dog cat")]
        )
    )
    default = await served.translate(TEXT, model=model)
    return Replies(default.results[0], beam.results[0], score.results[0], attention)
