"""Renders a model card, the page for people about a bundle, from its manifest alone.

It does not look at the bundle's files; what the manifest does not say, the card does not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regard.v1 import bundle_pb2

_PRECISIONS = {
    bundle_pb2.PRECISION_FLOAT32: "float32",
    bundle_pb2.PRECISION_FLOAT16_WEIGHTS: "weights stored as float16, computed in float32",
    bundle_pb2.PRECISION_FLOAT16: "float16, with softmaxes, scores and attention in float32",
    bundle_pb2.PRECISION_INT8: "int8, with scales that do not depend on the batch",
}
# Where the recipe does not say what the model has seen.
_SEEN_TEXT = (
    "The model has seen what its training data holds and nothing else: expect poor results on other kinds of text, on "
    "names and numbers that it never met, and on long sentences."
)
_SEEN_PICTURES = (
    "The model has seen pictures like those of its training data and nothing else: expect poor results on others, on "
    "small things, on counts and on text within pictures."
)


def render_card(manifest: bundle_pb2.Bundle) -> str:
    """Return the model card as Markdown."""
    sections = [
        f"# {manifest.name}, version {manifest.version}\n\n{manifest.description}",
        _terms(manifest),
        _facts(manifest),
        _profiles(manifest),
        _quality(manifest),
        _speed(manifest),
        _parity(manifest),
        _limits(manifest),
        _origin(manifest),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _terms(manifest: bundle_pb2.Bundle) -> str:
    """Say first what nobody may overlook."""
    if "non-commercial" not in manifest.provenance.licence:
        return ""
    return "**For research and non-commercial use only**, because of the data that it learnt from: see Origin."


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    escaped = [tuple(cell.replace("|", r"\|") for cell in row) for row in rows]
    lines = [head, ("---",) * len(head), *escaped]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _facts(manifest: bundle_pb2.Bundle) -> str:
    attention = manifest.attention
    image = manifest.HasField("image")
    returned = f"returned with every token; layers: {attention.layers}, heads: {attention.heads}"
    rows = [
        ("Task", bundle_pb2.Task.Name(manifest.task).removeprefix("TASK_").lower()),
        _source(manifest),
        ("Target languages", ", ".join(manifest.target_languages) or "any"),
        (
            "Vocabulary",
            f"{manifest.tokenizer.vocabulary_size} entries{'' if image else ', shared by source and target'}",
        ),
        ("Attention", returned if attention.layers else "none: the model has no attention to return"),
        *[("Alignments", f"from {_heads(attention)}, counted from 0")] * bool(attention.layers),
    ]
    return _table(("What", "Value"), rows)


def _source(manifest: bundle_pb2.Bundle) -> tuple[str, str]:
    if not manifest.HasField("image"):
        return "Source languages", ", ".join(manifest.source_languages) or "any"
    image = manifest.image
    resampling = bundle_pb2.Resampling.Name(image.resampling).removeprefix("RESAMPLING_").lower()
    return "Source", (
        f"pictures, squashed to {image.width} x {image.height} pixels ({resampling}); attention looks at "
        f"{image.rows} x {image.columns} cells of them"
    )


def _heads(attention: bundle_pb2.AttentionAxes) -> str:
    """Name the heads that align."""
    named = [f"layer {pair.layer}, head {pair.head}" for pair in attention.alignment_heads]
    heads = named[0] if len(named) == 1 else f"the mean of {len(named)} heads: {'; '.join(named)}"
    return heads + ", in the step that is fed a token" * attention.alignment_lag


def _profiles(manifest: bundle_pb2.Bundle) -> str:
    encoders = [profile.encode.file for profile in manifest.profiles]
    rows = [
        (
            f"`{profile.name}`",
            _PRECISIONS[profile.precision] + "; the encoder as above" * (profile.encode.file in encoders[:place]),
            f"`{profile.encode.file}`, `{profile.step.file}`",
        )
        for place, profile in enumerate(manifest.profiles)
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
    lengths = _listed(parity.source_lengths)
    sources = (
        f"pictures of {lengths} cells" if manifest.HasField("image") else f"sources of {lengths} tokens with padding"
    )
    return (
        "## How exact the graphs are\n\n"
        "Largest absolute difference between a graph and the model it came from, over batches of "
        f"{_listed(parity.batches)} and {sources}, "
        f"{parity.steps} steps of each. Greedy choices that are the same: {agreement}.\n\n"
        + "".join(_emulated(manifest, profile) for profile in manifest.profiles if profile.parity.emulated)
        + _table(("Profile", "Tensor", "Difference"), rows)
    )


def _emulated(manifest: bundle_pb2.Bundle, profile: bundle_pb2.Profile) -> str:
    """Say what the figures of a profile that did not run on its device are worth."""
    return (
        f"**`{profile.name}` is unverified on the device that it is for.** Its figures come from "
        f"{profile.parity.provider}, which computed each operator in float32 and rounded the result as that device "
        f"would. `regard verify {manifest.name}/{manifest.version} --profile {profile.name} --device cuda`, run where "
        "there is one, says whether it holds.\n\n"
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _limits(manifest: bundle_pb2.Bundle) -> str:
    limits, seen = manifest.limits, manifest.provenance.known_limits
    if manifest.HasField("image"):
        return (
            "## Limits\n\n"
            f"A caption has at most {limits.max_target_tokens} tokens, without capitals or punctuation. "
            f"{seen or _SEEN_PICTURES} It may name what is not there while sounding sure; attention shows which cells "
            "it looked at, not that it understood. Do not use it where a wrong caption does harm, nor to learn who "
            "somebody is."
        )
    return (
        "## Limits\n\n"
        f"A segment has at most {limits.max_source_tokens} source tokens, end of sentence included, and a translation "
        f"at most {limits.max_target_tokens}. {seen or _SEEN_TEXT} It may leave things out or make things up while "
        "sounding fluent; attention shows what it looked at, not that it understood. Do not use it where a wrong "
        "translation does harm."
    )


def _named(teacher: str) -> str:
    parts = [f"`{part}`" for part in teacher.split(", ")]
    return f"the mean of {' and '.join(parts)}" if len(parts) > 1 else parts[0]


def _origin(manifest: bundle_pb2.Bundle) -> str:
    origin = manifest.provenance
    parts = [
        f"Training data: {origin.training_data}" if origin.training_data else "",
        f"Licence: {origin.licence}" if origin.licence else "",
        f"Recipe: `{origin.recipe}`" if origin.recipe else "",
        *(
            f"`{recipe}` learnt from translations by {_named(teacher)}, beside people's"
            for recipe, teacher in sorted(origin.taught_by.items())
        ),
        f"The weights are the mean of those of {', '.join(f'`{part}`' for part in origin.mean_of)}"
        if origin.mean_of
        else "",
        f"Weights: SHA-256 `{origin.checkpoint_sha256}`" if origin.checkpoint_sha256 else "",
        "Made with " + ", ".join(f"{name} {version}" for name, version in sorted(origin.versions.items()))
        if origin.versions
        else "",
    ]
    text = "## Origin\n\n" + "\n".join(f"- {part.rstrip('.')}." for part in parts if part)
    if origin.recipe and origin.checkpoint_sha256:
        commands = "\n".join(_commands(origin, f"models/{manifest.name}/{manifest.version}"))
        text += f"\n\nTo make it again:\n\n```sh\n{commands}\n```"
    return text


def _commands(origin: bundle_pb2.Provenance, target: str) -> list[str]:
    """Return what makes a bundle in `target` again."""
    commands: list[str] = []
    taught: dict[str, str] = {}
    for recipe, teacher in sorted(origin.taught_by.items()):
        run, parts = teacher, teacher.split(", ")
        if len(parts) > 1:
            run = f"teacher-of-{recipe}"
            commands.append(_mean(run, parts))
        taught[recipe] = f" --teacher runs/{run}"
    recipes = origin.recipe.split(", ")
    # Each goes on from the one before it.
    starts = ["", *(f" --start-from runs/{recipe}" for recipe in recipes)]
    commands += [
        f"regard train {recipe}{start}{taught.get(recipe, '')} --data DATA --out runs/{recipe}"
        for recipe, start in zip(recipes, starts, strict=False)
    ]
    if origin.mean_of:
        commands.append(_mean("mean", origin.mean_of))
    run = "mean" if origin.mean_of else recipes[-1]
    return [*commands, f"regard export runs/{run} {target} --data DATA", f"regard verify {target}"]


def _mean(run: str, parts: Sequence[str]) -> str:
    return f"python -m regard.training.learning.average runs/{run} {' '.join(f'runs/{part}' for part in parts)}"
