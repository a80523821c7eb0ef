"""Every recurrent rung goes through the one contract: exported, verified and served, with attention or honestly none.

The rung with additive attention, GRU and a hidden layer is that of the other tests of this folder.
"""

from __future__ import annotations

from pathlib import Path

import grpc
import numpy as np
import onnx
import pytest
import torch
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from tests.export.rungs import RUNGS, TEXT, Made, Replies, Rung, make, serve
from tests.export.toy import quiet
from tests.server.serving import detail_of

from regard.export.surgery.rewrite import attributes
from regard.export.surgery.storage import round_weights
from regard.export.verify import verify
from regard.training.decoding.search import SearchConfig, search_all
from regard.training.learning import checkpoint
from regard.training.models.rnn import Rnn
from regard.v1 import bundle_pb2

PLAIN = tuple(rung for rung in RUNGS if rung.context != "attention")
ATTENDING = tuple(rung for rung in RUNGS if rung.context == "attention")

every_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
every_plain_rung = pytest.mark.parametrize("rung", PLAIN, ids=lambda rung: rung.name)
every_attending_rung = pytest.mark.parametrize("rung", ATTENDING, ids=lambda rung: rung.name)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything lies."""
    return tmp_path_factory.mktemp("rungs")


@pytest.fixture(scope="module")
def made(root: Path) -> dict[Rung, Made]:
    """Every rung with its bundle; nobody may write to them."""
    return {rung: make(rung, root) for rung in RUNGS}


@pytest.fixture(scope="module")
def replies(made: dict[Rung, Made], root: Path) -> dict[Rung, Replies]:
    """What a server that holds every bundle says, in int8."""
    return _serve(made, root, profile="cpu")


@pytest.fixture(scope="module")
def exact_replies(made: dict[Rung, Made], root: Path) -> dict[Rung, Replies]:
    """What it says with the weights that were trained."""
    return _serve(made, root, profile="portable")


def _serve(made: dict[Rung, Made], root: Path, *, profile: str) -> dict[Rung, Replies]:
    said = serve(root / "models", [rung.name for rung in made], profile=profile)
    return {rung: said[rung.name] for rung in made}


@every_rung
def test_bundle_holds(rung: Rung, made: dict[Rung, Made]) -> None:
    verify(made[rung].folder, quiet)


@every_rung
def test_parity_record_covers_every_port_within_its_tolerance(rung: Rung, made: dict[Rung, Made]) -> None:
    for profile in made[rung].bundle.manifest.profiles:
        promised = {port.name for graph in (profile.encode, profile.step) for port in graph.outputs}
        found = {entry.port: entry.worst_absolute for entry in profile.parity.ports}
        assert found.keys() == promised
        assert max(found.values()) <= profile.parity.tolerance


@every_rung
def test_memory_has_the_ports_of_what_is_kept(rung: Rung, made: dict[Rung, Made]) -> None:
    kept = {
        "none": {},
        "fixed": {"memory.context": ("batch", "64")},
        "attention": {
            "memory.keys": ("batch", "source", "64"),
            "memory.values": ("batch", "source", "64"),
            "memory.mask": ("batch", "source"),
        },
    }
    graph = made[rung].bundle.manifest.profiles[0].encode
    found = {port.name: tuple(port.axes) for port in graph.outputs if port.role == bundle_pb2.PORT_ROLE_MEMORY}
    assert found == kept[rung.context]


@every_rung
def test_state_has_the_ports_of_the_cell(rung: Rung, made: dict[Rung, Made]) -> None:
    graph = made[rung].bundle.manifest.profiles[0].step
    found = {port.name for port in graph.inputs if port.role == bundle_pb2.PORT_ROLE_STATE}
    assert found == {"gru": {"state.hidden"}, "lstm": {"state.hidden", "state.cell"}}[rung.cell]


@every_rung
def test_attention_port_is_there_if_the_model_has_attention(rung: Rung, made: dict[Rung, Made]) -> None:
    manifest = made[rung].bundle.manifest
    has = rung.context == "attention"
    assert (manifest.attention.layers, manifest.attention.heads) == ((1, 1) if has else (0, 0))
    assert bool(manifest.attention.alignment_heads) == has
    for profile in manifest.profiles:
        assert ("attention" in {port.name for port in profile.step.outputs}) == has


@every_rung
def test_reader_is_one_operator_that_is_told_lengths(rung: Rung, made: dict[Rung, Made]) -> None:
    graph = onnx.load_model_from_string(made[rung].bundle.files["encode.portable.onnx"]).graph
    (reader,) = [node for node in graph.node if node.op_type in ("GRU", "LSTM")]
    assert reader.op_type == rung.cell.upper()
    assert attributes(reader)["direction"] == b"bidirectional"
    assert reader.input[4]


@every_rung
def test_all_large_products_of_a_step_are_int8_without_a_scale_of_the_batch(rung: Rung, made: dict[Rung, Made]) -> None:
    step = onnx.load_model_from_string(made[rung].bundle.files["step.cpu.onnx"])
    operators = {node.op_type for node in step.graph.node}
    assert "MatMulIntegerToFloat" in operators
    assert not operators & {"DynamicQuantizeLinear", "DynamicQuantizeMatMul"}
    # The toy predicts too few entries for the product that scores them.
    (left,) = [node.input[1] for node in step.graph.node if node.op_type == "Gemm"]
    assert left == "model.output.onnx_weight"


@every_rung
def test_card_says_whether_attention_is_returned(rung: Rung, made: dict[Rung, Made]) -> None:
    card = (made[rung].folder / "README.md").read_text(encoding="utf-8")
    assert ("the model has no attention to return" in card) == (rung.context != "attention")


@every_rung
def test_served_translations_are_those_of_the_reference(
    rung: Rung, made: dict[Rung, Made], exact_replies: dict[Rung, Replies]
) -> None:
    found = checkpoint.load(made[rung].run)
    round_weights(found.model)
    sources = found.vocabulary.encode_all([TEXT])
    for beams, result in ((1, exact_replies[rung].default), (4, exact_replies[rung].beam)):
        (expected,) = search_all(found.model, sources, SearchConfig(beam_size=beams))  # pyright: ignore[reportArgumentType]  any of the models
        hypotheses = result.segments[0].hypotheses
        assert [[token.id for token in one.tokens] for one in hypotheses] == [
            [token for token in one.tokens if token != 3] for one in expected
        ]
        np.testing.assert_allclose([one.score for one in hypotheses], [one.score for one in expected], atol=1e-4)


@every_rung
def test_given_translations_are_scored(rung: Rung, made: dict[Rung, Made], exact_replies: dict[Rung, Replies]) -> None:
    found = checkpoint.load(made[rung].run)
    assert isinstance(found.model, Rnn)
    round_weights(found.model)
    (source,), (target,) = (found.vocabulary.encode_all([text]) for text in (TEXT, "dog cat"))
    with torch.inference_mode():
        features, _ = found.model(
            torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([[2, *target[:-1]]])
        )
        scores = torch.log_softmax(found.model.output(features), dim=-1)[0]
    expected = float(scores[torch.arange(len(target)), torch.tensor(target)].mean())
    assert exact_replies[rung].score.segment.hypotheses[0].score == pytest.approx(expected, abs=1e-4)


@every_attending_rung
def test_attention_has_one_layer_and_head_over_the_whole_source(rung: Rung, replies: dict[Rung, Replies]) -> None:
    answered = replies[rung].attention
    assert not isinstance(answered, grpc.aio.AioRpcError)
    (segment,) = answered.segments
    hypothesis = segment.hypotheses[0]
    weights = np.frombuffer(hypothesis.attention.values, "<f4").reshape(hypothesis.attention.shape)
    assert weights.shape == (1, 1, len(hypothesis.tokens), len(segment.source_tokens))
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)


@every_plain_rung
def test_attention_that_there_is_none_of_is_refused_by_name(rung: Rung, replies: dict[Rung, Replies]) -> None:
    error = replies[rung].attention
    assert isinstance(error, grpc.aio.AioRpcError)
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == f"model {rung.name} has no attention to return"
    assert detail_of(error, error_details_pb2.ErrorInfo).reason == "NO_ATTENTION"


@every_plain_rung
def test_without_attention_a_request_is_answered_without_alignments(rung: Rung, replies: dict[Rung, Replies]) -> None:
    hypotheses = [one for reply in (replies[rung].default, replies[rung].beam) for one in reply.segments[0].hypotheses]
    assert any(one.tokens for one in hypotheses)
    for hypothesis in hypotheses:
        assert not hypothesis.alignments
        assert not hypothesis.HasField("attention")
