"""Measures what a running server answers on test sets: BLEU, chrF, AER, CIDEr, pointing.

Test sets and a server enter, tables and JSON leave.
"""
