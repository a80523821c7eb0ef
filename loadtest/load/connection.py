"""Sends serialised requests over gRPC without waiting for their answers.

It does not know when to send, nor what an answer means. Make a connection only after the last fork of the process.
"""

from collections.abc import Callable
from typing import Any

import grpc

from regard.loadtest.load.corpus import CAPTION, TRANSLATE, Payload
from regard.loadtest.load.load import Ended
from regard.loadtest.load.recorder import OK

CONNECT_SECONDS = 10.0
NO_STATUS = "UNKNOWN"


class UnreachableError(Exception):
    """No server answers at the address."""


class Connection:
    """Some channels to one server, each with a TCP connection of its own.

    Raises UnreachableError if nobody answers within `patience` seconds.
    """

    def __init__(self, address: str, channels: int, *, patience: float = CONNECT_SECONDS) -> None:
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ]
        self._channels = [grpc.insecure_channel(address, options) for _ in range(channels)]
        # Payloads are serialised beforehand and answers are read after the clock has been stopped.
        self._calls: list[dict[str, Any]] = [
            {method: channel.unary_unary(method, None, None) for method in (TRANSLATE, CAPTION)}
            for channel in self._channels
        ]
        try:
            for channel in self._channels:
                grpc.channel_ready_future(channel).result(timeout=patience)
        except grpc.FutureTimeoutError as problem:
            self.close()
            raise UnreachableError(f"no gRPC server answers at {address} within {patience:g} s") from problem

    def send(self, number: int, payload: Payload, seconds: float) -> "PendingCall":
        """Send the request with that number, which may take so many seconds."""
        call = self._calls[number % len(self._calls)][payload.method]
        return PendingCall(call.future(payload.body, timeout=seconds))

    def close(self) -> None:
        """Close all channels."""
        for channel in self._channels:
            channel.close()


class PendingCall:
    """A call on its way."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def add_done_callback(self, callback: Callable[[Ended], None]) -> None:
        """Have the outcome handed over."""

        def on_done(future: Any) -> None:
            code = future.code().name if future.code() is not None else NO_STATUS
            callback(Ended(code, future.details() or "", future.result() if code == OK else b""))

        self._future.add_done_callback(on_done)

    def cancel(self) -> bool:
        """Give the call up."""
        return bool(self._future.cancel())
