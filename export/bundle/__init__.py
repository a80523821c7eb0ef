"""Writes a bundle directory: manifest, digests, model card.

Graphs and records enter; a directory that is whole or not there leaves.
"""
