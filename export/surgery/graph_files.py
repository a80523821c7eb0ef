"""Checks a graph file against what the manifest says of it: opset and IR version, ports, operators, weights inside."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from regard.contract.model_ports import GraphPorts
from regard.export.errors import BundleError
from regard.export.surgery.checks import PLAIN, check_graph
from regard.export.surgery.quantize import CONTRIB
from regard.v1 import bundle_pb2


def check_graph_file(path: Path, stated: bundle_pb2.Graph, ports: GraphPorts, *, contrib: bool) -> None:
    """Check the graph in a file. `contrib` allows ONNX Runtime's own operators too.

    Raises:
        BundleError: it is no ONNX graph, or of another opset or IR version than stated.
        GraphError: what `check_graph` refuses.
    """
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except DecodeError as error:
        raise BundleError(f"{path.name} is not an ONNX graph.") from error
    opset = next((entry.version for entry in model.opset_import if entry.domain == ""), 0)
    if (opset, model.ir_version) != (stated.opset, stated.ir_version):
        raise BundleError(
            f"{path.name} has opset {opset} and IR {model.ir_version}, "
            f"but the manifest says {stated.opset} and {stated.ir_version}."
        )
    check_graph(model, ports, domains=PLAIN | {CONTRIB} if contrib else PLAIN)
