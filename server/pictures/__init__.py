"""Picture files to the pixels that a model reads.

Bytes enter, uint8 arrays or a clear refusal leave. It does not know requests or models beyond what the bundle says of
pictures.
"""
