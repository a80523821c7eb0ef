"""Has a server translate behaviour cases, and counts how many keep what they test, by kind and language.

It does not know what the cases are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.client import Client
from regard.loadtest.accuracy.behaviour_cases import Case, write_cases
from regard.loadtest.accuracy.translation_quality import Search, translate_all
from regard.loadtest.base.text_table import text_table

LANGUAGES = ("es", "fr", "de")
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many cases of a kind were kept in a language.

    Attributes:
        kept, cases: how many of how many.
        lost: sources and answers of some that were not kept.
    """

    kept: int
    cases: int
    lost: tuple[tuple[str, str], ...]

    @property
    def percent(self) -> float:
        """The share, from 0 to 100."""
        return 100 * self.kept / self.cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What was measured.

    Attributes:
        model: who answered.
        search: how.
        shares: by kind, then by language.
        failures: texts without an answer, with the reason; they count as not kept.
    """

    model: str
    search: str
    shares: Mapping[str, Mapping[str, Share]]
    failures: tuple[str, ...]


def measure_behaviour(client: Client, search: Search, *, count: int, seed: int) -> Behaviour:
    """Translate up to count cases of each kind. Raises RegardCallError where a whole call fails, ValueError for a
    language without cases.
    """
    shares: dict[str, dict[str, Share]] = {}
    failures: list[str] = []
    model = ""
    for language in (search.target_language,) if search.target_language else LANGUAGES:
        cases = write_cases(language, count=count, seed=seed)
        sources = dict.fromkeys(text for case in cases for text in (case.source, case.beside) if text)
        found = translate_all(client, replace(search, target_language=language), tuple(sources))
        failures += found.failures
        model = model or found.model
        for kind, share in judge(cases, found.texts).items():
            shares.setdefault(kind, {})[language] = share
    return Behaviour(model=model, search=search.told, shares=shares, failures=tuple(failures))


def judge(cases: Sequence[Case], answers: Mapping[str, str]) -> dict[str, Share]:
    """Return the share of each kind, in order of first sight, given the answer to every source."""
    kinds: dict[str, list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.kind, []).append(case)
    shares: dict[str, Share] = {}
    for kind, of_kind in kinds.items():
        lost = [(case.source, answers[case.source]) for case in of_kind if not case.kept(answers)]
        shares[kind] = Share(kept=len(of_kind) - len(lost), cases=len(of_kind), lost=tuple(lost[:_SHOWN]))
    return shares


def behaviour_text(found: Behaviour) -> str:
    """The shares as a table."""
    languages = list(dict.fromkeys(language for shares in found.shares.values() for language in shares))
    rows = [
        (
            kind,
            str(next(iter(shares.values())).cases),
            *(f"{shares[language].percent:.0f}" if language in shares else "-" for language in languages),
        )
        for kind, shares in found.shares.items()
    ]
    header = ("kept, percent", "cases", *languages)
    return f"{found.model or 'no model answered'}, {found.search}\n" + text_table(header, rows)


def behaviour_json(found: Behaviour) -> dict[str, Any]:
    """The shares by kind and language, with some of the answers that did not keep what was tested."""
    return {
        "behaviour": {
            kind: {
                language: {
                    "percent": round(share.percent, 2),
                    "cases": share.cases,
                    "lost": [{"source": source, "answer": answer} for source, answer in share.lost],
                }
                for language, share in shares.items()
            }
            for kind, shares in found.shares.items()
        },
        "model": found.model,
        "search": found.search,
        "failures": list(found.failures),
    }
