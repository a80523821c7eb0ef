"""Opens the graphs of a bundle on ONNX Runtime: the only room that imports it.

A bundle enters, a `Decoder` for the engine leaves.
"""
