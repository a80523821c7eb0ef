"""Runs graphs beside their reference and says how far apart they are.

Two runners enter, a parity record leaves. It does not know what runs either of them.
"""
