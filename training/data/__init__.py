"""Reads corpora, learns subwords, makes padded batches.

Files enter, batches of tensors leave. It does not know models or how they learn.
"""
