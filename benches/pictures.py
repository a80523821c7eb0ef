"""How much memory a server takes when a hundred callers send a photograph of twelve megapixels at once.

Run as `python -m regard.benches.pictures`. Every call must be answered, with a caption or with RESOURCE_EXHAUSTED.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import io
import multiprocessing
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import numpy as np
from PIL import Image

from regard.server.front.application import running_server
from regard.server.settings import ServerSettings
from regard.v1 import captioning_pb2, captioning_pb2_grpc

MODELS = Path(__file__).resolve().parents[1] / "models"
WIDTH, HEIGHT = 4000, 3000
MOST_MEBIBYTES = 1536


def photograph(*, width: int, height: int, noise: int, progressive: bool) -> bytes:
    """A JPEG file as large as those of cameras: areas of colour, with noise of so many levels."""
    pixels = np.full((height, width, 3), (220, 40, 40), dtype=np.int16)
    pixels[: height // 2, width // 2 :] = (40, 180, 60)
    pixels[height // 2 :, : width // 2] = (40, 70, 220)
    pixels += np.random.default_rng(0).integers(-noise, noise + 1, pixels.shape, dtype=np.int16)
    stream = io.BytesIO()
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    picture.save(stream, format="JPEG", quality=90, subsampling=2, progressive=progressive)
    return stream.getvalue()


def serve(folder: Path, pipe: Connection) -> None:
    """Serve until told to stop; tells the port first and the peak of memory in MiB last."""

    async def run() -> None:
        settings = ServerSettings(models=(folder,), address="127.0.0.1:0", metrics_address="off", workers=2)
        async with running_server(settings) as front:
            pipe.send(front.port)
            await asyncio.to_thread(pipe.recv)
            pipe.send(peak())

    asyncio.run(run())


def peak() -> float:
    """Most memory that this process has had, MiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not say how much memory a process takes")


async def send(port: int, data: bytes, calls: int) -> collections.Counter[str]:
    """Send it from many callers at once; how their calls ended."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]

    async def one() -> str:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[*options, ("grpc.enable_retries", 0)]) as to:
            try:
                await captioning_pb2_grpc.CaptioningServiceStub(to).Caption(
                    captioning_pb2.CaptionRequest(images=[data]), timeout=120
                )
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return "OK"

    return collections.Counter(await asyncio.gather(*(one() for _ in range(calls))))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; 1 if a call ended otherwise or the memory is too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100, help="at once (default: %(default)s)")
    parser.add_argument("--width", type=int, default=WIDTH, help="pixels (default: %(default)s)")
    parser.add_argument("--height", type=int, default=HEIGHT, help="pixels (default: %(default)s)")
    parser.add_argument("--noise", type=int, default=8, help="levels; 8 makes about 6 MB of a picture")
    parser.add_argument("--progressive", action="store_true")
    parser.add_argument(
        "--models", type=Path, metavar="DIR", default=MODELS, help="serve the captioner in it (the embedded)"
    )
    arguments = parser.parse_args(argv)
    data = photograph(
        width=arguments.width, height=arguments.height, noise=arguments.noise, progressive=arguments.progressive
    )
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(arguments.models, theirs))
    server.start()
    theirs.close()  # so that a server that does not come up ends the wait for its port
    try:
        port = ours.recv()
    except EOFError:
        server.join()
        sys.stderr.write(f"the server ended with {server.exitcode}\n")
        return 1
    began = time.monotonic()
    ended = asyncio.run(send(port, data, arguments.calls))
    seconds = time.monotonic() - began
    ours.send("stop")
    most = ours.recv()
    server.join()
    kind = "progressive" if arguments.progressive else "baseline"
    sys.stdout.write(
        f"{arguments.calls} callers, {arguments.width} x {arguments.height} {kind} JPEG of {len(data) / 1e6:.1f} MB: "
        f"{dict(ended)} in {seconds:.1f} s, peak memory {most:.0f} MiB (at most {MOST_MEBIBYTES})\n"
    )
    return 0 if most < MOST_MEBIBYTES and set(ended) <= {"OK", "RESOURCE_EXHAUSTED"} else 1


if __name__ == "__main__":
    sys.exit(main())
