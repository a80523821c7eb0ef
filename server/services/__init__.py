"""Answers the methods of regard.v1: reads requests, asks the engine, writes replies.

Parsed messages enter, reply messages or errors leave. Nothing here knows gRPC or ONNX Runtime.
"""
