"""The errors of the exporter, as a tree that says whose fault each one is.

`as_export_error` turns the error of the contract into the BundleError of this tree.

    ExportError
    ├── TraceError      the model's code cannot become a graph that holds for all shapes
    ├── GraphError      a graph lacks something that every graph of ours has
    ├── ParityError     a graph computes something else than its model
    └── BundleError     a bundle is altered, incomplete, too large or would overwrite another
"""

from collections.abc import Generator
from contextlib import contextmanager

from regard.contract import errors as contract


class ExportError(Exception):
    """Base of all expected errors; the message is a sentence for the person who exports."""


class TraceError(ExportError):
    """The model's code cannot become a graph that holds for all shapes."""


class GraphError(ExportError):
    """A graph lacks something that every graph of ours has."""


class ParityError(ExportError):
    """A graph computes something else than its model."""


class BundleError(ExportError):
    """A bundle is altered, incomplete, too large or would overwrite another."""


@contextmanager
def as_export_error() -> Generator[None]:
    """Have what the contract refuses be a BundleError of the exporter, in the same words."""
    try:
        yield
    except contract.BundleError as error:
        raise BundleError(str(error)) from error
