"""Says what a profile's parity record lacks, for the exporter that writes it and for the server that trusts it alike.

It does not compare graphs with models: `regard.export.parity.comparison` does, and `regard verify` again.
"""

from __future__ import annotations

from collections.abc import Collection

from regard.v1 import bundle_pb2

# What a record may allow itself: rounding where numbers are floating, and a log-probability that still means something
# where they are bytes.
_LARGEST_TOLERANCE = 0.01
_LARGEST_TOLERANCES = {bundle_pb2.PRECISION_FLOAT16: 0.1, bundle_pb2.PRECISION_INT8: 10.0}


def parity_fault(profile: bundle_pb2.Profile, outputs: Collection[str]) -> str | None:
    """Return what is wrong with the record of a profile whose graphs have these outputs, None where nothing is.

    It must be there, cover every output once and nothing else, and stay within its own tolerance, which is bounded.
    """
    if not profile.HasField("parity"):
        return "parity is missing, so nothing says that its graphs compute what the model does"
    parity = profile.parity
    most = _LARGEST_TOLERANCES.get(profile.precision, _LARGEST_TOLERANCE)
    # NaN fails this comparison, so it is refused too.
    if not 0 < parity.tolerance <= most:
        return f"parity.tolerance is {parity.tolerance}, expected a positive number up to {most:g}"
    for name, tried in (
        ("batches", parity.batches),
        ("source_lengths", parity.source_lengths),
        ("steps", (parity.steps,)),
    ):
        if not tried or min(tried) < 1:
            return f"parity.{name} is {list(tried)}, expected positive numbers"
    if not 0 <= parity.greedy_agreement <= 1:
        return f"parity.greedy_agreement is {parity.greedy_agreement}, expected 0 to 1"
    compared = [entry.port for entry in parity.ports]
    for name in sorted(set(outputs) - set(compared)):
        return f"parity does not cover the port {name!r}"
    for entry in parity.ports:
        if entry.port not in outputs or compared.count(entry.port) > 1:
            return f"parity covers {entry.port[:80]!r}, which is no port, or is there twice"
        if not 0 <= entry.worst_absolute <= parity.tolerance:
            return (
                f"parity says that the port {entry.port!r} is off by {entry.worst_absolute:.3g}, and "
                f"{parity.tolerance:.3g} is allowed"
            )
    return None
