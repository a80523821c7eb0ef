"""Rewrites ONNX graphs: int8, float16, byte tables, target vocabularies.

A graph enters, an equivalent graph leaves. It does not know models.
"""
