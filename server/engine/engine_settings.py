"""Bounds how much work the engine takes at once."""

from __future__ import annotations

from dataclasses import dataclass

from regard.server.errors import SettingsError

# Widest sources of which a pool has as many rows as a worker: more rows of wider ones cost memory and gain no time.
_FULL_WIDTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Bounds of the engine.

    Attributes:
        workers: threads that decode; one a core.
        rows: most rows of one worker, all its pools together.
        widest_beam: most hypotheses of one search.
        queue_limit: most segments that wait.
        encode_cells: most rows times source width that a worker encodes between two steps, so that running rows are not
            kept waiting; one segment is encoded however wide it is, and four times as many where no row is running.
        widths: to which sources are padded, ascending. A longer source, if a model allows it, is padded to a multiple
            of 16.
        stall_seconds: a worker that spends longer on one step or encoding is considered dead.

    Raises:
        SettingsError: names the value.
    """

    workers: int = 1
    rows: int = 64
    widest_beam: int = 16
    queue_limit: int = 2048
    encode_cells: int = 256
    widths: tuple[int, ...] = (16, 32, 48, 64, 96, 128, 192, 256)
    stall_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("workers", "rows", "widest_beam", "queue_limit", "encode_cells"):
            value: int = getattr(self, name)
            if value < 1:
                raise SettingsError(f"{name} is {value}, but must be at least 1")
        if self.rows < self.widest_beam:
            raise SettingsError(f"rows is {self.rows}, but must hold the widest beam of {self.widest_beam}")
        if not self.widths or self.widths[0] < 1 or sorted(set(self.widths)) != list(self.widths):
            raise SettingsError(f"widths is {self.widths}, but must be positive and ascending")
        if not self.stall_seconds > 0:
            raise SettingsError(f"stall_seconds is {self.stall_seconds}, but must be positive")

    def pool_rows(self, width: int) -> int:
        """Return the rows of a pool of a source width: fewer where sources are long, which bounds its memory."""
        return max(self.widest_beam, self.rows * _FULL_WIDTH // max(width, _FULL_WIDTH))

    def width(self, source_length: int) -> int:
        """Return the width that a source is padded to."""
        return next((width for width in self.widths if width >= source_length), -(-source_length // 16) * 16)
