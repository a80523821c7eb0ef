"""Reads a bundle directory, checks every promise of its manifest that needs no session, and freezes the result.

The one reader: the server opens bundles with it, `regard verify` begins with it, and what export writes must pass it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from google.protobuf import json_format

from regard.contract.bundle_files import check_files, need_file
from regard.contract.errors import BundleError
from regard.contract.image_input import ImageInput, read_image_input
from regard.contract.languages import check_tags, read_target_ends
from regard.contract.model_ports import ModelPorts
from regard.contract.names import ModelKey, check_key
from regard.contract.ports import GraphSpec, Port
from regard.contract.profiles import read_profiles
from regard.contract.tasks import Task, read_task
from regard.contract.vocabulary import check_vocabulary, open_tokenizer
from regard.v1 import bundle_pb2

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "GraphSpec",
    "LoadedBundle",
    "Port",
    "load_bundle",
    "load_profiles",
    "read_manifest",
]

FORMAT_VERSION = 1
MANIFEST = "bundle.json"
PROFILE_FOR_CUDA = "cuda"

_MAX_MANIFEST_BYTES = 4 * 1024 * 1024
# Columns of top-k attention travel as uint16.
_MAX_SOURCE_TOKENS = 65_535


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedBundle:
    """A bundle whose files and manifest were checked.

    Attributes:
        directory: where it lies.
        manifest: bundle.json; not to be changed.
        digest: sha256 of the bytes of bundle.json, hexadecimal. As the manifest holds the digests of all other files,
            equal digests mean equal bundles.
        key: name and version.
        task: what it is for.
        image: what a model that reads pictures takes; None for the others.
        profile: which pair of graphs was chosen.
        for_cuda: the same bundle with the graphs that are for CUDA, if it has such and no profile was named.
        encode, step: the graphs of the profile.
        ports: of the model, with its sizes: vocabulary, target vocabularies, layers and heads of attention.
        state_in_place: the step of this profile writes buffers of state, which have an axis `target`, where it reads
            them.
        tokenizer_path: of tokenizer.json.
        pad_id, unknown_id, bos_id, eos_id: special tokens.
        target_end_ids: the id that ends a source to be translated into a language, by its BCP-47 tag; empty where
            there is one language, for which it is eos_id.
        max_source_tokens: of one segment, end of sentence included; of a picture, the cells of its map.
        max_target_tokens: of one segment.
        alignment_heads: (layer, head) pairs whose mean gives alignments; empty without attention.
        alignment_lag: 0 if they look at what a token translates in the step that predicts it, 1 if in the next.
    """

    directory: Path
    manifest: bundle_pb2.Bundle = field(repr=False)
    digest: str
    key: ModelKey
    task: Task
    image: ImageInput | None
    profile: str
    for_cuda: LoadedBundle | None = field(default=None, repr=False)
    encode: GraphSpec
    step: GraphSpec
    ports: ModelPorts
    state_in_place: bool
    tokenizer_path: Path
    pad_id: int
    unknown_id: int
    bos_id: int
    eos_id: int
    target_end_ids: Mapping[str, int]
    max_source_tokens: int
    max_target_tokens: int
    alignment_heads: tuple[tuple[int, int], ...]
    alignment_lag: int

    @property
    def shows_encoder_attention(self) -> bool:
        """Whether encoding pictures can also return how their cells looked at each other."""
        return self.image is not None and any(port.role == "encoder_attention" for port in self.encode.outputs)


def load_bundle(directory: Path, *, profile: str | None = None) -> LoadedBundle:
    """Read and check the bundle in a directory.

    Args:
        directory: holds bundle.json and the files that it lists, and nothing else.
        profile: which graphs to run; None takes the default of the bundle, and leaves those for CUDA at hand.

    Raises:
        BundleError: something is missing, altered, unknown or contradictory; names the bundle, the file or field, what
            was expected and what is there.
    """
    with _naming(directory):
        loaded = _load(directory)
        if profile is None:
            default = next(iter(loaded.values())).manifest.default_profile
            return replace(loaded[default], for_cuda=loaded.get(PROFILE_FOR_CUDA))
        if profile not in loaded:
            raise BundleError(f"there is no profile {profile!r}; the profiles are {', '.join(loaded)}")
        return loaded[profile]


def load_profiles(directory: Path) -> dict[str, LoadedBundle]:
    """Read and check the bundle in a directory: once for each profile, by its name, as the manifest lists them.

    Raises:
        BundleError: as `load_bundle` does.
    """
    with _naming(directory):
        return _load(directory)


def read_manifest(directory: Path) -> tuple[bundle_pb2.Bundle, str]:
    """Return the manifest of a bundle and its digest, once its files are those that it vouches for.

    What the manifest says of limits, tokenizer and graphs is not checked; `load_bundle` does that too.

    Raises:
        BundleError: there is no manifest of this format, or a file is missing, altered, elsewhere or not listed.
    """
    with _naming(directory):
        return _read_manifest(directory)


@contextmanager
def _naming(directory: Path) -> Generator[None]:
    """Have every error begin with the bundle that it is about."""
    try:
        yield
    except BundleError as error:
        raise BundleError(f"bundle {directory}: {error}") from error
    except OSError as error:
        raise BundleError(
            f"bundle {directory}: cannot read {error.filename or 'it'}: {error.strerror or error}"
        ) from error


def _load(directory: Path) -> dict[str, LoadedBundle]:
    manifest, digest = _read_manifest(directory)
    task = read_task(manifest.task)
    listed = {entry.path for entry in manifest.files}
    image = read_image_input(manifest, task)
    _check_limits(manifest, least_source=2 if image is None else 1)
    alignment_heads = _read_attention(manifest.attention)
    need_file(manifest.tokenizer.file, listed, "tokenizer.file")
    check_vocabulary(open_tokenizer(directory / manifest.tokenizer.file), manifest.tokenizer)
    profiles = read_profiles(manifest, directory, listed, image)
    default = profiles.get(manifest.default_profile)
    if default is None:
        raise BundleError(
            f"default_profile is {manifest.default_profile!r}, but the profiles are {', '.join(profiles) or 'none'}"
        )
    # All profiles have scores of one width.
    ends = read_target_ends(manifest, predictable=default.ports.predictable)
    if manifest.target_vocabularies and not ends:
        raise BundleError("target_vocabularies are there, but no tokenizer.target_end_ids to choose one by")

    whole = LoadedBundle(
        directory=directory,
        manifest=manifest,
        digest=digest,
        key=ModelKey(manifest.name, manifest.version),
        task=task,
        image=image,
        profile=manifest.default_profile,
        encode=default.encode,
        step=default.step,
        ports=default.ports,
        state_in_place=False,
        tokenizer_path=directory / manifest.tokenizer.file,
        pad_id=manifest.tokenizer.pad_id,
        unknown_id=manifest.tokenizer.unknown_id,
        bos_id=manifest.tokenizer.begin_id,
        eos_id=manifest.tokenizer.end_id,
        target_end_ids=ends,
        max_source_tokens=manifest.limits.max_source_tokens,
        max_target_tokens=manifest.limits.max_target_tokens,
        alignment_heads=alignment_heads,
        alignment_lag=manifest.attention.alignment_lag,
    )
    return {
        entry.name: replace(
            whole, profile=entry.name, state_in_place=entry.state_in_place, **profiles[entry.name]._asdict()
        )
        for entry in manifest.profiles
    }


def _read_manifest(directory: Path) -> tuple[bundle_pb2.Bundle, str]:
    path = directory / MANIFEST
    if not path.is_file():
        raise BundleError(f"there is no {MANIFEST}")
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise BundleError(f"{MANIFEST} has {path.stat().st_size} bytes, at most {_MAX_MANIFEST_BYTES} are read")
    content = path.read_bytes()
    try:
        manifest = json_format.Parse(content, bundle_pb2.Bundle())
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise BundleError(f"{MANIFEST} is not a manifest: {error}") from error
    if manifest.format_version != FORMAT_VERSION:
        raise BundleError(f"format_version is {manifest.format_version}, expected {FORMAT_VERSION}")
    check_key(manifest.name, manifest.version)
    check_tags(manifest)
    check_files(directory, manifest.files, apart_from=MANIFEST)
    return manifest, hashlib.sha256(content).hexdigest()


def _check_limits(manifest: bundle_pb2.Bundle, *, least_source: int) -> None:
    """Check that both limits are there and can be served. Raises BundleError that names the one at fault."""
    # A text is at least one token and its end of sentence, a picture one cell.
    for name, least in (("max_source_tokens", least_source), ("max_target_tokens", 1)):
        value: int = getattr(manifest.limits, name)
        if not least <= value <= _MAX_SOURCE_TOKENS:
            raise BundleError(f"limits.{name} is {value}, expected {least} to {_MAX_SOURCE_TOKENS}")


def _read_attention(attention: bundle_pb2.AttentionAxes) -> tuple[tuple[int, int], ...]:
    """Return the (layer, head) pairs that align. Raises BundleError unless they are of those there are, each once."""
    layers, heads = attention.layers, attention.heads
    if layers < 0 or heads < 0 or (layers == 0) != (heads == 0):
        raise BundleError(
            f"attention has {layers} layers and {heads} heads; expected both positive, or both 0 for none"
        )
    if attention.alignment_lag not in (0, 1):
        raise BundleError(f"attention.alignment_lag is {attention.alignment_lag}, expected 0 or 1")
    pairs = tuple((pair.layer, pair.head) for pair in attention.alignment_heads)
    if bool(pairs) != bool(layers):
        raise BundleError(f"attention.alignment_heads has {len(pairs)} entries for {layers} layers of attention")
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise BundleError(
                f"attention.alignment_heads names layer {layer} head {head} of {layers} layers and {heads} heads"
            )
        if pairs.count((layer, head)) > 1:
            raise BundleError(f"attention.alignment_heads names layer {layer} head {head} twice")
    return pairs
