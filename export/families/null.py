"""Makes the null bundle: constant scores, uniform attention, no weights; what is left is the cost around a model.

It knows no model and needs no torch.

Every word reads as `echo`, and greedy search answers `echo` until the length limit: </s> is never likely enough to end
a hypothesis of any beam, so the work of a request follows from its length alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from regard.contract.model_ports import GraphPorts, ModelPorts, Part, name_ports
from regard.contract.ports import Port
from regard.export.bundle.writer import TOKENIZER, Bundle, describe_graph, write_bundle
from regard.export.errors import ExportError
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.runtime import Arrays, OnnxMachine
from regard.v1 import bundle_pb2

OPSET = 20
IR_VERSION = 10
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
WORDS = ("echo", *(f"echo{number}" for number in range(1, 60)))


class NullMachine:
    """The null model in numpy: what its graphs are compared with."""

    def encode(self, inputs: Arrays) -> dict[str, NDArray[np.generic]]:
        """Make weights that look evenly at real positions, and a state that has counted nothing."""
        source, length = inputs["source"], inputs["source_length"]
        mask: NDArray[np.bool_] = np.less(np.arange(source.shape[1], dtype=np.int64), length[:, None])
        weights = (mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)).astype(np.float32)
        count = np.zeros((len(source), 1), dtype=np.float32)
        return {"memory.weights": weights, "memory.mask": mask, "state.count": count}

    def step(self, inputs: Arrays) -> dict[str, NDArray[np.generic]]:
        """Count one more step; scores and attention never change."""
        attention = (inputs["memory.weights"] * inputs["memory.mask"])[:, None, None, :]
        scores = np.repeat(constant_scores()[None, :], len(inputs["token"]), axis=0)
        return {"scores": scores, "next.state.count": inputs["state.count"] + np.float32(1), "attention": attention}


def constant_scores() -> NDArray[np.float32]:
    """Return log-probabilities [vocabulary]: each word half as likely as the one before, </s> next to never."""
    logits = np.concatenate([np.full(len(SPECIAL), -100.0), -np.log(2.0) * np.arange(len(WORDS))])
    return (logits - np.log(np.exp(logits).sum())).astype(np.float32)


def null_ports() -> ModelPorts:
    """Return the ports of the null model."""
    return name_ports(
        memory=[Part("weights", "float32", ("batch", "source")), Part("mask", "bool", ("batch", "source"))],
        state=[Part("count", "float32", ("batch", 1))],
        vocabulary=len(SPECIAL) + len(WORDS),
        predictable=len(SPECIAL) + len(WORDS),
        layers=1,
        heads=1,
    )


def null_tokenizer() -> str:
    """Return tokenizer.json: words and runs of marks, each of which reads as `echo`; nothing is unknown."""
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=WORDS[0]))
    # Cuts "</s>" in three, so that no text can spell a mark.
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", SPECIAL.index("</s>"))]
    )
    return tokenizer.to_str(pretty=True) + "\n"


def null_graphs() -> tuple[ModelProto, ModelProto]:
    """Return the encode and the step graph."""
    ports = null_ports()
    encode = _graph(
        ports.encode,
        "encode",
        [
            helper.make_node("Shape", ["source"], ["width"], start=1, end=2),
            helper.make_node("Squeeze", ["width"], ["limit"]),
            helper.make_node("Range", ["zero", "limit", "one"], ["positions"]),
            helper.make_node("Unsqueeze", ["source_length", "axis"], ["length"]),
            helper.make_node("Less", ["positions", "length"], ["memory.mask"]),
            helper.make_node("Cast", ["memory.mask"], ["real"], to=TensorProto.FLOAT),
            helper.make_node("ReduceSum", ["real", "axis"], ["count"], keepdims=1),
            helper.make_node("Max", ["count", "least"], ["divisor"]),
            helper.make_node("Div", ["real", "divisor"], ["memory.weights"]),
            helper.make_node("Mul", ["count", "nothing"], ["state.count"]),
        ],
        {
            "zero": np.array(0, np.int64),
            "one": np.array(1, np.int64),
            "axis": np.array([1], np.int64),
            "least": np.array(1, np.float32),
            "nothing": np.array(0, np.float32),
        },
    )
    step = _graph(
        ports.step,
        "step",
        [
            helper.make_node("Shape", ["token"], ["rows"]),
            helper.make_node("Concat", ["rows", "columns"], ["shape"], axis=0),
            helper.make_node("Expand", ["constant_scores", "shape"], ["scores"]),
            helper.make_node("Add", ["state.count", "increment"], ["next.state.count"]),
            helper.make_node("Cast", ["memory.mask"], ["real"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["memory.weights", "real"], ["weights"]),
            helper.make_node("Unsqueeze", ["weights", "axes"], ["attention"]),
        ],
        {
            "columns": np.array([ports.predictable], np.int64),
            "constant_scores": constant_scores()[None, :],
            "increment": np.array(1, np.float32),
            "axes": np.array([1, 2], np.int64),
        },
    )
    return encode, step


def null_bundle() -> Bundle:
    """Return the null bundle, compared with its model in numpy. Both profiles are the same two graphs."""
    ports = null_ports()
    encode, step = null_graphs()
    files = {
        "encode.onnx": encode.SerializeToString(deterministic=True),
        "step.onnx": step.SerializeToString(deterministic=True),
        TOKENIZER: null_tokenizer().encode(),
    }
    machine = OnnxMachine(files["encode.onnx"], files["step.onnx"])
    parity = measure(
        NullMachine(), machine, ports, grid=Grid(), tolerances={"": 1e-6}, sources=[[4] * size + [3] for size in (1, 5)]
    )
    profiles = [
        bundle_pb2.Profile(
            name=name,
            precision=bundle_pb2.PRECISION_FLOAT32,
            encode=describe_graph("encode.onnx", encode, ports.encode),
            step=describe_graph("step.onnx", step, ports.step),
            parity=parity,
        )
        for name in ("portable", "cpu")
    ]
    manifest = bundle_pb2.Bundle(
        task=bundle_pb2.TASK_TRANSLATION,
        description="Answers echo, whatever is asked: no weights, so that only the cost around a model is left.",
        profiles=profiles,
        default_profile="cpu",
        default_profile_reason="both are the same two graphs",
        tokenizer=bundle_pb2.Tokenizer(
            file=TOKENIZER,
            vocabulary_size=ports.vocabulary,
            pad_id=0,
            unknown_id=1,
            begin_id=2,
            end_id=3,
        ),
        limits=bundle_pb2.Limits(max_source_tokens=256, max_target_tokens=256),
        attention=bundle_pb2.AttentionAxes(
            layers=1, heads=1, alignment_heads=[bundle_pb2.AttentionHead(layer=0, head=0)]
        ),
        provenance=bundle_pb2.Provenance(
            recipe="null", training_data="none", licence="Apache-2.0", created="2026-01-01T00:00:00Z"
        ),
    )
    return Bundle(manifest, files)


def _graph(
    ports: GraphPorts, name: str, nodes: list[onnx.NodeProto], constants: dict[str, NDArray[np.generic]]
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        name,
        [_value_info(port) for port in ports.inputs],
        [_value_info(port) for port in ports.outputs],
        [numpy_helper.from_array(array, key) for key, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]  half typed
    return model


def _value_info(port: Port) -> onnx.ValueInfoProto:
    dtype = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}[port.dtype]
    return helper.make_tensor_value_info(port.name, dtype, port.axes)


def main() -> int:
    """Write the null bundle to the folder given as the only argument."""
    parser = argparse.ArgumentParser(
        prog="python -m regard.export.families.null", description=__doc__.partition("\n")[0] if __doc__ else None
    )
    parser.add_argument("target", type=Path, metavar="NAME/VERSION", help="for example loadtest/bundles/null/1")
    parser.add_argument("--replace", action="store_true", help="write an existing bundle anew")
    arguments = parser.parse_args()
    try:
        write_bundle(arguments.target, null_bundle(), replace=arguments.replace)
    except ExportError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"wrote {arguments.target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
