"""Makes text ready for a translator, and its answer ready for a reader; training and server use the same rules.

A text enters, another leaves with the place in the first that each of its characters came from. It knows no model.
"""
