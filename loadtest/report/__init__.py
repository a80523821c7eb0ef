"""Turns records into percentiles, a verdict and an HTML page.

A run folder enters, summary.json and report.html leave. It does not know how load is made.
"""
