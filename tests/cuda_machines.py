"""Makes any machine look like one without CUDA, or like one whose CUDA does not work; it knows no test."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def hide_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime was built without CUDA."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CPU])


def break_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime has CUDA, but silently takes the processor instead."""
    real = onnxruntime.InferenceSession

    def fall_back(*args: Any, providers: list[str], **options: Any) -> onnxruntime.InferenceSession:
        return real(*args, providers=[CPU], **options)

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(onnxruntime, "InferenceSession", fall_back)
