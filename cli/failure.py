"""What ends a command early: the exit statuses, and the error that becomes one line for people.

Knows no command.
"""

OK = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130  # as a shell reports Ctrl-C
READER_GONE = 141  # as a shell reports a tool whose reader closed the pipe


class CommandFailed(Exception):  # says what happened, as the other errors here do
    """The command cannot go on; the text is one sentence for people.

    Args:
        message: that sentence.
        status: the exit status.
    """

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status
