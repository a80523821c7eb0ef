"""What all measuring commands share: child processes, signals, progress, tables, where a figure was measured.

It knows no measurement.
"""
