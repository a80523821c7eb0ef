"""Converts text to ids with exact byte spans, and ids to text.

Strings enter; sentences, ids, spans and words leave. Nothing here knows protobuf or the engine.
"""
