"""Inputs to export with: sentences and pictures of a recipe's data, and how large activations become on them.

A checkpoint and a data folder enter; samples, tokens of each language and ranges of activations leave.
"""
