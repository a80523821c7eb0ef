"""Draws what a client received: attention matrices, slides of captions, terminal text.

Results enter; figures, files and text leave. It does not know gRPC.
"""
