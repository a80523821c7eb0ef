"""Says where a figure comes from: processor, memory, versions, revision, other load, command, the models of the server.

It does not know what was measured, and names neither host nor user.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import grpc
import psutil

from regard.v1.model_pb2 import ListModelsRequest
from regard.v1.model_pb2_grpc import ModelServiceStub

PACKAGES = ("locust", "gevent", "grpcio", "protobuf", "numpy", "matplotlib", "sacrebleu", "onnxruntime")


def environment(command: Sequence[str]) -> dict[str, Any]:
    """What can be known of this machine and this program, as JSON values."""
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join(command),
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "usable_threads": _usable_threads(),
        "processor_quota": _first_line(Path("/sys/fs/cgroup/cpu.max")),
        "governor": _first_line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_before": [round(load, 2) for load in psutil.getloadavg()],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "revision": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain").splitlines()),
    }


def models_at(address: str) -> list[dict[str, Any]]:
    """The models that a server says it holds; none if it does not say."""
    with grpc.insecure_channel(address) as channel:
        try:
            reply = ModelServiceStub(channel).ListModels(ListModelsRequest(), timeout=5)
        except grpc.RpcError:
            return []
    fields = ("name", "version", "profile", "digest")
    return [{name: getattr(model, name) for name in fields} for model in reply.models]


def command_line() -> list[str]:
    """How this program was called, without the folder that it lies in."""
    name = Path(sys.argv[0]).name
    return [f"python -m {Path(sys.argv[0]).parent.name}" if name == "__main__.py" else name, *sys.argv[1:]]


def _processor() -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _usable_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _git(*arguments: str) -> str:
    program = shutil.which("git")
    if program is None:
        return ""
    here = Path(__file__).parent
    finished = subprocess.run([program, "-C", here, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return finished.stdout.strip() if finished.returncode == 0 else ""


def _first_line(path: Path) -> str:
    return _text(path).partition("\n")[0]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
