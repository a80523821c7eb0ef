"""Installs from wheels into fresh environments, as users do, and uses what is there.

    python tests/contract/minimal.py SERVE_PYTHON CLIENT_PYTHON

The first environment holds `regard[serve]` and nothing else, the second `regard-client`. Run by `make minimal`, not by
pytest: the environments have no pytest, which is the point. Uses the standard library alone.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOO_MUCH_TO_SERVE = ("torch", "onnx", "locust", "matplotlib", "lightning")
TOO_MUCH_TO_CALL = (
    *TOO_MUCH_TO_SERVE,
    "onnxruntime",
    "tokenizers",
    "PIL",
    "regard.server",
    "regard.training",
    "regard.models",
)
# Modules that a stranger's project may well have; none of them may be ours, and ours must not need them.
STRANGERS = (
    "client",
    "server",
    "models",
    "training",
    "export",
    "contract",
    "loadtest",
    "cli",
    "scoring",
    "datasets",
    "benches",
)

_HAS = """
import sys
from importlib.util import find_spec
print(*[name for name in sys.argv[1:] if find_spec(name.partition(".")[0]) and find_spec(name)])
"""
_CALL = """
import sys, client, models, server
from regard import Client
with Client(sys.argv[1]) as caller:
    print(caller.translate(["We are eating bread."])[0].text)
"""


def main(serve_python: Path, client_python: Path) -> int:
    """Return 0 if the server answers the command and the client."""
    for python, unwanted in ((serve_python, TOO_MUCH_TO_SERVE), (client_python, TOO_MUCH_TO_CALL)):
        # Away from the sources, so that what is found is what was installed, embedded models included.
        with tempfile.TemporaryDirectory() as folder:
            found = _output([python, "-c", _HAS, *unwanted, *STRANGERS], folder)
        if found:
            sys.exit(f"{python}: should not have {found}")
    with tempfile.TemporaryDirectory() as folder:
        for name in STRANGERS:
            Path(folder, f"{name}.py").write_text("whose = 'stranger'\n")
        port_file = Path(folder, "port")
        command = [serve_python, "-m", "regard.server", "--address", "127.0.0.1:0", "--metrics-address", "off"]
        server = subprocess.Popen([*command, "--port-file", port_file], cwd=folder)
        try:
            end = time.monotonic() + 120
            while not port_file.is_file():
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit("the server did not start")
                time.sleep(0.05)
            address = f"127.0.0.1:{port_file.read_text().strip()}"
            regard = serve_python.with_name("regard")
            answers = {
                _output([regard, "translate", "--address", address, "We are eating bread."], folder),
                _output([client_python, "-c", _CALL, address], folder),
            }
        finally:
            server.terminate()
            status = server.wait(120)
    if len(answers) != 1 or not all(answers) or status != 0:
        sys.exit(f"the answers were {answers} and the server's exit status {status}")
    print(f"the serve extra alone and the client alone answer: {answers.pop()}")
    return 0


def _output(command: list[str | Path], folder: str) -> str:
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(*(Path(argument).absolute() for argument in sys.argv[1:])))
