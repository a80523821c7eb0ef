"""The report stands by itself, whatever was measured, and shows texts of others as text."""

import re

import pytest

from loadtest.plan import Plan
from loadtest.recorder import CENSORED, Record
from loadtest.report import render
from loadtest.summary import summarise
from tests.loadtest.records import health, record, rows_of, steady

SOME = steady([i / 50 for i in range(150)])


def page(plan: Plan, records: list[Record], **environment: object) -> str:
    rows = rows_of(*records)
    healths = [health(len(records))]
    summary = summarise(plan, rows, healths, {"what": "1 call in flight", "p50_ms": 0.7})
    return render(plan=plan, rows=rows, healths=healths, summary=summary, environment=dict(environment))


def test_the_page_needs_no_network_and_no_script() -> None:
    html = page(Plan(address="h:1", rate=50, warmup=0.5, duration=2.5), SOME)
    assert "http" not in html
    assert not re.search(r"<(script|link|iframe|img)\b", html)
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", html)


def test_the_verdict_and_the_sentence_come_first() -> None:
    plan = Plan(address="h:1", rate=50, warmup=0, duration=3)
    html = page(plan, SOME)
    assert html.index("INVALID") < html.index("answers/s, 150 of 150") < html.index("<h2>")


def test_all_sections_are_there_with_their_drawings() -> None:
    html = page(Plan(address="h:1", rate=50, warmup=0.5, duration=2.5), SOME)
    for title in ("Latency", "Over time", "In the server", "Requests by class and status", "Can it be believed?"):
        assert f"<h2>{title}</h2>" in html
    assert html.count("<svg") == 4


def test_words_of_the_server_and_the_command_are_shown_as_text() -> None:
    evil = "<script>alert(1)</script>"
    plan = Plan(address="h:1", rate=50, warmup=0, duration=3)
    html = page(plan, SOME, command=evil, processor=evil, models=[])
    assert evil not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("loop", ["open", "closed"])
@pytest.mark.parametrize(
    "records",
    [
        [],
        [record(0, 1.0)],
        [record(0, 1.0, code=CENSORED)],
        [record(i, i / 10, code="UNAVAILABLE") for i in range(30)],
        [record(i, 1.0, latency=0.0) for i in range(30)],
    ],
    ids=["none", "one", "one unanswered", "failures only", "no time at all"],
)
def test_odd_runs_have_a_report_too(records: list[Record], loop: str) -> None:
    assert "</html>" in page(Plan(address="h:1", loop=loop, rate=10, warmup=0, duration=3), records)
