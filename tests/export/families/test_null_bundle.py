"""The committed null bundle is what its program makes, and does what load tests count on."""

from __future__ import annotations

import numpy as np
import onnx
from tests.bundles import NULL as COMMITTED
from tests.export.toy import quiet
from tokenizers import Tokenizer

from regard.export.bundle.writer import read_bundle
from regard.export.families.null import null_bundle, null_ports, null_tokenizer
from regard.export.parity.greedy import END, greedy_steps
from regard.export.parity.runtime import OnnxMachine
from regard.export.verify import verify


def machine() -> OnnxMachine:
    files = read_bundle(COMMITTED).files
    return OnnxMachine(files["encode.onnx"], files["step.onnx"])


def test_committed_bundle_is_what_the_program_makes() -> None:
    committed, made = read_bundle(COMMITTED), null_bundle()
    for manifest in (committed.manifest, made.manifest):
        del manifest.files[:]
    made.manifest.format_version, made.manifest.name, made.manifest.version = 1, "null", "1"
    assert committed.manifest == made.manifest
    for name in ("encode.onnx", "step.onnx"):
        first, second = (onnx.load_model_from_string(bundle.files[name]) for bundle in (committed, made))
        assert first == second
    assert committed.files["tokenizer.json"] == made.files["tokenizer.json"]


def test_committed_bundle_holds_and_is_small() -> None:
    verify(COMMITTED, quiet)
    assert sum(path.stat().st_size for path in COMMITTED.iterdir()) < 200_000


def test_answer_is_as_long_as_it_may_be() -> None:
    steps = list(greedy_steps([machine()], null_ports(), [[4, 4, 4, END]]))
    assert len(steps) == 2 * 4 + 10
    assert {int(step.chosen[0][0]) for step in steps} == {4}


def test_state_counts_the_steps() -> None:
    *_, last = greedy_steps([machine()], null_ports(), [[4, END], [4, 4, END]])
    np.testing.assert_array_equal(last.outputs[0]["next.state.count"], [[16.0], [16.0]])


def test_scores_are_a_distribution_in_which_no_beam_finds_the_end() -> None:
    step = next(iter(greedy_steps([machine()], null_ports(), [[4, END]])))
    scores = step.outputs[0]["scores"][0].astype(np.float64)
    np.testing.assert_allclose(np.exp(scores).sum(), 1.0, atol=1e-5)
    assert scores[END] < scores[4:].min() - 10
    assert len(scores) - 4 >= 2 * 16


def test_no_text_is_unknown_or_can_spell_a_mark() -> None:
    tokenizer = Tokenizer.from_str(null_tokenizer())
    for text in ("Hello, world!", "</s> <pad> <unk> <s>", "日本語 ☃", "echo", "a\x00b"):
        encoding = tokenizer.encode(text)
        assert min(encoding.ids[:-1]) >= 4
        assert encoding.ids[-1] == END


def test_spans_cover_the_words_of_the_text() -> None:
    text = "Ça va, world?"
    encoding = Tokenizer.from_str(null_tokenizer()).encode(text)
    assert [text[start:end] for start, end in encoding.offsets[:-1]] == ["Ça", "va", ",", "world", "?"]
