"""Serves bundles over gRPC on ONNX Runtime, attention included.

Bundles and calls enter, replies leave. Nothing here knows PyTorch or training.
"""
