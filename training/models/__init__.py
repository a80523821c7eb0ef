"""Attention layers, encoders, decoders, captioners, and the `encode`/`step` Protocol that every model meets.

Tensors enter; outputs and attention weights leave. They do not know text, data or training.
"""
