"""How all tests run: an example of a property may take as long as a busy machine needs for it."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# Commands are started beside running servers; gRPC would write that it does not follow the fork to their stderr.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
