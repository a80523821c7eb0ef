"""The errors of the exporter, as a tree that says whose fault each one is.

    ExportError
    ├── TraceError      the model's code cannot become a graph that holds for all shapes
    ├── GraphError      a graph lacks something that every graph of ours has
    ├── ParityError     a graph computes something else than its model
    └── BundleError     a bundle is altered, incomplete, too large or would overwrite another
"""


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
