"""Checks that a profile was compared with its model, and that what was found is within what was allowed.

It does not compare anything itself: `regard verify` does.
"""

from __future__ import annotations

from regard.v1 import bundle_pb2
from server.errors import BundleError
from server.ports import GraphSpec

# What a record may allow itself: rounding where numbers are floating, and a log-probability that still means something
# where they are bytes.
LARGEST_TOLERANCE = 0.01
LARGEST_TOLERANCES = {bundle_pb2.PRECISION_FLOAT16: 0.1, bundle_pb2.PRECISION_INT8: 10.0}


def check_parity(profile: bundle_pb2.Profile, encode: GraphSpec, step: GraphSpec, *, where: str) -> None:
    """Check the parity record of a profile.

    Args:
        profile: of the manifest.
        encode, step: its graphs.
        where: the profile in messages, for example `profile 'cpu'`.

    Raises:
        BundleError: there is no record, it does not cover a port or covers one that is not there, or a difference is
            larger than the tolerance.
    """
    if not profile.HasField("parity"):
        raise BundleError(f"{where}: parity is missing, so nothing says that its graphs compute what the model does")
    parity = profile.parity
    most = LARGEST_TOLERANCES.get(profile.precision, LARGEST_TOLERANCE)
    # Written so that what is no number is refused.
    if not 0 < parity.tolerance <= most:
        raise BundleError(f"{where}: parity.tolerance is {parity.tolerance}, expected a positive number up to {most:g}")
    for name, tried in (
        ("batches", parity.batches),
        ("source_lengths", parity.source_lengths),
        ("steps", (parity.steps,)),
    ):
        if not tried or min(tried) < 1:
            raise BundleError(f"{where}: parity.{name} is {list(tried)}, expected positive numbers")
    if not 0 <= parity.greedy_agreement <= 1:
        raise BundleError(f"{where}: parity.greedy_agreement is {parity.greedy_agreement}, expected 0 to 1")
    ports = {port.name for port in (*encode.outputs, *step.outputs)}
    compared = [entry.port for entry in parity.ports]
    for name in sorted(ports - set(compared)):
        raise BundleError(f"{where}: parity does not cover the port {name!r}")
    for entry in parity.ports:
        if entry.port not in ports or compared.count(entry.port) > 1:
            raise BundleError(f"{where}: parity covers {entry.port[:80]!r}, which is no port, or is there twice")
        if not 0 <= entry.worst_absolute <= parity.tolerance:
            raise BundleError(
                f"{where}: parity says that the port {entry.port!r} is off by {entry.worst_absolute:.3g}, and "
                f"{parity.tolerance:.3g} is allowed"
            )
