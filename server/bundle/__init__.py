"""Finds the bundle, language and task that a request means among those that a server holds.

Bundles that `regard.contract` read enter; the one that is meant, or a refusal for the caller, leaves.
"""
