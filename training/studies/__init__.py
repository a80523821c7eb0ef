"""Experiments behind the pages in docs/: nothing else imports them.

Trained runs or toys enter; tables and pictures leave.
"""
