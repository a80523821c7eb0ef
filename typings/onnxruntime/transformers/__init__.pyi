"""The tools for Transformers that come with onnxruntime."""
