"""Verifies a bundle without what trained it: files, manifest, graphs, tokenizer, and that its profiles agree.

It does not know how the bundle was made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from tokenizers import Tokenizer

from regard.export.bundle.manifest import (
    check_attention,
    check_attention_ports,
    check_image,
    check_limits,
    check_parity,
    read_target_vocabularies,
)
from regard.export.bundle.writer import name_and_version, read_bundle
from regard.export.errors import BundleError, ExportError
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.greedy import Source, random_pictures, random_sources
from regard.export.parity.runtime import Device, OnnxMachine
from regard.export.ports import GraphPorts, ModelPorts, Port, Role
from regard.export.surgery.checks import PLAIN, check_graph
from regard.export.surgery.quantize import CONTRIB
from regard.v1 import bundle_pb2

Say = Callable[[str], object]


def verify(folder: Path, say: Say, *, profile: str = "", device: Device = "cpu") -> None:
    """Verify the bundle in a folder, saying what holds.

    Args:
        folder: of the bundle.
        say: gets a line for each thing that holds.
        profile: the one that is compared with the first one; all if empty.
        device: that runs what is compared; the first profile runs on a processor.

    Raises:
        ExportError: something does not hold; a sentence says what.
    """
    bundle = read_bundle(folder)
    manifest = bundle.manifest
    if (manifest.name, manifest.version) != name_and_version(folder):
        raise BundleError(f"{folder} holds {manifest.name}/{manifest.version}, another bundle than its path says.")
    say(f"files: {len(manifest.files)}, each as the manifest vouches for")
    check_limits(manifest.limits)
    check_attention(manifest.attention)
    check_tokenizer(manifest, bundle.files)
    say(f"tokenizer: {manifest.tokenizer.vocabulary_size} entries, special ones where they should be")
    names = [entry.name for entry in manifest.profiles]
    if profile and profile not in names:
        raise BundleError(f"There is no profile {profile!r}; the profiles are {', '.join(names)}.")
    machines: dict[str, tuple[OnnxMachine, ModelPorts]] = {}
    for entry in manifest.profiles:
        machines[entry.name] = _open(entry, bundle.files, manifest)
        check_attention_ports(manifest.attention, machines[entry.name][1])
        check_image(manifest, machines[entry.name][1])
        check_parity(entry, machines[entry.name][1])
        say(f"profile {entry.name}: graphs have the promised ports, opset and IR, and ONNX Runtime opens them")
    if manifest.default_profile not in machines:
        raise BundleError(f"The default profile {manifest.default_profile!r} is not among {sorted(machines)}.")
    reference = machines[names[0]]
    for entry in manifest.profiles:
        if entry.name in ([profile] if profile else names[1:] or names):
            on_device = machines[entry.name] if device == "cpu" else _open(entry, bundle.files, manifest, device)
            _compare(manifest.profiles[0], entry, reference, on_device[0], say)
    for entry in manifest.profiles:
        if entry.parity.emulated and not (entry.name == profile and device != "cpu"):
            say(
                f"profile {entry.name}: unverified on the device that it is for; there, "
                f"`regard verify {folder} --profile {entry.name} --device cuda` says whether it holds"
            )


def check_tokenizer(manifest: bundle_pb2.Bundle, files: Mapping[str, bytes]) -> None:
    """Check a bundle's tokenizer against its manifest. Raises BundleError if they do not belong together."""
    entry = manifest.tokenizer
    try:
        tokenizer = Tokenizer.from_str(files[entry.file].decode())
    except KeyError as error:
        raise BundleError(f"{entry.file!r} is not among the bundle's files.") from error
    except Exception as error:  # tokenizers raises plain Exception
        raise BundleError(f"{entry.file} is not a tokenizer: {error}") from error
    if tokenizer.get_vocab_size() != entry.vocabulary_size:
        raise BundleError(
            f"{entry.file} has {tokenizer.get_vocab_size()} entries, "
            f"but the model was made for {entry.vocabulary_size}."
        )
    special = {"<pad>": entry.pad_id, "<unk>": entry.unknown_id, "<s>": entry.begin_id, "</s>": entry.end_id}
    for token, index in special.items():
        if tokenizer.token_to_id(token) != index:
            raise BundleError(
                f"{entry.file} has id {tokenizer.token_to_id(token)} for {token}, but it must be {index}."
            )
    if tokenizer.encode("a").ids[-1] != entry.end_id:
        raise BundleError(f"{entry.file} does not end what it encodes with </s>.")
    if json.loads(tokenizer.to_str())["added_tokens"]:
        raise BundleError(f"{entry.file} has added tokens: a text could spell </s> and end itself.")


