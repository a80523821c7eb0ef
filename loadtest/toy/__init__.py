"""A server with known delays and failures, and the self-test that tries the load test on it.

Delays enter; a verdict on the load test itself leaves.
"""
