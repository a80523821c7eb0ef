"""Makes the tables of the ladder's page."""

from collections.abc import Sequence

from regard.training.studies.ladder.report import LadderReport, LengthFigure, RungReport
from regard.training.studies.ladder.rungs import PUBLISHED, rung_of


def published_table(report: LadderReport) -> str:
    """Return our BLEU beside that of papers, as these measure it."""
    rows: list[Sequence[str]] = []
    for rung in report.rungs:
        for test in report.test_sets:
            ours = _figure(rung, "bleu_tokenized", test)
            start = (rung_of(rung.recipe).name, test, f"{ours:.2f}")
            papers = [each for each in PUBLISHED if (each.recipe, each.test_set) == (rung.recipe, test)]
            rows += [(*start, f"{each.value:g}", f"{ours - each.value:+.2f}", each.source) for each in papers]
            if not papers:
                rows.append((*start, "", "", ""))
    return _table(("rung", "test set", "ours", "the paper's", "difference", "paper"), rows)


def scores_table(report: LadderReport) -> str:
    """Return BLEU and chrF of every rung on every test set."""
    tests = list(report.test_sets)
    rows = [
        [
            rung_of(rung.recipe).name,
            *(f"{_figure(rung, metric, test):.2f}" for test in tests for metric in ("bleu", "chrf")),
        ]
        for rung in report.rungs
    ]
    return _table(("rung", *(f"{metric}, {test}" for test in tests for metric in ("BLEU", "chrF"))), rows)


def length_table(report: LadderReport) -> str:
    """Return BLEU by length of the source."""
    return _lengths(report.rungs, "words", [rung.by_length for rung in report.rungs])


def parts_table(report: LadderReport) -> str:
    """Return BLEU of the same text by how many sentences are read at once."""
    return _lengths(report.rungs, "sentences at once", [rung.by_parts for rung in report.rungs])


def cost_table(report: LadderReport) -> str:
    """Return what each rung costs, and its figures once more."""
    first = next(iter(report.test_sets))
    rows: list[Sequence[str]] = []
    for rung in report.rungs:
        error = "-" if rung.alignment_error is None else f"{rung.alignment_error:.1f}"
        rows.append(
            (
                rung_of(rung.recipe).name,
                f"{rung.parameters / 1e6:.2f} M",
                f"{rung.pace.side_by_side:,}",
                _or_dash(rung.pace.logged),
                f"{rung.epochs} ({rung.best_epoch})",
                _or_dash(rung.pace.minutes),
                f"{_figure(rung, 'bleu', first):.2f}",
                f"{_figure(rung, 'chrf', first):.2f}",
                error,
            )
        )
    paces = ("tokens/s of processor time", "tokens/s, its log")
    return _table(("rung", "parameters", *paces, "epochs (best)", "minutes", "BLEU", "chrF", "AER"), rows)


def _lengths(rungs: Sequence[RungReport], what: str, found: Sequence[Sequence[LengthFigure]]) -> str:
    rows: list[Sequence[str]] = []
    for place, one in enumerate(found[0]):
        estimates = [of[place].bleu for of in found]
        cells = [f"{each.value:.1f} ({each.low:.1f} to {each.high:.1f})" for each in estimates]
        rows.append((one.label.replace("-", " to "), f"{one.words:.0f}", str(one.sources), str(one.joined), *cells))
    names = [rung_of(rung.recipe).name for rung in rungs]
    return _table((what, "mean words", "sources", "joined", *names), rows)


def _figure(rung: RungReport, metric: str, test: str) -> float:
    return next(figure.value for figure in rung.figures if (figure.metric, figure.test_set) == (metric, test))


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
