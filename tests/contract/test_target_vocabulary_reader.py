"""Which target vocabularies a bundle may have, and what is said of those that it may not."""

from base64 import b64encode
from pathlib import Path

import pytest
from tests.server.changed_bundles import Change, Manifest, copy_of_null, refusal, rewrite, speak, step

from regard.contract.bundle import load_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return copy_of_null(tmp_path)


def choose(manifest: Manifest, *, language: str = "fr", **tokens: tuple[int, ...]) -> None:
    """Let a manifest have target vocabularies, one for each of these languages, the last of which may be misnamed."""
    speak(manifest, ["fr", "pt-BR"], **{"fr": 62, "pt-BR": 63})
    tokens = tokens or {"fr": (3, 4, 9), "pt-BR": (3, 5)}
    manifest["targetVocabularies"] = [
        {"language": name, "tokens": b64encode(sum(1 << token for token in chosen).to_bytes(8, "little")).decode()}
        for name, chosen in tokens.items()
    ]
    manifest["targetVocabularies"][0]["language"] = language
    for profile in manifest["profiles"]:
        rows = {
            "name": "scored_rows",
            "role": "PORT_ROLE_SCORED_ROWS",
            "dtype": "int64",
            "axes": [f"{1 + len(tokens)}"],
        }
        profile["step"]["inputs"].append(rows)
        for name, chosen in tokens.items():
            scores = f"scores.{name.lower().replace('-', '_')}"
            axes = ["batch", str(len(chosen))]
            output = {"name": scores, "role": "PORT_ROLE_SCORES", "dtype": "float32", "axes": axes}
            profile["step"]["outputs"].append(output)
            profile["parity"]["ports"].append({"port": scores, "worstAbsolute": 0.0})


def test_target_vocabularies_are_read_from_their_bits(bundle: Path) -> None:
    assert load_bundle(bundle).ports.target_vocabularies == {}
    rewrite(bundle, choose)
    ports = load_bundle(bundle).ports
    assert {language: tokens.tolist() for language, tokens in ports.target_vocabularies.items()} == {
        "fr": [3, 4, 9],
        "pt-BR": [3, 5],
    }
    assert ports.scores == ("scores", "scores.fr", "scores.pt_br")
    assert ports.predictable == 60


SCORED_ROWS = {"name": "scored_rows", "role": "PORT_ROLE_SCORED_ROWS", "dtype": "int64", "axes": ["1"]}
WRONG: list[tuple[Change, str]] = [
    (lambda m: choose(m, language="de"), "target_vocabularies: 'de' is not among target_languages fr, pt-BR"),
    (lambda m: choose(m, language="pt-BR"), "target_vocabularies: 'pt-BR' is there twice"),
    (lambda m: choose(m, fr=(4, 5)), "'fr' lacks the end of sentence"),
    (lambda m: choose(m, fr=(3,)), "'fr' lacks the end of sentence, or has nothing else"),
    (lambda m: choose(m, fr=(1, 3, 4)), "'fr' has token 1, which is never generated"),
    (lambda m: choose(m, fr=(3, 4, 60)), "'fr' has token 60, and only 60 can be predicted"),
    (
        lambda m: (choose(m), m["targetVocabularies"][0].update(tokens="AAAA")),
        "'fr' has 3 bytes, expected a bit for each of 60 tokens",
    ),
    (lambda m: (choose(m), m["tokenizer"].pop("targetEndIds")), "no tokenizer.target_end_ids to choose one by"),
    (
        lambda m: (choose(m), m["targetVocabularies"].pop()),
        "'scored_rows' is int64 [3] of role scored_rows, expected int64 [2]",
    ),
    (lambda m: (choose(m), m["targetVocabularies"].reverse()), "not in the order of target_vocabularies"),
    (
        lambda m: (choose(m), step(m, "outputs", "scores.fr").update(axes=["batch", "4"])),
        "'scores.fr' is float32 [batch, 4] of role scores, expected float32 [batch, 3]",
    ),
    (
        lambda m: (choose(m), step(m, "inputs", "scored_rows").update(axes=["2"])),
        "int64 [2] of role scored_rows, expected int64 [3]",
    ),
    (
        lambda m: (choose(m), step(m, "inputs", "scored_rows").update(dtype="int32")),
        "'scored_rows' is int32 [3] of role scored_rows, expected int64 [3]",
    ),
    (
        lambda m: [profile["step"]["inputs"].append(SCORED_ROWS) for profile in m["profiles"]],
        "step inputs are memory.mask, memory.weights, scored_rows, ",
    ),
]


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_what_does_not_belong_together_is_named(bundle: Path, change: Change, said: str) -> None:
    rewrite(bundle, change)
    assert said in refusal(bundle)
