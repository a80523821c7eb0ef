"""Says things: answers on stdout, everything else on stderr, each on one line.

Knows nothing of what is said.
"""

import sys


def one_line(message: str) -> str:
    """Return the message with runs of white space as single spaces and U+FFFD for other control characters."""
    return "".join(each if each.isprintable() else "\ufffd" for each in " ".join(message.split()))


def say(line: str) -> None:
    """Write a line that is an answer."""
    sys.stdout.write(f"{line}\n")


def complain(message: str) -> None:
    """Write a message for people, after the name of the program."""
    sys.stderr.write(f"regard: {one_line(message)}\n")
