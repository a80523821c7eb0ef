"""Scores of what models wrote: pure functions of answers and references, for whoever trains and whoever measures."""
