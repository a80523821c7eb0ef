"""The arrows between the folders, seen from the outside: what a fresh interpreter has loaded after an import."""

import subprocess
import sys

import pytest


def modules_after(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    finished = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    """Return the top-level names that are loaded, and of our own the folders: regard.server."""
    names = finished.stdout.split()
    return {".".join(name.split(".")[: 2 if name.startswith("regard.") else 1]) for name in names}


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        (
            "import regard.server.__main__, regard.server.front.application",
            {"torch", "onnx", "locust", "matplotlib"},
        ),
        ("import regard.client", {"torch", "onnxruntime", "locust", "matplotlib"}),
        ("import regard.cli.main", {"torch", "onnxruntime", "locust", "matplotlib", "grpc"}),
        (
            "import regard.training.models.protocol",
            {"grpc", "onnxruntime", "regard.server", "regard.export", "regard.v1"},
        ),
        (
            "import regard.contract.bundle",
            {"torch", "grpc", "onnxruntime", "onnx", "regard.export", "regard.server"},
        ),
        (
            "import regard.export.verify",
            {"torch", "onnx", "grpc", "regard.server", "regard.training"},
        ),
        (
            "import regard.datasets.tatoeba, regard.datasets.flickr8k",
            {"torch", "grpc", "numpy", "regard.training", "regard.loadtest"},
        ),
        (
            "import regard.scoring.captions, regard.scoring.alignments",
            {"torch", "grpc", "onnxruntime", "regard.training", "regard.loadtest"},
        ),
        ("import regard.loadtest.run, regard.loadtest.accuracy.command", {"torch", "onnxruntime", "locust", "gevent"}),
    ],
)
def test_import_does_not_load(statement: str, forbidden: set[str]) -> None:
    assert not modules_after(statement) & forbidden
