"""Records made by hand for tests of what is worked out from them."""

from collections.abc import Sequence

from regard.loadtest.load.gauges import Health
from regard.loadtest.load.recorder import OK, Record
from regard.loadtest.report.analysis import Table, table

SECOND = 1_000_000_000


def record(
    number: int,
    due: float,
    *,
    latency: float = 0.01,
    lag: float = 0.0,
    code: str = OK,
    payload: int = 0,
    digest: str = "d",
    traffic: str = "any",
) -> Record:
    """A request, all times in seconds."""
    return Record(
        worker=0,
        number=number,
        traffic=traffic,
        payload=payload,
        due_ns=round(due * SECOND),
        sent_ns=round((due + lag) * SECOND),
        end_ns=round((due + latency) * SECOND),
        code=code,
        digest=digest,
        target_tokens=5,
        queue_seconds=0.001,
        encode_seconds=0.002,
        decode_seconds=0.003,
        steps=5,
        batch_rows=2.0,
        reply_bytes=100,
    )


def rows_of(*records: Record) -> Table:
    return table(records)


def health(sent: int, *, in_flight_ns: int = 0, processor_share: float = 0.1) -> Health:
    return Health(
        worker=0,
        processor_share=processor_share,
        loop_lag_p50_ms=0.1,
        loop_lag_p99_ms=0.5,
        loop_lag_max_ms=1.0,
        collection_ms=0.0,
        resident_mib=60.0,
        thread_pool=256,
        sent=sent,
        in_flight_ns=in_flight_ns,
        examples={},
        series=((0.5, 0.1, 0.2), (1.0, 0.1, 0.3)),
    )


def steady(due_seconds: Sequence[float], *, latency: float = 0.01) -> list[Record]:
    return [record(number, due, latency=latency) for number, due in enumerate(due_seconds)]
