"""The committed protobuf and gRPC code is what the protos generate."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def generated(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder / "regard/v1").glob("*_pb2*")}


def test_committed_stubs_equal_regenerated_ones(tmp_path: Path) -> None:
    protos = sorted((ROOT / "proto/regard/v1").glob("*.proto"))
    services = [path for path in protos if "\nservice " in path.read_text()]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}"]
    for plugins, sources in [
        ([f"--python_out={tmp_path}", f"--mypy_out=quiet:{tmp_path}"], protos),
        ([f"--grpc_python_out={tmp_path}", f"--mypy_grpc_out=quiet:{tmp_path}"], services),
    ]:
        subprocess.run([*compiler, *plugins, *map(str, sources)], check=True, env=environment)
    assert generated(tmp_path) == generated(ROOT / "proto")
