"""Reads a bundle directory, checks every promise of its manifest that needs no session, and freezes the result.

It does not know onnxruntime, devices, or other bundles.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from google.protobuf import json_format

from regard.server.bundle.bundle_files import check_files, need_file
from regard.server.bundle.image_input import ImageInput, read_image_input
from regard.server.bundle.languages import check_tags, read_target_ends
from regard.server.bundle.ports import GraphSpec, PortSpec, read_columns
from regard.server.bundle.profiles import read_profiles
from regard.server.bundle.target_vocabulary import TargetVocabulary, read_target_vocabularies
from regard.server.bundle.tasks import Task, read_task
from regard.server.bundle.vocabulary import check_vocabulary
from regard.server.errors import BundleError
from regard.server.request import ModelKey
from regard.v1 import bundle_pb2

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "MODEL_NAME",
    "MODEL_VERSION",
    "GraphSpec",
    "LoadedBundle",
    "PortSpec",
    "load_bundle",
]

FORMAT_VERSION = 1
MANIFEST = "bundle.json"
PROFILE_FOR_CUDA = "cuda"
MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MODEL_VERSION = re.compile(r"[1-9][0-9]{0,8}")

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
        state_in_place: the step of this profile writes buffers of state, which have an axis `target`, where it reads
            them.
        tokenizer_path: of tokenizer.json.
        pad_id, unknown_id, begin_id, end_id: special tokens.
        target_end_ids: the id that ends a source to be translated into a language, by its BCP-47 tag; empty where
            there is one language, for which it is end_id.
        vocabulary_size: entries of the tokenizer; a source may hold any of them.
        target_vocabularies: the tokens of each target language that has scores of its own.
        max_source_tokens: of one segment, end of sentence included; of a picture, the cells of its map.
        max_target_tokens: of one segment.
        layers, heads: axes of attention; both 0 for a model without it.
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
    state_in_place: bool
    tokenizer_path: Path
    pad_id: int
    unknown_id: int
    begin_id: int
    end_id: int
    target_end_ids: Mapping[str, int]
    target_vocabularies: tuple[TargetVocabulary, ...]
    vocabulary_size: int
    max_source_tokens: int
    max_target_tokens: int
    layers: int
    heads: int
    alignment_heads: tuple[tuple[int, int], ...]
    alignment_lag: int

    @property
    def predictable(self) -> int:
        """Columns of the scores: only ids below it can be generated."""
        return read_columns(self.step)

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
    try:
        return _load(directory, profile)
    except BundleError as error:
        raise BundleError(f"bundle {directory}: {error}") from error
    except OSError as error:
        raise BundleError(
            f"bundle {directory}: cannot read {error.filename or 'it'}: {error.strerror or error}"
        ) from error


def _load(directory: Path, profile: str | None) -> LoadedBundle:
    content = _read_manifest(directory / MANIFEST)
    try:
        manifest = json_format.Parse(content, bundle_pb2.Bundle())
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise BundleError(f"{MANIFEST} is not a manifest: {error}") from error
    _check_head(manifest)
    task = read_task(manifest.task)
    check_files(directory, manifest.files, apart_from=MANIFEST)
    listed = {entry.path for entry in manifest.files}
    image = read_image_input(manifest, task)
    _check_limits(manifest, least_source=2 if image is None else 1)
    alignment_heads = _check_attention(manifest.attention)
    need_file(manifest.tokenizer.file, listed, "tokenizer.file")
    check_vocabulary(directory / manifest.tokenizer.file, manifest.tokenizer)
    pairs = read_profiles(manifest, directory, listed, image)
    if manifest.default_profile not in pairs:
        raise BundleError(
            f"default_profile is {manifest.default_profile!r}, but the profiles are {', '.join(pairs) or 'none'}"
        )
    chosen = manifest.default_profile if profile is None else profile
    if chosen not in pairs:
        raise BundleError(f"there is no profile {chosen!r}; the profiles are {', '.join(pairs)}")
    predictable = read_columns(pairs[chosen][1])
    ends = read_target_ends(manifest, predictable=predictable)
    vocabularies = read_target_vocabularies(manifest, predictable=predictable)
    if vocabularies and not ends:
        raise BundleError("target_vocabularies are there, but no tokenizer.target_end_ids to choose one by")

    in_place = {entry.name: entry.state_in_place for entry in manifest.profiles}
    loaded = LoadedBundle(
        directory=directory,
        manifest=manifest,
        digest=hashlib.sha256(content).hexdigest(),
        key=ModelKey(manifest.name, manifest.version),
        task=task,
        image=image,
        profile=chosen,
        encode=pairs[chosen][0],
        step=pairs[chosen][1],
        state_in_place=in_place[chosen],
        tokenizer_path=directory / manifest.tokenizer.file,
        pad_id=manifest.tokenizer.pad_id,
        unknown_id=manifest.tokenizer.unknown_id,
        begin_id=manifest.tokenizer.begin_id,
        end_id=manifest.tokenizer.end_id,
        target_end_ids=ends,
        target_vocabularies=vocabularies,
        vocabulary_size=manifest.tokenizer.vocabulary_size,
        max_source_tokens=manifest.limits.max_source_tokens,
        max_target_tokens=manifest.limits.max_target_tokens,
        layers=manifest.attention.layers,
        heads=manifest.attention.heads,
        alignment_heads=alignment_heads,
        alignment_lag=manifest.attention.alignment_lag,
    )
    if profile is not None or PROFILE_FOR_CUDA not in pairs:
        return loaded
    encode, step = pairs[PROFILE_FOR_CUDA]
    return replace(
        loaded,
        for_cuda=replace(
            loaded, profile=PROFILE_FOR_CUDA, encode=encode, step=step, state_in_place=in_place[PROFILE_FOR_CUDA]
        ),
    )


def _read_manifest(path: Path) -> bytes:
    if not path.is_file():
        raise BundleError(f"there is no {MANIFEST}")
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise BundleError(f"{MANIFEST} has {path.stat().st_size} bytes, at most {_MAX_MANIFEST_BYTES} are read")
    return path.read_bytes()


def _check_head(manifest: bundle_pb2.Bundle) -> None:
    if manifest.format_version != FORMAT_VERSION:
        raise BundleError(f"format_version is {manifest.format_version}, this server reads {FORMAT_VERSION}")
    if not MODEL_NAME.fullmatch(manifest.name):
        raise BundleError(f"name is {manifest.name[:80]!r}, expected {MODEL_NAME.pattern}")
    if not MODEL_VERSION.fullmatch(manifest.version):
        raise BundleError(f"version is {manifest.version[:80]!r}, expected a positive integer without leading zeros")
    check_tags(manifest)


def _check_limits(manifest: bundle_pb2.Bundle, *, least_source: int) -> None:
    # A text is at least one token and its end of sentence, a picture one cell.
    for name, least in (("max_source_tokens", least_source), ("max_target_tokens", 1)):
        value: int = getattr(manifest.limits, name)
        if not least <= value <= _MAX_SOURCE_TOKENS:
            raise BundleError(f"limits.{name} is {value}, expected {least} to {_MAX_SOURCE_TOKENS}")


def _check_attention(attention: bundle_pb2.AttentionAxes) -> tuple[tuple[int, int], ...]:
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
