"""The arrows between the folders, seen from the outside: what a fresh interpreter has loaded after an import."""

import subprocess
import sys

import pytest


def modules_after(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    finished = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in finished.stdout.split()}


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        (
            "import server.__main__, server.service, server.engine, server.session",
            {"torch", "onnx", "locust", "matplotlib"},
        ),
        ("import client", {"torch", "onnxruntime", "locust", "matplotlib"}),
        ("import cli.main", {"torch", "onnxruntime", "locust", "matplotlib", "grpc"}),
        ("import training.model", {"grpc", "onnxruntime", "server", "export", "regard"}),
        ("import contract.parity", {"torch", "grpc", "onnxruntime", "onnx", "numpy", "export", "server"}),
        ("import published.tatoeba, published.flickr8k", {"torch", "grpc", "numpy", "training", "loadtest"}),
        ("import scoring.captions, scoring.alignments", {"torch", "grpc", "onnxruntime", "training", "loadtest"}),
        ("import loadtest.run, loadtest.accuracy", {"torch", "onnxruntime", "locust", "gevent"}),
    ],
)
def test_import_does_not_load(statement: str, forbidden: set[str]) -> None:
    assert not modules_after(statement) & forbidden
