"""Chooses tokens: the rule of greedy search, beams and n-gram blocking, and its fast paths for few rows.

Scores enter, the next tokens and finished hypotheses leave. It does not know threads, queues or what runs a model.
"""
