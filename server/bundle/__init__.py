"""Reads bundles from disk and finds the one that a name and version mean.

Directories enter, checked and frozen bundles leave. It does not know ONNX Runtime.
"""
