"""Continuous batching: takes decode requests, steps them together row by row, answers each exactly once.

Ids or pixels enter, hypotheses with attention leave. `segment.Segment` follows one
request all the way. It does not know text, protobuf, asyncio or ONNX Runtime.
"""
