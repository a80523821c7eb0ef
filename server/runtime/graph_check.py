"""Tells the engine what it must know of a bundle."""

from __future__ import annotations

from regard.contract.bundle import LoadedBundle
from regard.contract.ports import TARGET
from regard.contract.target_vocabulary import name_scores
from regard.server.engine.decoder import DecoderFacts, Shortlist
from regard.server.errors import BundleError


def describe(bundle: LoadedBundle) -> DecoderFacts:
    """Return what the engine must know of a bundle.

    Raises:
        BundleError: a tensor has an axis that varies and is neither batch nor source, nor, in a state, target, so that
            no buffer can hold it.
    """
    memory, state = (tuple(port for port in bundle.step.inputs if port.role == role) for role in ("memory", "state"))
    for ports, known in ((memory, {"batch", "source"}), (state, {"batch", "source", TARGET})):
        for port in ports:
            named = [axis for axis in port.axes if isinstance(axis, str)]
            if not known.issuperset(named) or named.count(TARGET) > 1:
                raise BundleError(
                    f"bundle {bundle.directory}: {port.name} has axes {port.axes}, which no buffer can hold"
                )
    return DecoderFacts(
        memory=memory,
        state=state,
        vocabulary_size=bundle.ports.vocabulary,
        output_size=bundle.ports.predictable,
        layers=bundle.ports.layers,
        heads=bundle.ports.heads,
        alignment_heads=bundle.alignment_heads,
        alignment_lag=bundle.alignment_lag,
        pad_id=bundle.pad_id,
        bos_id=bundle.bos_id,
        eos_id=bundle.eos_id,
        suppressed_ids=(bundle.pad_id, bundle.unknown_id, bundle.bos_id),
        max_source_tokens=bundle.max_source_tokens,
        max_target_tokens=bundle.max_target_tokens,
        state_in_place=bundle.state_in_place,
        pixels=None if bundle.image is None else (bundle.image.height, bundle.image.width),
        encoder_attention=bundle.shows_encoder_attention,
        shortlists=tuple(
            Shortlist(source_end=bundle.target_end_ids[language], tokens=tokens, scores=name_scores(language))
            for language, tokens in bundle.ports.target_vocabularies.items()
        ),
    )
