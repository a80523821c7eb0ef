"""The `regard` command: parses, calls the other folders, owns no logic of theirs.

Nobody imports it, and nothing here loads a heavy package before a command needs it.
"""
