"""The bridge from a trained checkpoint to a verified bundle; needs torch and ONNX, knows nothing of serving."""
