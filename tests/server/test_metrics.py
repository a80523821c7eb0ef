"""Which metrics there are and what their labels hold."""

from __future__ import annotations

import re
import socket
import urllib.request

import pytest
from prometheus_client import generate_latest
from tests.server.serving import PATIENCE

from regard.server.errors import SettingsError
from regard.server.metrics import Metrics, serve_metrics

NAMES = (
    "regard_requests_total",
    "regard_request_seconds",
    "regard_queue_seconds",
    "regard_time_to_first_token_seconds",
    "regard_inter_token_seconds",
    "regard_step_seconds",
    "regard_step_rows",
    "regard_running_requests",
    "regard_waiting_requests",
    "regard_tokens_total",
    "regard_padding_ratio",
    "regard_provider_info",
)


def filled() -> Metrics:
    metrics = Metrics()
    metrics.call(method="regard.v1.TranslationService/Translate", model="toy", code="OK", seconds=0.2)
    metrics.segment(first_token_seconds=0.1, inter_token_seconds=0.01)
    metrics.step(0.003, 12, 0.25)
    metrics.queued(0.02)
    metrics.tokens("source", 7)
    metrics.running(3)
    metrics.waiting(4)
    metrics.providers(["CPUExecutionProvider"])
    return metrics


def test_every_promised_metric_is_there() -> None:
    page = generate_latest(filled().registry).decode()
    families = set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
    assert set(NAMES) <= families


def test_values_arrive_under_their_labels() -> None:
    value = filled().registry.get_sample_value
    labels = {"method": "regard.v1.TranslationService/Translate", "model": "toy", "code": "OK"}
    assert value("regard_requests_total", labels) == 1
    assert value("regard_step_rows_sum") == 12
    assert value("regard_padding_ratio_sum") == 0.25
    assert value("regard_tokens_total", {"kind": "source"}) == 7
    assert value("regard_running_requests") == 3
    assert value("regard_waiting_requests") == 4
    assert value("regard_provider_info", {"provider": "CPUExecutionProvider"}) == 1


def test_two_servers_in_a_process_do_not_share_metrics() -> None:
    filled()
    assert Metrics().registry.get_sample_value("regard_step_rows_sum") == 0


def test_the_page_is_served_and_a_second_one_on_its_port_is_refused() -> None:
    port, stop = serve_metrics(filled(), "127.0.0.1:0")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            assert b"regard_step_seconds" in page.read()
        with pytest.raises(SettingsError, match=f"--metrics-address: cannot listen on 127.0.0.1:{port}"):
            serve_metrics(Metrics(), f"127.0.0.1:{port}")
    finally:
        stop()


def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.server.metrics._SILENCE_SECONDS", 0.1)
    port, stop = serve_metrics(Metrics(), "127.0.0.1:0")
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as silent:
        assert silent.recv(1) == b""
    stop()
