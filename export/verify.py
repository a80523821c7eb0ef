"""Verifies a bundle without what trained it: the contract's reader first, then its graphs and that profiles agree.

Opset, operators and where weights lie are read from the graph files where `onnx` is installed; where it is not, a line
says that they were not. All else needs ONNX Runtime alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from regard.contract.bundle import LoadedBundle, load_profiles
from regard.contract.model_ports import GraphPorts, ModelPorts
from regard.contract.names import key_of_path
from regard.contract.opened_graph import check_ports
from regard.contract.vocabulary import check_no_added_tokens, open_tokenizer
from regard.export.errors import BundleError, ExportError, as_export_error
from regard.export.parity.comparison import Grid, measure
from regard.export.parity.greedy import Source, random_pictures, random_sources
from regard.export.parity.runtime import Device, OnnxMachine
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
    bundles = _read(folder, profile)
    manifest = next(iter(bundles.values())).manifest
    say(f"files: {len(manifest.files)}, each as the manifest vouches for")
    say(f"tokenizer: {manifest.tokenizer.vocabulary_size} entries, special ones where they should be")
    deep = _onnx_is_installed()
    if not deep:
        say("graphs: opset, operators and where weights lie are not checked, for that needs `pip install onnx`")
    machines: dict[str, tuple[OnnxMachine, ModelPorts]] = {}
    for entry in manifest.profiles:
        machines[entry.name] = _open(entry, bundles[entry.name], deep=deep)
        kept = "ports, opset and IR" if deep else "ports"
        say(f"profile {entry.name}: graphs have the promised {kept}, and ONNX Runtime opens them")
    names = list(machines)
    for entry in manifest.profiles:
        if entry.name in ([profile] if profile else names[1:] or names):
            candidate = machines[entry.name][0] if device == "cpu" else _run(entry, bundles[entry.name], device)
            _compare(manifest.profiles[0], entry, machines[names[0]], candidate, say)
    for entry in manifest.profiles:
        if entry.parity.emulated and not (entry.name == profile and device != "cpu"):
            say(
                f"profile {entry.name}: unverified on the device that it is for; there, "
                f"`regard verify {folder} --profile {entry.name} --device cuda` says whether it holds"
            )


def _onnx_is_installed() -> bool:
    try:
        import onnx  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError:
        return False
    return True


def _read(folder: Path, profile: str) -> dict[str, LoadedBundle]:
    """Read a bundle with the reader of the server; one entry for each profile, as the manifest lists them."""
    with as_export_error():
        key = key_of_path(folder)
        bundles = load_profiles(folder)
        loaded = next(iter(bundles.values()))
        if loaded.key != key:
            raise BundleError(
                f"{folder} holds {loaded.key.name}/{loaded.key.version}, another bundle than its path says"
            )
        check_no_added_tokens(open_tokenizer(loaded.tokenizer_path), loaded.tokenizer_path.name)
    if profile and profile not in bundles:
        raise BundleError(f"There is no profile {profile!r}; the profiles are {', '.join(bundles)}.")
    return bundles


def _open(profile: bundle_pb2.Profile, bundle: LoadedBundle, *, deep: bool) -> tuple[OnnxMachine, ModelPorts]:
    if deep:
        # Only where onnx is installed.
        from regard.export.surgery.graph_files import check_graph_file

        contrib = profile.precision == bundle_pb2.PRECISION_INT8 or profile.state_in_place
        for graph, listed in ((bundle.encode, profile.encode), (bundle.step, profile.step)):
            check_graph_file(graph.path, listed, GraphPorts(graph.inputs, graph.outputs), contrib=contrib)
    machine = _run(profile, bundle, "cpu")
    with as_export_error():
        for graph, (inputs, outputs) in zip((bundle.encode, bundle.step), machine.real_ports(), strict=True):
            check_ports(graph.inputs, inputs, f"{graph.path.name}: inputs")
            check_ports(graph.outputs, outputs, f"{graph.path.name}: outputs")
    return machine, bundle.ports


def _run(profile: bundle_pb2.Profile, bundle: LoadedBundle, device: Device) -> OnnxMachine:
    """Open the graphs of a profile on a device."""
    if profile.state_in_place and device != "cpu":
        raise BundleError(f"Profile {profile.name!r} writes its state in place, which only a processor is asked to do.")
    in_place = bundle.ports.shared if profile.state_in_place else None
    return OnnxMachine(bundle.encode.path.read_bytes(), bundle.step.path.read_bytes(), in_place=in_place, device=device)


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
there and within what can be served; the graphs must have the promised ports and open in the ONNX Runtime that is
installed; where `onnx` is installed too, they must have the promised opset and IR and allowed operators alone; the
tokenizer must fit the model; every profile must have a record of how far it was from its model, on every port and
within what was allowed; all profiles must compute the same, within what they promise, over sizes and padding, without
NaN, and with attention that is exactly 0 on padding.

The profile cuda was compared with its model on a processor that rounded as a graphics card does. On a machine with such
a card (`pip install '.[cuda]' onnx`), --device cuda runs it there and compares it with the first profile on the
processor.
"""
_EPILOG = """\
examples:
  regard verify models/en-es-rnn/1
  regard verify bundles/en-xx/1 --profile cuda --device cuda

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
