"""Watches the process that makes the load: loop lag, processor time, garbage collections; and tells its progress.

It does not know what is sent. Its threads are greenlets where Locust has replaced `threading`.
"""

import gc
import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, Thread

from regard.loadtest.load.gauges import Gauges, Sample
from regard.loadtest.load.load import Load

PROBE_SECONDS = 0.01
SAMPLE_SECONDS = 0.5


@contextmanager
def watched(load: Load, gauges: Gauges, *, status: bool) -> Generator[None]:
    """Feed the gauges as long as the block runs. `status` writes a JSON line to stdout at every sample."""
    over = Event()
    collecting_since = [0]

    def probe_loop() -> None:
        while not over.is_set():
            before = time.monotonic_ns()
            time.sleep(PROBE_SECONDS)
            lag = time.monotonic_ns() - before - round(PROBE_SECONDS * 1e9)
            gauges.loop_lag(at_ns=load.now(), lag_ns=max(lag, 0))

    def sample_process() -> None:
        while not over.is_set():
            recorder, now = load.recorder, load.now()
            gauges.sample(Sample(now, time.process_time_ns()))
            if status:
                counts = {"sent": recorder.sent, "in_flight": recorder.in_flight, "failed": recorder.failed}
                sys.stdout.write(json.dumps({"regard": {"worker": load.worker, "seconds": now / 1e9, **counts}}) + "\n")
                sys.stdout.flush()
            over.wait(SAMPLE_SECONDS)

    def time_collection(phase: str, _: dict[str, int]) -> None:
        now = time.monotonic_ns()
        if phase == "start":
            collecting_since[0] = now
        else:
            gauges.collection(now - collecting_since[0])

    # What exists by now lives to the end: leave it out of every later collection.
    gc.collect()
    gc.freeze()
    gc.callbacks.append(time_collection)
    threads = [Thread(target=target, daemon=True) for target in (probe_loop, sample_process)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        gc.callbacks.remove(time_collection)
        gc.unfreeze()
        for thread in threads:
            thread.join(timeout=2)
