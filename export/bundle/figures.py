"""Adds measured figures to a bundle, so that its manifest and card say how good and how fast it is.

It measures nothing; figures come from a JSON file such as

    {"default_profile": "cpu", "default_profile_reason": "2.1 times the speed at the same BLEU",
     "profiles": {"cpu": {"quality": [{"metric": "bleu", "value": 43.1, "test_set": "Tatoeba en-es test, 2000 sources",
                                       "search": "beam 5", "signature": "nrefs:1|case:mixed|..."}],
                          "speed": [{"what": "target tokens per second, 32 rows, 1 thread", "value": 9000,
                                     "machine": "AMD EPYC, AVX2", "date": "2026-01-01"}]}}}
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, cast

from google.protobuf import json_format

from regard.export.bundle.writer import Bundle, read_bundle, write_bundle
from regard.export.errors import BundleError, ExportError
from regard.v1 import bundle_pb2

_KEYS = {"default_profile", "default_profile_reason", "profiles"}


def read_figures(path: Path) -> dict[str, Any]:
    """Read a file of figures. Raises BundleError if it cannot be read or has keys that mean nothing."""
    try:
        figures: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(figures, dict) or not set(cast("dict[str, Any]", figures)) <= _KEYS:
        raise BundleError(f"{path} should be a JSON object with keys among {sorted(_KEYS)}.")
    return cast("dict[str, Any]", figures)


def apply_figures(manifest: bundle_pb2.Bundle, figures: dict[str, Any]) -> None:
    """Put figures into a manifest; those that a profile had of the same kind go.

    Raises BundleError for a profile that the bundle lacks, and for a figure with unknown or wrong fields.
    """
    profiles = {profile.name: profile for profile in manifest.profiles}
    for name, measured in figures.get("profiles", {}).items():
        if name not in profiles:
            raise BundleError(f"There are figures for profile {name!r}, but the bundle has {sorted(profiles)}.")
        if not set(measured) <= {"quality", "speed"}:
            raise BundleError(f"The figures of profile {name!r} have {sorted(measured)}, not just quality and speed.")
        for kind in measured:
            profiles[name].ClearField(kind)
        try:
            json_format.ParseDict(measured, profiles[name])
        except json_format.ParseError as error:
            raise BundleError(f"The figures of profile {name!r} are wrong: {error}") from error
    default = figures.get("default_profile", manifest.default_profile)
    if default not in profiles:
        raise BundleError(f"The default profile would be {default!r}, but the bundle has {sorted(profiles)}.")
    manifest.default_profile = default
    manifest.default_profile_reason = figures.get("default_profile_reason", manifest.default_profile_reason)


def add_figures(folder: Path, figures: dict[str, Any]) -> None:
    """Write a bundle anew with figures; its graphs stay as they are. Raises BundleError."""
    manifest, files = read_bundle(folder)
    apply_figures(manifest, figures)
    write_bundle(folder, Bundle(manifest, files), replace=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to a parser."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the folder NAME/VERSION that holds bundle.json")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Add measured figures to a bundle's manifest and card; its graphs stay as they are."
    parser.epilog = f"FILE is JSON such as\n\n{str(__doc__).partition('such as')[2].strip()}"
    parser.add_argument("figures", type=Path, metavar="FILE", help="the figures, see below")


def run(arguments: argparse.Namespace) -> int:
    """Add the figures and return the exit code."""
    try:
        add_figures(arguments.bundle, read_figures(arguments.figures))
    except ExportError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"wrote manifest and card of {arguments.bundle}\n")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run as a command of its own."""
    parser = argparse.ArgumentParser(prog="python -m regard.export.bundle.figures")
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
