"""Converts text to ids with exact byte spans, and ids to text.

Strings enter, sentences, ids, spans and words leave. It does not know protobuf or the engine.
"""
