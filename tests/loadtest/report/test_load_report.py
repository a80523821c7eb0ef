"""The report stands by itself, whatever was measured, and shows texts of others as text."""

import re

import pytest
from tests.loadtest.records import health, record, rows_of, steady

from regard.loadtest.load.plan import Plan
from regard.loadtest.load.recorder import CENSORED, OK, Record
from regard.loadtest.load.traffic import TrafficClass
from regard.loadtest.report.html_report import render
from regard.loadtest.report.summary import summarise

EVIL = "<script>alert(1)</script>"


def page_of(plan: Plan, records: list[Record], **environment: object) -> str:
    rows = rows_of(*records)
    healths = [health(len(records))]
    summary = summarise(plan, rows, healths, {"what": "1 call in flight", "p50_ms": 0.7})
    return render(plan=plan, rows=rows, healths=healths, summary=summary, environment=dict(environment))


@pytest.fixture(scope="module")
def page() -> str:
    plan = Plan(address="h:1", rate=50, warmup=0.5, duration=2.5)
    return page_of(plan, steady([i / 50 for i in range(150)]), command=EVIL, processor=EVIL)


def test_the_page_needs_no_network_and_no_script(page: str) -> None:
    assert "http" not in page
    assert not re.search(r"<(script|link|iframe|img)\b", page)
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)


def test_the_verdict_and_the_sentence_come_first(page: str) -> None:
    assert page.index("INVALID") < page.index("answers/s, 125 of 125") < page.index("<h2>")


def test_all_sections_are_there_with_their_drawings(page: str) -> None:
    for title in ("Latency", "Over time", "In the server", "Requests by class and status", "Can it be believed?"):
        assert f"<h2>{title}</h2>" in page
    assert page.count("<svg") == 4


def test_words_of_others_are_shown_as_text(page: str) -> None:
    assert EVIL not in page
    assert "&lt;script&gt;" in page


def test_every_class_has_its_own_rows_and_is_drawn_apart(page: str) -> None:
    classes = tuple(TrafficClass(name=name, pictures=pictures) for name, pictures in (("texts", 0), ("photos", 1)))
    plan = Plan(address="h:1", rate=50, warmup=0, duration=3, classes=classes)
    records = [
        record(
            i, i / 50, latency=0.01 if i % 2 else 0.3, traffic=classes[i % 2].name, code="INTERNAL" if i == 2 else OK
        )
        for i in range(150)
    ]
    mixed = page_of(plan, records)
    assert re.search(r"<td>photos</td><td>captions</td><td>75</td><td>75</td><td>25\.0</td>", mixed)
    assert re.search(r"<td>texts</td><td>translations</td><td>75</td><td>74</td>", mixed)
    for part in ("from intended", "queue"):
        assert re.search(rf"<td>photos</td><td>{part}</td>", mixed)
    assert mixed.count("<svg") == page.count("<svg")
    assert "p50 of photos" in mixed


@pytest.mark.parametrize(
    ("records", "loop"),
    [
        ([], "open"),
        ([record(0, 1.0)], "closed"),
        ([record(0, 1.0, code=CENSORED)], "open"),
        ([record(i, i / 10, code="UNAVAILABLE") for i in range(30)], "closed"),
        ([record(i, 1.0, latency=0.0) for i in range(30)], "open"),
    ],
    ids=["none", "one", "one unanswered", "failures only", "no time at all"],
)
def test_odd_runs_have_a_report_too(records: list[Record], loop: str) -> None:
    assert "</html>" in page_of(Plan(address="h:1", loop=loop, rate=10, warmup=0, duration=3), records)
