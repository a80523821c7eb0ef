"""Measures the ladder from no attention to the Transformer, and writes its page.

Runs enter; docs/ladder.md, docs/ladder.json and pictures leave.
"""
