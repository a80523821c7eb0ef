"""Asks grpc.health.v1 whether a server is ready, without the package that a server needs for it.

The two messages are so small that their bytes are written here; knows nothing else of gRPC.
"""

CHECK_METHOD = "/grpc.health.v1.Health/Check"

# HealthCheckRequest with its only field, the service, empty: the server as a whole.
WHOLE_SERVER = b""

# Between one question and the next while a server starts.
POLL_SECONDS = 0.05

# HealthCheckResponse: field 1, a number, and ServingStatus.SERVING.
_SERVING = b"\x08\x01"


def is_serving(response: bytes) -> bool:
    """Return whether the bytes of a HealthCheckResponse say SERVING."""
    return response == _SERVING


def as_is(message: bytes) -> bytes:
    """Serialise bytes that are serialised already."""
    return message
