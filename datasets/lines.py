"""Reads text files line by line, plain or gzipped.

It does not know what the lines say.
"""

import gzip
import zlib
from pathlib import Path


def read_lines(path: Path) -> tuple[str, ...]:
    """The lines of a file, split at line feeds only: other line ends of Unicode may stand inside a sentence.

    Raises FileNotFoundError, or ValueError for what is no UTF-8 text or no whole archive of it.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is not UTF-8 text: {problem}") from problem
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise ValueError(f"{path} cannot be unpacked: {problem}") from problem
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
