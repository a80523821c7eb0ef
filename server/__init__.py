"""Serves bundles over gRPC on ONNX Runtime, attention included.

Bundles and calls enter, replies leave. It knows no PyTorch and no trainer.
"""