def _open(
    profile: bundle_pb2.Profile, files: Mapping[str, bytes], manifest: bundle_pb2.Bundle, device: Device = "cpu"
) -> tuple[OnnxMachine, ModelPorts]:
    contrib = profile.precision == bundle_pb2.PRECISION_INT8 or profile.state_in_place
    domains = PLAIN | {CONTRIB} if contrib else PLAIN
    described: list[GraphPorts] = []
    for graph in (profile.encode, profile.step):
        try:
            model = onnx.load_model_from_string(files[graph.file])
        except KeyError as error:
            raise BundleError(f"{graph.file!r} is not among the bundle's files.") from error
        except DecodeError as error:
            raise BundleError(f"{graph.file} is not an ONNX graph.") from error
        opset = next((entry.version for entry in model.opset_import if entry.domain == ""), 0)
        if (opset, model.ir_version) != (graph.opset, graph.ir_version):
            raise BundleError(
                f"{graph.file} has opset {opset} and IR {model.ir_version}, "
                f"but the manifest says {graph.opset} and {graph.ir_version}."
            )
        ports = GraphPorts(*(tuple(map(_port, side)) for side in (graph.inputs, graph.outputs)))
        check_graph(model, ports, domains=domains)
        described.append(ports)
    encode, step = described
    axes = {port.name: port.axes for port in step.outputs}
    match axes.get(Role.SCORES.value), axes.get(Role.ATTENTION.value, ("batch", 0, 0, "source")):
        case ("batch", int(predictable)), ("batch", int(layers), int(heads), "source" | int()):
            pass
        case scores, attention:
            raise BundleError(f"Profile {profile.name!r} has scores {scores} and attention {attention}.")
    ports = ModelPorts(
        encode=encode,
        step=step,
        vocabulary=manifest.tokenizer.vocabulary_size,
        predictable=predictable,
        layers=layers,
        heads=heads,
        target_vocabularies=read_target_vocabularies(manifest, step, predictable),
    )
    in_place = ports.shared if profile.state_in_place else None
    if in_place and device != "cpu":
        raise BundleError(f"Profile {profile.name!r} writes its state in place, which only a processor is asked to do.")
    graphs = files[profile.encode.file], files[profile.step.file]
    return OnnxMachine(*graphs, in_place=in_place, device=device), ports


def _port(port: bundle_pb2.Port) -> Port:
    try:
        role = Role[bundle_pb2.PortRole.Name(port.role).removeprefix("PORT_ROLE_")]
    except KeyError:
        raise BundleError(f"{port.name!r} has no role.") from None
    return Port(
        name=port.name,
        role=role,
        dtype=port.dtype,
        axes=tuple(int(axis) if axis.isdigit() else axis for axis in port.axes),
    )


def _compare(
    first: bundle_pb2.Profile,
    profile: bundle_pb2.Profile,
    opened: tuple[OnnxMachine, ModelPorts],
    candidate: OnnxMachine,
    say: Say,
) -> None:
    """Hold a profile against the first one, as it was opened, allowing what both of their parity records allow."""
    reference, ports = opened
    rng = np.random.default_rng(2)
    sources: list[Source] = (
        [*random_sources(16, 20, ports.vocabulary, rng)]
        if ports.picture is None
        else [*random_pictures(8, ports.picture, rng)]
    )
    allowed = first.parity.tolerance + profile.parity.tolerance
    record = measure(reference, candidate, ports, grid=Grid(), tolerances={"": allowed}, sources=sources)
    worst = max(record.ports, key=lambda port: port.worst_absolute)
    say(
        f"profiles {first.name} and {profile.name} on {candidate.provider}: at most {worst.worst_absolute:.2g} apart, "
        f"in {worst.port}, where {allowed:.2g} is allowed; greedy choices on random sources agree to "
        f"{record.greedy_agreement:.1%}"
    )


_DESCRIPTION = """\
Verify a bundle without what trained it.

Every file must be the one that bundle.json vouches for, with no other beside it; limits and alignment heads must be
there and within what can be served; the graphs must have the promised ports, opset and IR, and open in the ONNX Runtime
that is installed; the tokenizer must fit the model; every profile must have a record of how far it was from its model,
on every port and within what was allowed; all profiles must compute the same, within what they promise, over sizes and
padding, without NaN, and with attention that is exactly 0 on padding.

The profile cuda was compared with its model on a processor that rounded as a graphics card does. On a machine with such
a card (`pip install '.[cuda]' onnx`), --device cuda runs it there and compares it with the first profile on the
processor.
"""
_EPILOG = """\
examples:
  python -m regard.export.verify models/en-es-rnn/1
  python -m regard.export.verify bundles/en-xx/1 --profile cuda --device cuda

exit code: 0 if everything holds, 1 if something does not; what, and in which file, is on stderr.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to a parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the folder NAME/VERSION that holds bundle.json")
    parser.add_argument("--profile", default="", help="compare this profile alone with the first one (default: all)")
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where --profile, or else the profile cuda, runs (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Verify, say what was found, and return the exit code: 0 if everything holds, 1 if not."""
    bundle: Path = arguments.bundle
    device: Device = arguments.device
    profile: str = arguments.profile or ("cuda" if device == "cuda" else "")
    try:
        verify(bundle, lambda line: sys.stdout.write(f"{line}\n"), profile=profile, device=device)
    except ExportError as error:
        sys.stderr.write(f"{bundle} is refused: {error}\n")
        return 1
    sys.stdout.write(f"{bundle} holds{f', profile {profile} on {device}' if profile else ''}\n")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run as a command of its own."""
    parser = argparse.ArgumentParser(prog="python -m regard.export.verify")
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
