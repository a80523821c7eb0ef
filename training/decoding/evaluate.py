"""Scores translations with BLEU, chrF and exact matches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from regard.training.data.translation_data import References
from regard.training.data.vocabulary import Vocabulary
from regard.training.decoding.search import Hypothesis, SearchConfig, search_all
from regard.training.models.protocol import SequenceModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measure of quality with all that it takes to measure it again."""

    metric: str
    value: float
    test_set: str
    search: str
    signature: str


def translate(
    model: SequenceModel[Any, Any], vocabulary: Vocabulary, texts: Sequence[References], config: SearchConfig
) -> list[str]:
    """Return the best translation of every source into the language of its references."""
    return [vocabulary.decode(best.tokens) for best in find_best(model, vocabulary, texts, config)]


def find_best(
    model: SequenceModel[Any, Any], vocabulary: Vocabulary, texts: Sequence[References], config: SearchConfig
) -> list[Hypothesis]:
    """Return the best hypothesis for every source, in the language of its references."""
    sources = vocabulary.encode_all([text.source for text in texts])
    for source, text in zip(sources, texts, strict=True):
        source[-1] = vocabulary.end(text.language)
    return [hypotheses[0] for hypotheses in search_all(model, sources, config)]


def score(
    translations: Sequence[str],
    references: Sequence[References],
    *,
    test_set: str,
    search: str,
    lower: bool = False,
) -> list[Figure]:
    """Compare translations with one or more references of each: exact matches, BLEU and chrF by sacreBLEU (Post 2018).

    test_set and search are what the figures say of what was translated and how. lower takes capitals for small letters,
    for models that write none.
    """
    most = max(len(reference.targets) for reference in references)
    # sacreBLEU wants streams, one per place of a reference; None stands where a sentence has fewer.
    streams = [
        [reference.targets[place] if place < len(reference.targets) else None for reference in references]
        for place in range(most)
    ]
    figures: list[Figure] = []
    for name, metric in (("bleu", BLEU(lowercase=lower)), ("chrf", CHRF(lowercase=lower))):
        # The package takes None for a missing reference, though its types do not say so.
        value = round(metric.corpus_score(translations, cast(list[list[str]], streams)).score, 4)
        figures.append(
            Figure(metric=name, value=value, test_set=test_set, search=search, signature=str(metric.get_signature()))
        )
    if lower:
        translations = [text.lower() for text in translations]
        references = [References(each.source, tuple(map(str.lower, each.targets))) for each in references]
    matches = [text in reference.targets for text, reference in zip(translations, references, strict=True)]
    signature = "percent of translations that equal a reference"
    exact = round(100 * sum(matches) / len(matches), 4)
    figures.append(Figure(metric="exact", value=exact, test_set=test_set, search=search, signature=signature))
    return figures


def score_as_published(
    translations: Sequence[str], references: Sequence[References], language: str, *, test_set: str, search: str
) -> Figure:
    """Return BLEU on lowercased text with normal punctuation, cut by Moses' rules: as papers on Multi30k report it.

    One reference each, in the given language; translations are those of a model that writes ordinary text.
    """
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)

    def cut(text: str) -> str:
        words = tokenizer.tokenize(normalizer.normalize(text.lower()), escape=True)
        return " ".join(words)

    metric = BLEU(tokenize="none", force=True)
    cut_references = [cut(reference.targets[0]) for reference in references]
    value = round(metric.corpus_score(list(map(cut, translations)), [cut_references]).score, 4)
    signature = f"{metric.get_signature()}, lowercased, normalised and tokenised by sacremoses"
    return Figure(metric="bleu_tokenized", value=value, test_set=test_set, search=search, signature=signature)
