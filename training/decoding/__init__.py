"""Reference search in PyTorch, and what is measured on its output.

A model and batches enter; hypotheses, alignments and scores leave.
"""
