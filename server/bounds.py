"""Checks a value of a request against its limits, and bounds the length of a translation."""

from __future__ import annotations

from regard.server.errors import InvalidRequest


def check_within(field: str, value: int, least: int, most: int, what: str = "") -> None:
    """Raise unless least <= value <= most.

    Args:
        field: path in the request.
        value: what was sent.
        least, most: bounds.
        what: name of the upper bound, if it has one.

    Raises:
        InvalidRequest: names the field, the bounds and the value.
    """
    if not least <= value <= most:
        bound = f"{what} ({most})" if what else most
        raise InvalidRequest(field, f"must be between {least} and {bound}, got {value}")


def check_count(field: str, count: int, limit: int) -> None:
    """Raise if a list is too long.

    Raises:
        InvalidRequest: names the field, the limit and the count.
    """
    if count > limit:
        raise InvalidRequest(field, f"has {count} {field}; the limit is {limit}")


def longest_target(source_tokens: int, limit: int) -> int:
    """Return how many tokens a translation may have at most, end of sentence not counted.

    A search never goes beyond twice its source: a model that repeats itself costs no more than that.

    Args:
        source_tokens: of the segment, end of sentence included.
        limit: of the model.
    """
    return min(2 * source_tokens + 10, limit)
