"""Carries a recipe out, for translation and for captioning.

A recipe and a data folder enter; a run folder with checkpoints, curves and figures leaves.
"""
