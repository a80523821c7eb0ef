"""Turns each family of models into the graphs of its profiles.

A checkpoint enters; ONNX graphs and their reference leave.
"""
