"""The Prometheus metrics of the server.

Labels hold methods, names of models that this server has, status codes and providers only, never what a caller sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from socketserver import StreamRequestHandler
from typing import cast
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from regard.server.errors import SettingsError
from regard.server.settings import split_address

_SILENCE_SECONDS = 5.0

_LATENCY = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_STEP = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SHARE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Metrics:
    """The metrics of one server, in their own registry. Thread-safe. Meets `regard.server.observer.EngineObserver`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "Calls answered.", "method", "model", "code")
        self._request_seconds = self._histogram(
            "request_seconds", "From the first byte handled to the reply.", _LATENCY, "method", "model"
        )
        self._queue_seconds = self._histogram("queue_seconds", "Time that a segment waited for a row.", _LATENCY)
        self._first_token_seconds = self._histogram(
            "time_to_first_token_seconds", "From the arrival of a segment to its first decode step done.", _LATENCY
        )
        self._inter_token_seconds = self._histogram(
            "inter_token_seconds", "Mean time between the tokens of a segment.", _STEP
        )
        self._step_seconds = self._histogram("step_seconds", "One decode step.", _STEP)
        self._step_rows = self._histogram("step_rows", "Rows in a decode step.", _ROWS)
        self._padding_ratio = self._histogram("padding_ratio", "Share of source positions that are padding.", _SHARE)
        self._tokens = self._counter("tokens", "Tokens read (source) and written (target).", "kind")
        self._running = self._gauge("running_requests", "Segments being decoded.")
        self._waiting = self._gauge("waiting_requests", "Segments waiting for a row.")
        self._loop_lag = self._gauge("event_loop_lag_seconds", "How late the event loop last woke up.")
        self._provider = self._gauge("provider_info", "Execution provider that the graphs run on.", "provider")

    def call(self, *, method: str, model: str, code: str, seconds: float) -> None:
        """Record a finished call. `model` is the name of a model of this server, or empty."""
        self._requests.labels(method, model, code).inc()
        self._request_seconds.labels(method, model).observe(seconds)

    def segment(self, *, first_token_seconds: float, inter_token_seconds: float) -> None:
        """Record the times of a decoded segment."""
        self._first_token_seconds.observe(first_token_seconds)
        self._inter_token_seconds.observe(inter_token_seconds)

    def loop_lag(self, seconds: float) -> None:
        """Record how late the event loop woke up."""
        self._loop_lag.set(seconds)

    def providers(self, names: Iterable[str]) -> None:
        """Record which execution providers run the graphs."""
        for name in names:
            self._provider.labels(name).set(1)

    def step(self, seconds: float, rows: int, padding_ratio: float) -> None:
        """Record a decode step."""
        self._step_seconds.observe(seconds)
        self._step_rows.observe(rows)
        self._padding_ratio.observe(padding_ratio)

    def queued(self, seconds: float) -> None:
        """Record how long a segment waited in the queue."""
        self._queue_seconds.observe(seconds)

    def tokens(self, kind: str, count: int) -> None:
        """Count tokens read (`source`) or written (`target`)."""
        self._tokens.labels(kind).inc(count)

    def running(self, count: int) -> None:
        """Record how many segments are being decoded."""
        self._running.set(count)

    def waiting(self, count: int) -> None:
        """Record how many segments are waiting."""
        self._waiting.set(count)

    def log_lines_dropped(self, count: Callable[[], float]) -> None:
        """Show how many log lines were dropped because nobody read them, as `count` says whenever it is asked."""
        self._gauge("log_lines_dropped", "Log lines dropped because nobody read them.").set_function(count)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"regard_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"regard_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"regard_{name}", text, labels, registry=self.registry, buckets=buckets)


def serve_metrics(metrics: Metrics, address: str) -> tuple[int, Callable[[], None]]:
    """Serve the metrics page in a thread.

    Returns:
        the port, and a function that stops the thread.

    Raises:
        SettingsError: the address is not available; the message names the flag.
    """
    host, port = split_address("metrics_address", address)
    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        raise SettingsError(
            f"--metrics-address: cannot listen on {address}: {error.strerror or error}; "
            "choose another address, or 'off'"
        ) from error
    assert isinstance(server, WSGIServer)
    # A connection that says nothing would otherwise keep a thread for ever.
    handler = cast("type[StreamRequestHandler]", server.RequestHandlerClass)
    server.RequestHandlerClass = type("Handler", (handler,), {"timeout": _SILENCE_SECONDS})

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop
