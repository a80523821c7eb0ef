"""Writes sentences that each test one thing of a translator, from templates: CheckList, Ribeiro et al. 2020.

A case knows by itself whether an answer keeps what is tested; it does not know who answers. Its names are its own.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from regard.loadtest.accuracy.behaviour_lists import (
    FIGURE_TEMPLATES,
    GREETINGS,
    NAME_TEMPLATES,
    NAMES,
    NEGATIONS,
    NEGATIVE,
    NUMBERS,
    PLAIN,
    PRICES,
    TIMES,
    YEARS,
)

# Given what was answered to every source, whether this one was kept.
Kept = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One sentence.

    Attributes:
        kind: what is tested.
        source: the sentence.
        beside: a sentence that it is compared with, which has to be answered, too; empty for none.
        kept: judges it.
    """

    kind: str
    source: str
    kept: Kept
    beside: str = ""


def write_cases(language: str, *, count: int, seed: int) -> list[Case]:
    """Return up to count cases of each kind for a target language; raise ValueError for one without lists."""
    if language not in NEGATIVE:
        raise ValueError(f"there are no behaviour cases for {language!r}, only for {', '.join(NEGATIVE)}")
    rng = Random(seed)  # noqa: S311  sentences, not secrets
    cases: list[Case] = []
    for kind, (templates, figure) in _FIGURES.items():
        for number in range(count):
            written = figure(rng)
            spellings = [*_spellings(written), *NUMBERS[language].get(written, ())]
            cases.append(_keeps(kind, templates[number % len(templates)].format(written), [spellings]))
    for number in range(count):
        name = NAMES[number % len(NAMES)]
        cases.append(_keeps("name", NAME_TEMPLATES[number % len(NAME_TEMPLATES)].format(name), [[name]]))
    cases += [_long(number, rng) for number in range(count)]
    cases += [_negates(source, NEGATIVE[language]) for source in NEGATIONS[:count]]
    cases += [_answers("greeting", *case) for case in list(GREETINGS[language].items())[:count]]
    for kind, mark in _MARKS.items():
        for source in PLAIN[:count]:
            changed = mark(source)
            if changed != source:
                cases.append(_same_words(kind, changed, source))
    return cases


def words_of(text: str) -> list[str]:
    """Return a text's words in small letters, without any mark."""
    return re.findall(r"\w+", text.casefold())


def _digits(least: int, most: int) -> Callable[[Random], str]:
    return lambda rng: str(rng.randrange(10 ** (least - 1), 10**most))


def _decimal(rng: Random) -> str:
    return f"{rng.randrange(1, 100)}.{rng.randrange(1, 10)}{rng.choice(('', '5', '7'))}"


_FIGURES: Mapping[str, tuple[Sequence[str], Callable[[Random], str]]] = MappingProxyType(
    {
        "1 digit": (FIGURE_TEMPLATES, lambda rng: str(rng.randrange(2, 10))),
        "2 digits": (FIGURE_TEMPLATES, _digits(2, 2)),
        "3 digits": (FIGURE_TEMPLATES, _digits(3, 3)),
        "4 digits": (FIGURE_TEMPLATES, _digits(4, 4)),
        "5 to 7 digits": (FIGURE_TEMPLATES, _digits(5, 7)),
        "thousands": (FIGURE_TEMPLATES, lambda rng: f"{rng.randrange(1, 1000)},{rng.randrange(1000):03}"),
        "decimal": (PRICES, _decimal),
        "price": (PRICES, lambda rng: f"{rng.randrange(2, 400)}.{rng.randrange(10, 100)}"),
        "time": (TIMES, lambda rng: f"{rng.randrange(1, 24)}:{rng.randrange(60):02}"),
        "year": (YEARS, lambda rng: str(rng.randrange(1500, 2100))),
    }
)
_MARKS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "quotes": lambda text: f'"{text}"',
        "curly quotes": lambda text: f"\u201c{text}\u201d",
        "brackets": lambda text: f"({text})",
        "stars": lambda text: f"*{text}*",
        "curly apostrophe": lambda text: text.replace("'", "\u2019"),
        "soft hyphen": lambda text: re.sub(r"([a-z]{3})([a-z]{3,})", "\\1\u00ad\\2", text, count=1),
        "no-break space": lambda text: text.replace(" ", "\u00a0", 1),
        "capitals": str.upper,
    }
)


def _spellings(figure: str) -> list[str]:
    """Return a figure as it is, and as other languages write it: other separators, or a time with an h."""
    swapped = figure.translate(str.maketrans(".,", ",."))
    found = [figure, swapped, figure.replace(",", ""), figure.replace(",", " "), figure.replace(",", "\u202f")]
    if ":" in figure:
        found += [figure.replace(":", "."), figure.replace(":", "h"), figure.replace(":", " h ")]
    return list(dict.fromkeys(found))


def _stands(wanted: str, answer: str) -> bool:
    return re.search(rf"(?<![\w])(?<!\d[.,:]){re.escape(wanted)}(?![\w]|[.,:]\d)", answer) is not None


def _keeps(kind: str, source: str, wanted: Sequence[Sequence[str]]) -> Case:
    """Every one of wanted has to stand in the answer, in one of its spellings."""

    def kept(answers: Mapping[str, str]) -> bool:
        return all(any(_stands(spelling, answers[source]) for spelling in one) for one in wanted)

    return Case(kind=kind, source=source, kept=kept)


def _negates(source: str, words: Sequence[str]) -> Case:
    return Case(
        kind="negation",
        source=source,
        kept=lambda answers: any(f"{word} ".startswith(tuple(words)) for word in words_of(answers[source])),
    )


def _answers(kind: str, source: str, accepted: Sequence[str]) -> Case:
    right = [words_of(answer) for answer in accepted]
    return Case(kind=kind, source=source, kept=lambda answers: words_of(answers[source]) in right)


def _same_words(kind: str, source: str, plain: str) -> Case:
    def kept(answers: Mapping[str, str]) -> bool:
        return words_of(answers[source]) == words_of(answers[plain]) != []

    return Case(kind=kind, source=source, kept=kept, beside=plain)


def _long(number: int, rng: Random) -> Case:
    """Return one sentence of 25 words and more, with three names, three figures."""
    names = [NAMES[(number * 3 + step) % len(NAMES)] for step in range(3)]
    figures = [str(rng.randrange(10, 1000)) for _ in range(3)]
    source = (
        f"{names[0]} told me that the train leaves at platform {figures[0]}, but {names[1]} says that we need "
        f"{figures[1]} tickets for the whole family, and {names[2]} thinks that the hotel is {figures[2]} kilometers "
        "from the station."
    )
    return _keeps("long", source, [[wanted] for wanted in (*names, *figures)])
