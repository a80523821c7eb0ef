"""All expected errors of the server, as a tree that tells who has to act.

`regard.server.services.status` maps them to status codes in one table.

    RegardError
    ├── CallerError                 the caller must change the request
    │   ├── InvalidRequest          a value is wrong; names the field, the limit and what was sent
    │   ├── ModelNotFound           no such model or version
    │   │   └── TaskNotServed       no model for what is asked, and none was named
    │   ├── UnsupportedByModel      the value is fine, but this model cannot do it
    │   └── UnknownColours          a picture's colour mode or range is not supported; becomes an InvalidRequest
    ├── CapacityError               the caller may try again later
    │   ├── QueueFull               too much work is waiting
    │   ├── TooManyCalls            too many concurrent calls, or too many bytes held by them
    │   └── NotServing              loading or draining
    ├── AnswerTooLarge              the answer is larger than a call or a message may be
    ├── DeadlinePassed              the caller's deadline has passed
    ├── CallCancelled               the caller went away
    ├── EngineFault                 our fault: a step or an encoder failed
    └── StartupError                the operator must change the configuration; never reaches a caller
        ├── BundleError             a bundle is incomplete, altered or not what it says
        ├── SettingsError           a flag, variable or file has a wrong value
        └── DeviceUnavailable       the device asked for is not there
"""


class RegardError(Exception):
    """Base of all expected errors."""


class CallerError(RegardError):
    """The caller must change the request."""


class InvalidRequest(CallerError):
    """A value in the request is wrong.

    Args:
        field: path of the field in the request, for example `texts[3]` or `decoding.beam_size`.
        description: a sentence with the limit and what was sent.
    """

    def __init__(self, field: str, description: str) -> None:
        super().__init__(f"{field}: {description}")
        self.field = field
        self.description = description


class ModelNotFound(CallerError):
    """The server holds no such model or version."""

    def __init__(self, name: str, version: str, known: tuple[str, ...]) -> None:
        wanted = f"{name} version {version}" if version else name
        super().__init__(f"no model {wanted!r}; this server holds {', '.join(known) or 'none'}")
        self.name = name
        self.version = version


class TaskNotServed(ModelNotFound):
    """The server holds no model for a task, and none was named."""

    def __init__(self, task: str, known: tuple[str, ...]) -> None:
        CallerError.__init__(self, f"no {task} model is loaded; this server holds {', '.join(known)}")
        self.name = self.version = ""


class UnsupportedByModel(CallerError):
    """The request is well formed but this model does not have what it asks for.

    Args:
        reason: upper-case identifier for programs, for example `NO_ATTENTION`.
    """

    def __init__(self, reason: str, description: str) -> None:
        super().__init__(description)
        self.reason = reason


class UnknownColours(CallerError):
    """The colour mode or value range of a picture is not supported; the message says which."""


class CapacityError(RegardError):
    """The server cannot take the request now.

    Args:
        retry_after: seconds after which a retry makes sense.
    """

    def __init__(self, description: str, retry_after: float) -> None:
        super().__init__(description)
        self.retry_after = retry_after


class QueueFull(CapacityError):
    """Too much work is waiting."""


class TooManyCalls(CapacityError):
    """Too many concurrent calls, or too many bytes held by them."""


class NotServing(CapacityError):
    """The server or the model is loading or draining."""


class AnswerTooLarge(RegardError):
    """The answer is larger than a call or a message may be; repeating the same request cannot help."""


class DeadlinePassed(RegardError):
    """The caller's deadline has passed.

    Args:
        where: `queue` or `decode`.
    """

    def __init__(self, where: str) -> None:
        super().__init__(f"the deadline passed in the {where}")
        self.where = where


class CallCancelled(RegardError):
    """The caller went away."""


class EngineFault(RegardError):
    """An encoder or a decode step failed; the cause is in the log under `fault_id`, not in the message."""

    def __init__(self, fault_id: str) -> None:
        super().__init__(f"internal error {fault_id}")
        self.fault_id = fault_id


class StartupError(RegardError):
    """The operator must change the configuration."""


class BundleError(StartupError):
    """A bundle is incomplete, altered or not what it says."""


class SettingsError(StartupError):
    """A flag, an environment variable or a settings file has a wrong value."""


class DeviceUnavailable(StartupError):
    """The device that was asked for is not there."""
