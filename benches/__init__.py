"""Measures speed and memory side by side with other engines; nothing else imports it.

Bundles and checkpoints enter, figures for docs/ leave.
"""
