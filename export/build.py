"""Makes a bundle of a trained checkpoint: traces it, stores it as float16 and as int8, compares both with the model.

It does not write files, nor know which network it exports.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.contract.model_ports import ModelPorts
from regard.contract.target_vocabulary import pack_tokens
from regard.contract.vocabulary import check_no_added_tokens, read_tokenizer
from regard.export.bundle.writer import TOKENIZER, Bundle
from regard.export.calibration.pictures import draw_pictures
from regard.export.calibration.sentences import read_corpus, sample_sources, target_vocabularies
from regard.export.errors import BundleError, ParityError, as_export_error
from regard.export.families.captioner_manifest import describe_captioner
from regard.export.families.captioner_profiles import export_captioner
from regard.export.families.cuda_profile import export_cuda
from regard.export.families.generic import export_generic
from regard.export.families.profile import ExportedProfile
from regard.export.families.transformer import open_transformer
from regard.export.families.transformer_profiles import (
    export_cpu,
    export_cpu_float32,
    export_portable,
    rounded_for_storage,
    trace_transformer,
)
from regard.export.parity.comparison import Grid
from regard.export.parity.greedy import LARGEST_TARGET, Source
from regard.export.provenance import describe_origin
from regard.export.surgery.vocabularies import Vocabularies
from regard.training.data.translation_data import Corpus
from regard.training.data.vocabulary import BEGIN, END, PAD, UNKNOWN
from regard.training.learning.checkpoint import Checkpoint, find, load
from regard.training.learning.recipe import CaptionRecipe, Recipe
from regard.training.models.captioner import Captioner
from regard.training.models.transformer import Transformer
from regard.training.recipes.catalogue import RECIPES
from regard.v1 import bundle_pb2

LARGEST_SOURCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """What an export depends on besides the checkpoint.

    Attributes:
        data: folder of the data sets, for sentences to calibrate and to compare with; None to do without.
        description: one line for lists of models; the recipe's if empty.
        licence: of the weights; that of the data if empty.
        calibration_sentences: training sentences that int8 is calibrated on.
        compared_sentences: validation sentences that are decoded by every profile and by the trained model.
        calibration_pictures, compared_pictures: the same for models that read pictures.
        least_agreement: share of greedy choices of int8 and of float16 that must be those of the model.
        grid: sizes at which graphs and model are compared.
        float32: whether a Transformer gets the profile `cpu-float32` too, for `regard bench engine`.
        cuda: whether a Transformer gets the profile `cuda` too.
    """

    data: Path | None = None
    description: str = ""
    licence: str = ""
    calibration_sentences: int = 400
    compared_sentences: int = 200
    calibration_pictures: int = 128
    compared_pictures: int = 100
    least_agreement: float = 0.95
    grid: Grid = field(default_factory=Grid)
    float32: bool = False
    cuda: bool = False


def build(run: Path, settings: BuildSettings, say: Callable[[str], object]) -> Bundle:
    """Return the bundle of a run's checkpoint, saying what is being done.

    Raises ExportError, with a sentence, if the model cannot be exported or its graphs do not compute what it does.
    """
    try:
        folder = find(run)
    except FileNotFoundError as error:
        raise BundleError(str(error)) from error
    checkpoint = load(folder)
    metrics = {name: value for name, value in checkpoint.metrics.items() if isinstance(value, int | float)}
    measured = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    say(f"read {folder}: {checkpoint.recipe}, {measured}")
    vocabularies: Vocabularies = {}
    for name, wanted in (("cuda", settings.cuda), ("cpu-float32", settings.float32)):
        if wanted and not isinstance(checkpoint.model, Transformer):
            raise BundleError(f"{checkpoint.recipe} is no Transformer that translates, so it has no profile {name}.")
    if isinstance(checkpoint.model, Transformer):
        profiles, files, ports, vocabularies = _transformer_profiles(checkpoint, checkpoint.model, settings, say)
    else:
        calibration, compared = _sources(checkpoint, settings)
        if isinstance(checkpoint.model, Captioner) and checkpoint.model.config.decoder == "transformer":
            made, ports = export_captioner(checkpoint.model, settings.grid, calibration, compared, say)
        else:
            made, ports = export_generic(
                checkpoint.model,
                vocabulary=checkpoint.vocabulary.size,
                grid=settings.grid,
                calibration=calibration,
                compared=compared,
                say=say,
            )
        profiles, files = _collect(made, say)
    for profile in profiles:
        agreement = profile.parity.greedy_agreement
        if profile.name in ("cpu", "cuda") and agreement < settings.least_agreement:
            raise ParityError(
                f"Profile {profile.name!r} decides as the model does only in {agreement:.1%} of the steps that were "
                f"compared, but {settings.least_agreement:.1%} is asked for."
            )
    # Without the white space that is half of it.
    tokenizer = json.loads((folder / TOKENIZER).read_text(encoding="utf-8"))
    files[TOKENIZER] = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode()
    manifest = _manifest(folder, checkpoint, settings, ports)
    manifest.target_vocabularies.extend(
        bundle_pb2.TargetVocabulary(language=language, tokens=pack_tokens(tokens, ports.predictable))
        for language, tokens in vocabularies.items()
    )
    manifest.profiles.extend(profiles)
    if isinstance(checkpoint.model, Captioner):
        describe_captioner(manifest, checkpoint.model)
    with as_export_error():
        check_no_added_tokens(read_tokenizer(files[TOKENIZER], TOKENIZER), TOKENIZER)
    return Bundle(manifest, files)


def _transformer_profiles(
    checkpoint: Checkpoint, model: Transformer, settings: BuildSettings, say: Callable[[str], object]
) -> tuple[list[bundle_pb2.Profile], dict[str, bytes], ModelPorts, Vocabularies]:
    """Return the profiles portable, cpu and those that are asked for, and the tokens of each target language."""
    corpus = read_corpus(checkpoint, settings.data)
    calibration, compared = _sample(checkpoint, corpus, settings)
    ports = open_transformer(model, "plain").ports
    vocabularies = target_vocabularies(
        checkpoint.vocabulary,
        corpus.train,
        RECIPES[checkpoint.recipe]().target_languages,
        predictable=ports.predictable,
    )
    if vocabularies:
        sizes = ", ".join(f"{language} {len(tokens)}" for language, tokens in vocabularies.items())
        say(f"of {ports.predictable} tokens that can be predicted, languages have: {sizes}")
    rounded = rounded_for_storage(model)
    plain = trace_transformer(rounded, "plain")
    made = [
        export_portable(rounded, plain, vocabularies, settings.grid, compared, say),
        export_cpu(model, vocabularies, settings.grid, calibration, compared, say),
    ]
    if settings.float32:
        made.append(export_cpu_float32(model, vocabularies, settings.grid, compared, say))
    if settings.cuda:
        made.append(export_cuda(rounded, plain, vocabularies, settings.grid, compared, say))
    profiles, files = _collect(made, say)
    return profiles, files, ports, vocabularies


def _collect(
    made: Sequence[ExportedProfile], say: Callable[[str], object]
) -> tuple[list[bundle_pb2.Profile], dict[str, bytes]]:
    """Return profiles and the bytes of all their graphs, saying how far off they are."""
    files: dict[str, bytes] = {}
    for exported in made:
        _say_parity(exported.profile.parity, say)
        files |= exported.files
    return [exported.profile for exported in made], files


def _sources(checkpoint: Checkpoint, settings: BuildSettings) -> tuple[Sequence[Source], Sequence[Source]]:
    """Return sources of the training split to calibrate with and of the validation split to compare with."""
    if isinstance(checkpoint.model, Captioner):
        return draw_pictures(
            RECIPES[checkpoint.recipe](),
            checkpoint.model.backbone.config,
            settings.data,
            calibration=settings.calibration_pictures,
            compared=settings.compared_pictures,
        )
    return _sample(checkpoint, read_corpus(checkpoint, settings.data), settings)


def _sample(checkpoint: Checkpoint, corpus: Corpus, settings: BuildSettings) -> tuple[list[list[int]], list[list[int]]]:
    return sample_sources(
        checkpoint, corpus, calibration=settings.calibration_sentences, compared=settings.compared_sentences
    )


def _manifest(folder: Path, checkpoint: Checkpoint, settings: BuildSettings, ports: ModelPorts) -> bundle_pb2.Bundle:
    recipe = RECIPES[checkpoint.recipe]()
    return bundle_pb2.Bundle(
        task=bundle_pb2.TASK_TRANSLATION,
        description=settings.description or str(RECIPES[checkpoint.recipe].__doc__).partition("\n")[0],
        default_profile="cpu",
        default_profile_reason="int8 is the faster of the two on a CPU",
        tokenizer=bundle_pb2.Tokenizer(
            file=TOKENIZER,
            vocabulary_size=checkpoint.vocabulary.size,
            pad_id=PAD,
            unknown_id=UNKNOWN,
            begin_id=BEGIN,
            end_id=END,
            target_end_ids={
                language: checkpoint.vocabulary.end(language)
                for language in recipe.target_languages
                if len(recipe.target_languages) > 1
            },
        ),
        source_languages=[recipe.source_language],
        target_languages=recipe.target_languages,
        limits=bundle_pb2.Limits(max_source_tokens=LARGEST_SOURCE, max_target_tokens=LARGEST_TARGET),
        attention=bundle_pb2.AttentionAxes(
            layers=ports.layers,
            heads=ports.heads,
            alignment_heads=[
                bundle_pb2.AttentionHead(layer=layer, head=head) for layer, head in _alignment_heads(checkpoint, ports)
            ],
            alignment_lag=checkpoint.alignment_lag,
        ),
        provenance=describe_origin(folder, checkpoint, licence=settings.licence),
        text_rules=bundle_pb2.TextRules(plain_marks=True, capitals=True) if _reads_plain_text(recipe) else None,
    )


def _reads_plain_text(recipe: Recipe | CaptionRecipe) -> bool:
    return isinstance(recipe, Recipe) and recipe.plain_text


def _alignment_heads(checkpoint: Checkpoint, ports: ModelPorts) -> Sequence[tuple[int, int]]:
    """Return the heads that were taught to align, else those of the last layer, which knows most."""
    return checkpoint.alignment_heads or [(ports.layers - 1, head) for head in range(ports.heads)]


def _say_parity(record: bundle_pb2.ParityRecord, say: Callable[[str], object]) -> None:
    worst = ", ".join(f"{port.port} {port.worst_absolute:.2g}" for port in record.ports)
    say(f"  largest differences: {worst}; greedy choices agree to {record.greedy_agreement:.2%}")
