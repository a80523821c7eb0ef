"""Says with what the ladder was measured: machine, versions, date.

It does not know what was measured, and names neither host nor user.
"""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

_PACKAGES = ("torch", "tokenizers", "sacrebleu", "sacremoses")


def setting() -> Mapping[str, str]:
    """Return date, machine and versions as words."""
    threads = torch.get_num_threads()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{_processor()}, {os.cpu_count()} processors, of which {threads} used",
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in _PACKAGES)]
        ),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
