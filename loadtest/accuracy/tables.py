"""Shows how well a server translates, aligns, captions and points: as a table for people, or as JSON.

It does not measure anything.
"""

import textwrap
from typing import Any

from regard.loadtest.accuracy.caption_quality import CaptionFigures, CaptionResult
from regard.loadtest.accuracy.pointing import DEFINITION, Pointing, Pointings
from regard.loadtest.accuracy.translation_quality import Result
from regard.loadtest.base.text_table import text_table
from regard.scoring.captions import ORDERS, PAPER

WIDTH = 100
NAMES = {"bleu": "BLEU", "chrf": "chrF", "aer": "AER %"}


def translations_json(result: Result) -> dict[str, Any]:
    """The first figure of each metric by its name, and all with their signatures."""
    first: dict[str, float] = {}
    for figure in result.figures:
        first.setdefault(figure.metric, round(figure.value, 4))
    return {
        **first,
        "figures": [{**figure._asdict(), "value": round(figure.value, 4)} for figure in result.figures],
        "model": result.model,
        "search": result.search,
        "texts_per_second": result.texts_per_second,
        "failures": list(result.failures),
    }


def translations_text(result: Result) -> str:
    """The figures of texts as a table."""
    rows = [(NAMES[f.metric], f"{f.value:.2f}", f.test_set, f.signature) for f in result.figures]
    speed = "" if result.texts_per_second is None else f", {result.texts_per_second:.1f} texts/s"
    return f"{result.model}, {result.search}{speed}\n" + text_table(("", "value", "test set", "signature"), rows)


def captions_json(result: CaptionResult) -> dict[str, Any]:
    """Each metric by its name, all with the paper's figure and the difference to it, and where words pointed."""
    value: dict[str, Any] = {}
    found = result.captions
    if found is not None:
        value |= {score.metric: score.value for score in found.scores}
        value["figures"] = [
            {
                "metric": score.metric,
                "value": score.value,
                "published": score.published if found.published else None,
                "difference": _difference(score.value, score.published) if found.published else None,
                "test_set": found.test_set,
                "signature": score.signature,
            }
            for score in found.scores
        ]
        value["pictures"] = found.pictures
        value["pictures_per_second"] = found.pictures_per_second
    if result.pointing is not None:
        value["pointing"] = _pointing_json(result.pointing)
    return {**value, "model": result.model, "search": result.search, "failures": list(result.failures)}


def captions_text(result: CaptionResult) -> str:
    """The figures of captions and of pointing as tables."""
    text = f"{result.model or 'no model answered'}, {result.search}\n"
    if result.captions is not None:
        text += f"\n{_captions_table(result.captions)}"
    if result.pointing is not None:
        text += f"\n{_pointing_table(result.pointing)}"
    return text + (f"\n{len(result.failures)} pictures got no caption\n" if result.failures else "")


def _captions_table(found: CaptionFigures) -> str:
    scores = {score.metric: score for score in found.scores}
    header = ["", "no brevity penalty", "with brevity penalty"]
    rows: list[list[str]] = []
    for order in ORDERS:
        bare, punished = scores[f"bleu{order}_long"], scores[f"bleu{order}"]
        row = [f"BLEU-{order}", f"{bare.value:.2f}", f"{punished.value:.2f}"]
        if found.published:
            paper = bare.published or 0.0
            row = [
                row[0],
                row[1],
                f"{paper:.1f}",
                f"{bare.value - paper:+.2f}",
                row[2],
                f"{punished.value - paper:+.2f}",
            ]
        rows.append(row)
    if found.published:
        header = ["", header[1], "paper", "difference", header[2], "difference"]
    rows.append(["CIDEr", f"{scores['cider'].value:.2f}", *[""] * (len(header) - 2)])
    few, most = found.references
    each = f"{few}" if few == most else f"{few} to {most}"
    speed = f"{found.pictures_per_second:.1f} pictures/s"
    text = f"{found.test_set}: {found.pictures} pictures, {each} references each, {speed}\n"
    notes = [f"BLEU: {scores['bleu4'].signature.rpartition(', with')[0]}; {scores['cider'].signature}."]
    if found.published:
        notes.append(f"Paper: {PAPER}, BLEU without brevity penalty; it reports no CIDEr on this set.")
    return text + text_table(header, rows) + "".join(f"{_wrapped(note)}\n" for note in notes)


def _pointing_table(found: Pointings) -> str:
    sorts = (("its colour", found.colours), ("a noun for it", found.nouns), ("both together", found.all))
    others = ("other words, same captions", found.others)
    rows = [[name, f"{part.words}", _percent(part.rate), _percent(_chance(part))] for name, part in (*sorts, others)]
    head = (
        f"Pointing: {found.pictures} drawn pictures of one coloured thing, {found.named} of {found.captioned} captions "
        "have a word for it\n"
    )
    table = text_table(("the word is", "words", "peak on the thing", "by chance"), rows)
    return f"{head}{table}{_wrapped(DEFINITION)}\n"


def _pointing_json(found: Pointings) -> dict[str, Any]:
    return {
        "pictures": found.pictures,
        "captions": found.captioned,
        "captions_with_a_word": found.named,
        **_part_json(found.all),
        "colours": _part_json(found.colours),
        "nouns": _part_json(found.nouns),
        "other_words": _part_json(found.others),
        "definition": DEFINITION,
    }


def _part_json(part: Pointing) -> dict[str, Any]:
    return {"words": part.words, "hits": part.hits, "rate": part.rate, "chance": _chance(part)}


def _chance(part: Pointing) -> float | None:
    return part.chance if part.words else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _difference(value: float, published: float | None) -> float | None:
    return None if published is None else round(value - published, 4)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH))
