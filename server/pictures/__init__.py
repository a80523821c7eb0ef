"""Decodes picture files into the pixels that a model reads: checked, rotated upright, in sRGB, resized.

Bytes enter; uint8 arrays or a clear refusal leave. Nothing here knows requests, or models beyond their picture input.
"""
