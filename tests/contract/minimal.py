"""Boots the installed server from an environment that holds nothing but the serve extra, and calls it once.

Run by `make minimal`, not by pytest: the environment has no pytest, which is the point.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORBIDDEN = ("torch", "onnx", "locust", "matplotlib", "lightning")


def main() -> int:
    """Return 0 if the server answers."""
    found = [name for name in FORBIDDEN if importlib.util.find_spec(name)]
    if found:
        sys.exit(f"the serve extra brings {', '.join(found)}")
    regard = Path(sys.executable).with_name("regard")
    # Away from the sources, so that what answers is what was installed, embedded models included.
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder, "port")
        serve = [regard, "serve", "--address", "127.0.0.1:0", "--metrics-address", "off", "--port-file", port_file]
        server = subprocess.Popen(serve, cwd=folder)
        try:
            end = time.monotonic() + 120
            while not port_file.is_file():
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit("the server did not start")
                time.sleep(0.05)
            address = f"127.0.0.1:{port_file.read_text().strip()}"
            translate = [regard, "translate", "--address", address, "We are eating bread."]
            answer = subprocess.run(translate, cwd=folder, check=True, capture_output=True, text=True).stdout
        finally:
            server.terminate()
            status = server.wait(120)
    if not answer.strip() or status != 0:
        sys.exit(f"the answer was {answer!r} and the server's exit status {status}")
    print(f"an environment with only the serve extra answers: {answer.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
