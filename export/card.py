"""Renders a model card, the page for people about a bundle, from its manifest alone.

It does not look at the bundle's files; what the manifest does not say, the card does not say.
"""

from __future__ import annotations

from collections.abc import Iterable

from regard.v1 import bundle_pb2

_PRECISIONS = {
    bundle_pb2.PRECISION_FLOAT32: "float32",
    bundle_pb2.PRECISION_FLOAT16_WEIGHTS: "weights stored as float16, computed in float32",
    bundle_pb2.PRECISION_INT8: "decoder in int8, with scales that do not depend on the batch; encoder as above",
}


def render_card(manifest: bundle_pb2.Bundle) -> str:
    """Return the model card as Markdown."""
    sections = [
        f"# {manifest.name}, version {manifest.version}\n\n{manifest.description}",
        _facts(manifest),
        _profiles(manifest),
        _quality(manifest),
        _speed(manifest),
        _parity(manifest),
        _limits(manifest),
        _origin(manifest),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    escaped = [tuple(cell.replace("|", r"\|") for cell in row) for row in rows]
    lines = [head, ("---",) * len(head), *escaped]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _facts(manifest: bundle_pb2.Bundle) -> str:
    attention = manifest.attention
    returned = f"returned with every token; layers: {attention.layers}, heads: {attention.heads}"
    rows = [
        ("Task", bundle_pb2.Task.Name(manifest.task).removeprefix("TASK_").lower()),
        ("Source languages", ", ".join(manifest.source_languages) or "any"),
        ("Target languages", ", ".join(manifest.target_languages) or "any"),
        ("Vocabulary", f"{manifest.tokenizer.vocabulary_size} entries, shared by source and target"),
        ("Attention", returned if attention.layers else "none: the model has no attention to return"),
    ]
    return _table(("What", "Value"), rows)


def _profiles(manifest: bundle_pb2.Bundle) -> str:
    rows = [
        (f"`{profile.name}`", _PRECISIONS[profile.precision], f"`{profile.encode.file}`, `{profile.step.file}`")
        for profile in manifest.profiles
    ]
    default = f"On a CPU `{manifest.default_profile}` runs unless told otherwise"
    reason = manifest.default_profile_reason.rstrip(".")
    return (
        "## Profiles\n\n"
        + _table(("Profile", "Numbers", "Graphs"), rows)
        + f"\n\n{default}{': ' + reason if reason else ''}."
    )


def _quality(manifest: bundle_pb2.Bundle) -> str:
    rows = [
        (
            f"`{profile.name}`",
            f.metric,
            f"{f.value:.4g}",
            f.test_set,
            f.search,
            f"`{f.signature}`" if f.signature else "",
        )
        for profile in manifest.profiles
        for f in profile.quality
    ]
    head = ("Profile", "Metric", "Value", "Test set", "Search", "Signature")
    return "## Quality\n\n" + _table(head, rows) if rows else ""


def _speed(manifest: bundle_pb2.Bundle) -> str:
    rows = [
        (f"`{profile.name}`", f.what, f"{f.value:.4g}", f.machine, f.date)
        for profile in manifest.profiles
        for f in profile.speed
    ]
    return "## Speed\n\n" + _table(("Profile", "What", "Value", "Machine", "Date"), rows) if rows else ""


def _parity(manifest: bundle_pb2.Bundle) -> str:
    rows = [
        (f"`{profile.name}`", f"`{difference.port}`", f"{difference.worst_absolute:.2g}")
        for profile in manifest.profiles
        for difference in profile.parity.ports
    ]
    if not rows:
        return ""
    agreement = ", ".join(f"{profile.parity.greedy_agreement:.2%} (`{profile.name}`)" for profile in manifest.profiles)
    parity = manifest.profiles[0].parity
    return (
        "## How exact the graphs are\n\n"
        "Largest absolute difference between a graph and the model it came from, over batches of "
        f"{_listed(parity.batches)} and sources of {_listed(parity.source_lengths)} tokens with padding, "
        f"{parity.steps} steps of each. Greedy choices that are the same: {agreement}.\n\n"
        + _table(("Profile", "Tensor", "Difference"), rows)
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _limits(manifest: bundle_pb2.Bundle) -> str:
    limits = manifest.limits
    return (
        "## Limits\n\n"
        f"A segment has at most {limits.max_source_tokens} source tokens, end of sentence included, and a translation "
        f"at most {limits.max_target_tokens}. The model has seen what its training data holds and nothing else: expect "
        "poor results on other kinds of text, on names and numbers that it never met, and on long sentences. It may "
        "leave things out or make things up while sounding fluent; attention shows what it looked at, not that it "
        "understood. Do not use it where a wrong translation does harm."
    )


def _origin(manifest: bundle_pb2.Bundle) -> str:
    origin = manifest.provenance
    parts = [
        f"Training data: {origin.training_data}" if origin.training_data else "",
        f"Licence: {origin.licence}" if origin.licence else "",
        f"Recipe: `{origin.recipe}`" if origin.recipe else "",
        f"Weights: SHA-256 `{origin.checkpoint_sha256}`" if origin.checkpoint_sha256 else "",
        "Made with " + ", ".join(f"{name} {version}" for name, version in sorted(origin.versions.items()))
        if origin.versions
        else "",
    ]
    text = "## Origin\n\n" + "\n".join(f"- {part.rstrip('.')}." for part in parts if part)
    if origin.recipe and origin.checkpoint_sha256:
        target = f"{manifest.name}/{manifest.version}"
        text += (
            "\n\nTo make it again:\n\n```sh\n"
            f"regard train {origin.recipe} --data DATA --out runs/{origin.recipe}\n"
            f"regard export runs/{origin.recipe} models/{target} --data DATA\n"
            f"regard verify models/{target}\n```"
        )
    return text
