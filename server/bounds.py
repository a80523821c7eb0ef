"""Holds a value of a request to its bounds.

It does not know requests.
"""

from __future__ import annotations

from regard.server.errors import InvalidRequest


def check_within(field: str, value: int, least: int, most: int, what: str = "") -> None:
    """Refuse a number outside of [least, most].

    Args:
        field: path in the request.
        value: what was sent.
        least, most: bounds.
        what: name of the upper bound, if it is not simply a number, with a space behind it.

    Raises:
        InvalidRequest: names all of them.
    """
    if not least <= value <= most:
        raise InvalidRequest(field, f"is {value}, expected {least} to {what}{most}")


def check_count(field: str, count: int, limit: int) -> None:
    """Refuse a list that is too long.

    Raises:
        InvalidRequest: names the field, the limit and the count.
    """
    if count > limit:
        raise InvalidRequest(field, f"has {count} {field}, and the limit is {limit}")


def longest_target(source_tokens: int, limit: int) -> int:
    """Return how many tokens a translation may have at most, end of sentence not counted.

    A search never goes beyond twice its source: a model that repeats itself costs no more than that.

    Args:
        source_tokens: of the segment, end of sentence included.
        limit: of the model.
    """
    return min(2 * source_tokens + 10, limit)
