"""The messages and services of package regard.v1: what is on the wire, and the manifest of a bundle on disk."""
