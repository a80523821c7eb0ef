"""Reads the profiles of a bundle, each a pair of graphs with a parity record, and checks every one of them.

It does not know which profile will run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from regard.contract.bundle_files import need_file
from regard.contract.errors import BundleError
from regard.contract.graph_contract import check_graphs, read_predictable
from regard.contract.image_input import ImageInput
from regard.contract.model_ports import ModelPorts
from regard.contract.parity import parity_fault
from regard.contract.ports import GraphSpec, read_graph
from regard.contract.target_vocabulary import read_target_vocabularies
from regard.contract.vocabulary import SPECIAL_TOKENS
from regard.v1 import bundle_pb2


class Graphs(NamedTuple):
    """Both graphs of a profile as the manifest lists them, and the ports of the model that they are of."""

    encode: GraphSpec
    step: GraphSpec
    ports: ModelPorts


def read_profiles(
    manifest: bundle_pb2.Bundle, directory: Path, listed: Collection[str], image: ImageInput | None
) -> Mapping[str, Graphs]:
    """Return the graphs of every profile, by its name.

    Args:
        manifest: of the bundle.
        directory: of the bundle.
        listed: files of the manifest.
        image: of a model that reads pictures, else None.

    Raises:
        BundleError: a profile is incomplete, is there twice, or breaks the graph contract.
    """
    found: dict[str, Graphs] = {}
    for index, choice in enumerate(manifest.profiles):
        if not choice.name:
            raise BundleError(f"profiles[{index}].name is missing")
        if choice.name in found:
            raise BundleError(f"profile {choice.name!r} is there twice")
        where = f"profile {choice.name!r}"
        if choice.precision == bundle_pb2.PRECISION_UNSPECIFIED:
            raise BundleError(f"{where}: precision is missing")
        need_file(choice.encode.file, listed, f"{where}: encode.file")
        need_file(choice.step.file, listed, f"{where}: step.file")
        encode = read_graph(choice.encode, where=f"{where}: encode", directory=directory)
        step = read_graph(choice.step, where=f"{where}: step", directory=directory)
        predictable = read_predictable(
            step, vocabulary_size=manifest.tokenizer.vocabulary_size, special=len(SPECIAL_TOKENS), where=where
        )
        ports = check_graphs(
            encode,
            step,
            vocabulary_size=manifest.tokenizer.vocabulary_size,
            predictable=predictable,
            target_vocabularies=read_target_vocabularies(manifest, predictable=predictable),
            layers=manifest.attention.layers,
            heads=manifest.attention.heads,
            image=image,
            where=where,
        )
        fault = parity_fault(choice, {port.name for port in (*encode.outputs, *step.outputs)})
        if fault is not None:
            raise BundleError(f"{where}: {fault}")
        found[choice.name] = Graphs(encode, step, ports)
    widths = {graphs.ports.predictable for graphs in found.values()}
    if len(widths) > 1:
        raise BundleError(f"the profiles have scores of different widths: {', '.join(map(str, sorted(widths)))}")
    return found
