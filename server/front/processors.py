"""Counts the processors that this process may use, which in a container may be fewer than the host has."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def available_processors(*, root: Path = Path("/")) -> int:
    """Return the smaller of the affinity mask and the CPU quota of the control group, rounded down; at least 1.

    Args:
        root: where `proc` and `sys` are mounted.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = min(_quotas(root), default=math.inf)
    return max(1, min(affinity, affinity if math.isinf(quota) else math.floor(quota)))


def _quotas(root: Path) -> Iterator[float]:
    """Processors allowed by the control group of this process and by those above it (version 2, then version 1)."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0":
            for folder in _upwards(mount, path):
                quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
                yield from _ratio(quota, period)
        elif "cpu" in controllers.split(","):
            for folder in _upwards(mount / "cpu", path):
                yield from _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """A group's folder and those above it; inside a container only the mount itself may exist."""
    folder = mount / path.lstrip("/")
    yield folder
    while folder != mount and folder != folder.parent:
        folder = folder.parent
        yield folder


def _ratio(quota: str, period: str) -> Iterator[float]:
    """Nothing for `max`, -1 and files that are not there."""
    try:
        processors = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return
    if processors > 0:
        yield processors


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
