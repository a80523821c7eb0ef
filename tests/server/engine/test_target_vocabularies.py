"""A request is decoded among the tokens of its target language, and nothing else about it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.server import engine_reference as reference
from tests.server.engine_fakes import END, FakeDecoder, Prefix, hashed_attention, hashed_scores, request
from tests.server.engine_running import running, submit

from regard.server.engine.decoder import DecoderFacts, Shortlist, Tensors
from regard.server.request import Ids, Pixels

VOCABULARY = 40
# What ends the sources of each language, and the tokens of its targets.
SPANISH, FRENCH = 41, 42
TOKENS = {SPANISH: (END, 5, 6, 9, 14, 20, 21, 22), FRENCH: (END, 4, 6, 7, 30, 31, 39)}
BEAMS = (1, 1, 2, 3, 5)


@dataclass
class Speaker:
    """A fake that can also score the tokens of one language alone; meets `regard.server.engine.decoder.Decoder`."""

    fake: FakeDecoder

    @property
    def facts(self) -> DecoderFacts:
        return replace(
            self.fake.facts,
            vocabulary_size=50,
            shortlists=tuple(
                Shortlist(source_end=end, tokens=np.array(tokens), scores=f"scores.{end}")
                for end, tokens in TOKENS.items()
            ),
        )

    def encode(self, source: Ids | Pixels, source_length: Ids, *, encoder_attention: bool = False) -> Tensors:
        return self.fake.encode(source, source_length)

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        (name,) = [name for name in outputs if name.startswith("scores")]
        everything = np.empty((len(inputs["token"]), VOCABULARY), dtype=np.float32)
        run = self.fake.bind_step(inputs, {**outputs, "scores": everything}, rows)

        def step() -> None:
            run()
            scores = everything[:rows]
            outputs[name][:rows] = scores if name == "scores" else among(scores, int(name.partition(".")[2]))

        return step


def among(scores: NDArray[np.float32], language: int) -> NDArray[np.float32]:
    """Return log-probabilities of the tokens of a language, if there were no others."""
    chosen = scores[..., TOKENS[language]]
    return chosen - np.log(np.exp(chosen).sum(axis=-1, keepdims=True))


def alone(fake: FakeDecoder) -> Callable[[Prefix, Prefix], NDArray[np.float32]]:
    """Return the scores of a model that knows the tokens of each source's language alone."""

    def score(source: Prefix, prefix: Prefix) -> NDArray[np.float32]:
        scores = np.full(VOCABULARY, -np.inf, dtype=np.float32)
        scores[list(TOKENS[source[-1]])] = among(fake.score(source, prefix), source[-1])
        return scores

    return score


@pytest.fixture
def fake() -> FakeDecoder:
    return FakeDecoder(hashed_scores(seed=3, vocabulary=VOCABULARY), hashed_attention(), cache="in place")


def source(number: int, language: int) -> tuple[int, ...]:
    return (*range(4, 6 + number % 4), 10 + number, language)


def test_greedy_and_beams_find_what_a_model_of_that_language_alone_would(fake: FakeDecoder) -> None:
    asked = [
        request(source(number, language), beam_size=beams, n_best=beams, min_length=number % 3, no_repeat_ngram=ngram)
        for number in range(6)
        for language in TOKENS
        for beams, ngram in zip(BEAMS, (0, 2, 0, 0, 2), strict=True)
    ]
    with running(Speaker(fake), rows=24, widest_beam=5) as engine:
        results = submit(engine, *asked).results()
    for wanted, result in zip(asked, results, strict=True):
        expected = reference.search(alone(fake), wanted, limit=fake.facts.target_limit(wanted))
        found = [tuple(hypothesis.tokens.tolist()) for hypothesis in result.hypotheses]
        assert found == [hypothesis.tokens for hypothesis in expected]
        assert [hypothesis.score for hypothesis in result.hypotheses] == pytest.approx(
            [hypothesis.score for hypothesis in expected], abs=1e-4
        )


def test_a_given_target_is_scored_as_it_would_have_been_found(fake: FakeDecoder) -> None:
    asked = request(source(1, SPANISH))
    with running(Speaker(fake)) as engine:
        (found,) = submit(engine, asked).results()
        again = replace(asked, forced_target=found.hypotheses[0].tokens)
        (scored,) = submit(engine, again).results()
    np.testing.assert_allclose(scored.hypotheses[0].log_probabilities, found.hypotheses[0].log_probabilities, atol=1e-5)
    assert scored.hypotheses[0].tokens.tolist() == found.hypotheses[0].tokens.tolist()


def test_a_given_target_with_foreign_tokens_is_scored_among_all_tokens(fake: FakeDecoder) -> None:
    target = (4, 5, 30)
    asked = replace(request(source(1, SPANISH)), forced_target=np.array(target))
    with running(Speaker(fake)) as engine:
        (scored,) = submit(engine, asked).results()
    text = source(1, SPANISH)
    expected = [fake.score(text, target[:step])[token] for step, token in enumerate(target)]
    assert scored.hypotheses[0].log_probabilities.tolist() == pytest.approx(expected, abs=1e-5)
    assert scored.hypotheses[0].tokens.tolist() == list(target)


def test_a_source_of_no_such_language_is_decoded_among_all_tokens(fake: FakeDecoder) -> None:
    asked = request((4, 5, END))
    with running(Speaker(fake)) as engine:
        (found,) = submit(engine, asked).results()
    expected = reference.search(fake.score, asked, limit=fake.facts.target_limit(asked))
    assert tuple(found.hypotheses[0].tokens.tolist()) == expected[0].tokens


def test_two_languages_do_not_share_a_step(fake: FakeDecoder) -> None:
    with running(Speaker(fake)) as engine:
        submit(engine, *(request(source(n, language)) for n in range(4) for language in TOKENS)).results()
    assert all(len({text[-1] for text in step}) == 1 for step in fake.steps)
