"""The cases about decoding and attention that a running server can show: D01 to D16.

It does not know how a server searches, only what must hold for its answers.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tests.acceptance.case_server import CaseServer, Outcome, Reply

from regard.loadtest.load.corpus import read_sentences
from regard.v1.attention_pb2 import (
    ATTENTION_GRANULARITY_SUBWORD,
    ATTENTION_GRANULARITY_WORD,
    Attention,
    AttentionOptions,
)
from regard.v1.decoding_pb2 import FINISH_REASON_END, Hypothesis
from regard.v1.translation_pb2 import Segment, TranslationResult

SUBWORD = AttentionOptions(granularity=ATTENTION_GRANULARITY_SUBWORD)
WORD = AttentionOptions(granularity=ATTENTION_GRANULARITY_WORD)
SCORE_TOLERANCE = 1e-4
SUM_TOLERANCE = 1e-3
END_ID = 3


def stops(server: CaseServer) -> list[Outcome]:
    """Greetings, after which some decoders never stop."""
    outcomes: list[Outcome] = []
    for text in ("Hello.", "Hello world!"):
        for beam in (1, 5):
            reply = server.translate(text, beam_size=beam)
            outcomes.append(
                Outcome(
                    "D01", f"{text!r}, beam {beam}", "ends, or is cut and says so", reply.short, server.bounded(reply)
                )
            )
    return outcomes


def batch_and_beams(server: CaseServer) -> list[Outcome]:
    """Three sentences, beam 4, together and alone."""
    texts = ("I am hungry.", "The museum shows paintings from the last two centuries.", "Where is the station?")
    got, ok = _compare(server, texts, [texts], beam_size=4, n_best=4)
    return [Outcome("D05", "3 sentences, beam 4, batch and alone", "same texts, scores, attention", got, ok)]


def batch_and_padding(server: CaseServer) -> list[Outcome]:
    """Twenty sentences alone, batched, shuffled, and beside a long one."""
    texts = sorted(read_sentences(), key=len)[::3][:20]
    long = " ".join(["the"] * min(190, server.max_source_tokens - 10))
    orders = [texts, texts[::-1], [*texts[::2], *texts[1::2]], [*texts, long]]
    got, ok = _compare(server, texts, orders)
    return [Outcome("D06", "20 sentences alone, batched, shuffled, beside a long one", "same answers", got, ok)]


def beam_sizes(server: CaseServer) -> list[Outcome]:
    """Beams that are too wide, or none."""
    most = server.limits.max_beam_size
    outcomes: list[Outcome] = []
    for beam in (most, most + 1, 0, -1, 10**9):
        reply = server.translate("Hello.", beam_size=beam)
        wanted = "OK" if beam == most else "INVALID_ARGUMENT"
        outcomes.append(Outcome("D08", f"beam_size {beam}, limit {most}", wanted, reply.short, reply.code == wanted))
    return outcomes


def n_best(server: CaseServer) -> list[Outcome]:
    """Five of five on short texts."""
    outcomes: list[Outcome] = []
    for text in ("Hello.", "Yes.", "The cat sleeps."):
        reply = server.translate(text, beam_size=5, n_best=5)
        found = [tuple(token.id for token in h.tokens) for s in reply.segments for h in s.hypotheses]
        ok = reply.code == "OK" and len(set(found)) == len(found) >= 1 and all(END_ID not in ids for ids in found)
        got = f"{reply.code}, {len(found)} hypotheses, {len(set(found))} different"
        outcomes.append(Outcome("D09", f"{text!r}, n_best 5", "no two alike, no end of sentence among tokens", got, ok))
    return outcomes


def scores(server: CaseServer) -> list[Outcome]:
    """The score, worked out again from the tokens."""
    outcomes: list[Outcome] = []
    for penalty in (0.0, 0.6, 1.0, 2.0):
        reply = server.translate("The cat eats the mouse.", beam_size=5, n_best=5, length_penalty=penalty)
        hypotheses = [h for segment in reply.segments for h in segment.hypotheses]
        worst = max((abs(h.score - _score(h, penalty)) for h in hypotheses), default=math.inf)
        given = [h.score for h in hypotheses]
        ok = worst <= SCORE_TOLERANCE and given == sorted(given, reverse=True) and all(map(math.isfinite, given))
        got = f"{len(given)} hypotheses, worst difference {worst:.1e}"
        outcomes.append(Outcome("D11", f"length_penalty {penalty:g}", "formula holds to 1e-4, best first", got, ok))
    return outcomes


def nothing_known(server: CaseServer) -> list[Outcome]:
    """Unknown characters only."""
    outcomes: list[Outcome] = []
    for text in ("\u2603\u2603\u2603", "\U0001f600", "\u200b", "\ufffd\ufffd"):
        reply = server.translate(text, attention=SUBWORD)
        ok = server.bounded(reply) and all(_fits(reply, segment) for segment in reply.segments)
        shape = [list(h.attention.shape) for s in reply.segments for h in s.hypotheses]
        outcomes.append(
            Outcome("D12", f"{text!a} only", "OK, attention [tokens, source]", f"{reply.short} {shape}", ok)
        )
    return outcomes


def rows_and_columns(server: CaseServer) -> list[Outcome]:
    """Row i explains token i."""
    reply = server.translate("We are eating bread. The cat sleeps.", attention=SUBWORD)
    shapes = [list(s.hypotheses[0].attention.shape) for s in reply.segments]
    wanted = [[len(s.hypotheses[0].tokens), len(s.source_tokens)] for s in reply.segments]
    ok = reply.code == "OK" and bool(shapes) and shapes == wanted
    return [Outcome("D14", "attention of two sentences", "rows = tokens, columns = source tokens", f"{shapes}", ok)]


def words(server: CaseServer) -> list[Outcome]:
    """Attention between words."""
    texts = {
        "long compound": "The counterrevolutionaries misunderstood antidisestablishmentarianism.",
        "two spaces": "a  b",
        "leading space": " The cat sleeps.",
        "punctuation": '"Well," she said, "(perhaps) it\'s 3.50."',
        "Chinese": "\u6211\u4eec\u5403\u9762\u5305\u3002",
    }
    outcomes: list[Outcome] = []
    for name, text in texts.items():
        reply = server.translate(text, attention=WORD)
        shapes = [list(s.hypotheses[0].attention.shape) for s in reply.segments]
        wanted = [[len(s.hypotheses[0].words), len(s.source_words)] for s in reply.segments]
        good = all(_rows_sum_to_one(s.hypotheses[0].attention) and _words_cover(s) for s in reply.segments)
        ok = reply.code == "OK" and shapes == wanted and good
        outcomes.append(Outcome("D16", name, f"shape {wanted}, rows sum to 1, words hold all tokens", f"{shapes}", ok))
    return outcomes


def _compare(
    server: CaseServer, texts: Sequence[str], batches: Sequence[Sequence[str]], **decoding: int
) -> tuple[str, bool]:
    """How far the answers in batches are from those that the texts get alone."""
    alone = {text: server.translate(text, attention=SUBWORD, **decoding) for text in texts}
    if bad := [reply for reply in alone.values() if reply.code != "OK"]:
        return bad[0].short, False
    worst_score = worst_weight = 0.0
    other: list[str] = []
    for batch in batches:
        reply = server.translate(*batch, attention=SUBWORD, **decoding)
        if reply.code != "OK":
            return reply.short, False
        for text, result in zip(batch, reply.results, strict=True):
            if text not in alone:
                continue
            single = alone[text].results[0]
            if _ids(single) != _ids(result):
                other.append(text)
                continue
            for first, second in zip(_hypotheses(single), _hypotheses(result), strict=True):
                worst_score = max(worst_score, abs(first.score - second.score))
                difference = np.abs(_weights(first.attention) - _weights(second.attention))
                worst_weight = max(worst_weight, float(difference.max(initial=0.0)))
            if not all(_rows_sum_to_one(h.attention) for h in _hypotheses(result)):
                other.append(f"{text} (rows do not sum to 1)")
    got = f"{len(other)} differ, scores by {worst_score:.0e}, attention by {worst_weight:.0e}"
    return got, not other and worst_score <= SCORE_TOLERANCE and worst_weight <= SUM_TOLERANCE


def _hypotheses(result: TranslationResult) -> list[Hypothesis]:
    return [hypothesis for segment in result.segments for hypothesis in segment.hypotheses]


def _ids(result: TranslationResult) -> list[list[int]]:
    return [[token.id for token in hypothesis.tokens] for hypothesis in _hypotheses(result)]


def _weights(attention: Attention) -> NDArray[np.float32]:
    return np.frombuffer(attention.values, dtype="<f4").reshape(tuple(attention.shape))


def _rows_sum_to_one(attention: Attention) -> bool:
    weights = _weights(attention)
    return bool(np.isfinite(weights).all() and (np.abs(weights.sum(axis=-1) - 1) <= SUM_TOLERANCE).all())


def _fits(reply: Reply, segment: Segment) -> bool:
    [hypothesis] = segment.hypotheses
    return list(hypothesis.attention.shape) == [len(hypothesis.tokens), len(segment.source_tokens)]


def _words_cover(segment: Segment) -> bool:
    """Whether words take up all tokens, each once and in order."""
    for found, count in (
        (segment.source_words, len(segment.source_tokens)),
        (segment.hypotheses[0].words, len(segment.hypotheses[0].tokens)),
    ):
        places = [place for word in found for place in range(word.first_token, word.first_token + word.token_count)]
        if places != list(range(count)):
            return False
    return True


def _score(hypothesis: Hypothesis, penalty: float) -> float:
    ended = hypothesis.finish_reason == FINISH_REASON_END
    total = sum(token.log_probability for token in hypothesis.tokens) + (
        hypothesis.end_log_probability if ended else 0.0
    )
    return total / max(len(hypothesis.tokens) + ended, 1) ** penalty
