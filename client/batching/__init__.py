"""Many texts or pictures in as few calls as a server takes, in order, each with its own error.

Streams of items enter, results in order leave.
"""
