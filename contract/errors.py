"""The one error of the contract.

Where it leaves the contract it becomes the `BundleError` of the tree there: of the server's or of the exporter's.

    BundleError     a bundle is incomplete, altered or not what it says
"""


class BundleError(Exception):
    """A bundle is incomplete, altered or not what it says; names the file or field, what was expected and what is."""
