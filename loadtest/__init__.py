"""Measures a running server as its callers see it: load, accuracy, known ways of failing. It imports no server."""
