"""Writes sentence pairs otherwise, so that names, figures, marks and slips are learnt that the pairs hardly have.

A name that stands in both sides is exchanged for another, and so is a figure, or a number in words that both sides
have: what is new stands in both and is to be copied (Currey et al. 2017). Marks are set around both sides; slips,
which a translation does not share, in the source alone. It does not know subwords.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from regard.training.data.names import COMMON, FEMALE, MALE

_FIGURE = re.compile(r"(?<![\w.,:])\d+(?:[.,:]\d+)*(?![\w]|[.,:]\d)")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBERS = {
    "en": ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    "es": ["dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"],
    "fr": ["deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"],
    "de": ["zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"],
}
_MARKS = (('"', '"'), ("(", ")"), ("*", "*"), ("[", "]"), ("'", "'"), ("- ", ""), ("", " :)"))
_ONSETS = (
    *("b", "br", "c", "ch", "d", "dr", "f", "g", "gr", "h", "j", "k", "kr", "l", "m"),
    *("n", "p", "r", "s", "sh", "st", "t", "tr", "v", "w", "y", "z"),
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ee", "ou", "ia")
_CODAS = ["", "", "n", "r", "l", "s", "k", "m", "th", "nd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentConfig:
    """How often pairs are written otherwise; each is a probability.

    Attributes:
        names: a pair with a common name in both sides gets other names.
        figures: a pair with a figure, or a number in words, in both sides gets another figure.
        marks: both sides stand in quotes, brackets or stars.
        apostrophes: a source with apostrophes loses them.
        typos: two letters of a word of the source change places, or one is lost.
        titles: every word of the source begins with a capital.
        more_figures: share of an epoch that is drawn from pairs with figures or numbers.
        more_short: share of an epoch that is drawn from pairs whose source has up to two words.
    """

    names: float = 0.0
    figures: float = 0.0
    marks: float = 0.0
    apostrophes: float = 0.0
    typos: float = 0.0
    titles: float = 0.0
    more_figures: float = 0.0
    more_short: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{field.name} is {value}, but a probability lies between 0 and 1.")
        if self.more_figures + self.more_short > 1.0:
            raise ValueError("more_figures and more_short together are more than an epoch has.")


def has_figure(source: str, target: str, language: str) -> bool:
    """Whether both sides have a figure, or a number in words, that can be exchanged."""
    return bool(_shared_figures(source, target) or _shared_number(source, target, language))


def is_short(source: str) -> bool:
    """Whether a source has no more than two words."""
    return len(source.split()) <= 2


def vary(source: str, target: str, language: str, config: AugmentConfig, rng: random.Random) -> tuple[str, str]:
    """Return a pair written otherwise, or as it is."""
    if rng.random() < config.names:
        source, target = _exchange_names(source, target, rng)
    if rng.random() < config.figures:
        source, target = _exchange_figures(source, target, language, rng)
    if rng.random() < config.marks:
        before, after = rng.choice(_MARKS)
        source, target = f"{before}{source}{after}", f"{before}{target}{after}"
    if rng.random() < config.titles:
        source = _WORD.sub(lambda word: word.group()[0].upper() + word.group()[1:], source)
    if rng.random() < config.apostrophes:
        source = source.replace("'", "")
    if rng.random() < config.typos:
        source = _slip(source, rng)
    return source, target


def invent_figure(rng: random.Random) -> str:
    """Return a figure of 2 to 7 digits, or with a decimal, a separator of thousands or of time."""
    kind = rng.random()
    if kind < 0.7:
        digits = rng.choices((1, 2, 3, 4, 5, 6, 7), (5, 25, 30, 25, 8, 4, 3))[0]
        return str(rng.randrange(max(10 ** (digits - 1), 2), 10**digits))
    if kind < 0.85:
        return f"{rng.randrange(0, 1000)}.{rng.randrange(1, 100):02d}".removesuffix("0")
    if kind < 0.92:
        return f"{rng.randrange(1, 1000)},{rng.randrange(1000):03d}"
    return f"{rng.randrange(24)}:{rng.randrange(60):02d}"


def invent_name(kind: str, rng: random.Random) -> str:
    """Return a name of a list, or one of syllables that no list has; kind is "f" or "m"."""
    if rng.random() < 0.5:
        return rng.choice(FEMALE if kind == "f" else MALE)
    syllables = [rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(rng.choice((1, 2, 2, 3)))]
    ending = "a" if kind == "f" else rng.choice(_CODAS)
    return ("".join(syllables) + ending).capitalize()


def _exchange_names(source: str, target: str, rng: random.Random) -> tuple[str, str]:
    ours = [word for word in dict.fromkeys(_WORD.findall(source)) if word in COMMON]
    for name in ours:
        whole = re.compile(rf"(?<!\w){name}(?!\w)")
        if len(whole.findall(source)) != len(whole.findall(target)):
            return source, target
    for name in ours:
        whole = re.compile(rf"(?<!\w){name}(?!\w)")
        other = invent_name(COMMON[name], rng)
        source, target = whole.sub(other, source), whole.sub(other, target)
    return source, target


def _exchange_figures(source: str, target: str, language: str, rng: random.Random) -> tuple[str, str]:
    shared = _shared_figures(source, target)
    if shared:
        for figure in shared:
            new = invent_figure(rng)
            source, target = _put(source, figure, new), _put(target, figure, new)
        return source, target
    number = _shared_number(source, target, language)
    if number is not None:
        new = invent_figure(rng)
        ours, theirs = number
        source = re.sub(rf"\b{ours}\b", new, source, count=1, flags=re.IGNORECASE)
        target = re.sub(rf"\b{theirs}\b", new, target, count=1, flags=re.IGNORECASE)
    return source, target


def _put(text: str, figure: str, new: str) -> str:
    return _FIGURE.sub(lambda found: new if found.group() == figure else found.group(), text)


def _shared_figures(source: str, target: str) -> list[str]:
    """Return the figures of a source if its target has the very same ones; 1 is singular, which others are not."""
    ours, theirs = _FIGURE.findall(source), _FIGURE.findall(target)
    return list(dict.fromkeys(ours)) if ours and sorted(ours) == sorted(theirs) and "1" not in ours else []


def _shared_number(source: str, target: str, language: str) -> tuple[str, str] | None:
    ours, theirs = source.lower().split(), re.findall(r"\w+", target.lower())
    words = [re.sub(r"\W", "", word) for word in ours]
    for english, other in zip(_NUMBERS["en"], _NUMBERS.get(language, []), strict=False):
        if words.count(english) == 1 and theirs.count(other) == 1:
            return english, other
    return None


def _slip(source: str, rng: random.Random) -> str:
    long = [found for found in _WORD.finditer(source) if len(found.group()) > 3 and found.group().islower()]
    if not long:
        return source
    found = rng.choice(long)
    place = found.start() + rng.randrange(1, len(found.group()) - 1)
    swapped = source[place + 1] + source[place]
    kept = swapped if rng.random() < 0.6 else source[place]
    return source[:place] + kept + source[place + 2 :]


def pools(pairs: Sequence[tuple[str, str, str]], places: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return which of some places of pairs have figures, and which are short."""
    figures = [place for place in places if has_figure(*pairs[place])]
    return figures, [place for place in places if is_short(pairs[place][0])]
