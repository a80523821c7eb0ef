"""Writes messages as protobuf JSON, one on a line.

Does not know what they say.
"""

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message


def json_line(message: Message) -> str:
    """Return the message as canonical protobuf JSON without a line break, fields that are zero or empty included."""
    return MessageToJson(message, indent=None, ensure_ascii=False, always_print_fields_with_no_presence=True)
