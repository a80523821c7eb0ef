"""Talks with a process that takes commands as lines of JSON and answers each by a line.

It does not know the commands.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from regard.loadtest.base.processes import child_environment, end_group
from regard.loadtest.base.termination import held_back

_GRACE_SECONDS = 5.0
_TAIL = 2000


class ProcessFault(Exception):
    """A process refused a command or ended; says what it said."""


class LineProcess:
    """A process, from its start until the end of a `with` block.

    Raises ProcessFault if it cannot be started.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            # It ends by itself when we do, since it then reads the end of its commands.
            self._process = subprocess.Popen(  # noqa: S603 - what the caller chose to measure
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=child_environment() if environment is None else environment,
                start_new_session=True,
            )
        except OSError as problem:
            self._log.close()
            raise ProcessFault(f"{name} cannot be started: {command[0]}: {problem.strerror or problem}") from problem

    def ask(self, do: str, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its answer.

        Raises ProcessFault if the answer is an error, or if there is none because the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = b""
        if not line:
            raise ProcessFault(f"{self.name} has ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ProcessFault(f"{self.name}: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with held_back():
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except BrokenPipeError:
                        continue
            try:
                # It ends by itself once there are no more commands.
                self._process.wait(timeout=_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                end_group(self._process)
            self._log.close()

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        said = self._log.read()[-_TAIL:].decode(errors="replace").strip()
        return said or f"exit code {self._process.returncode}, and nothing was said"
