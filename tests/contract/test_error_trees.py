"""Each tree of errors that a docstring draws is the tree that the classes are."""

import ast
import re
from importlib import import_module
from types import ModuleType

import pytest

MODULES = ("regard.contract.errors", "regard.server.errors", "regard.export.errors", "regard.client.errors")
LINE = re.compile(r"^(?P<lead>[ │├└─]*)(?P<name>[A-Z]\w+)")


def drawn(module: ModuleType) -> dict[str, str | None]:
    """Return the parent of each error in the docstring; None for the root."""
    above: list[tuple[int, str]] = []
    tree: dict[str, str | None] = {}
    for line in (module.__doc__ or "").splitlines():
        found = LINE.match(line)
        if found is None or not (above or found["lead"].strip(" ") or line.startswith(" ")):
            continue
        depth = len(found["lead"])
        while above and above[-1][0] >= depth:
            above.pop()
        tree[found["name"]] = above[-1][1] if above else None
        above.append((depth, found["name"]))
    return tree


def defined(module: ModuleType) -> dict[str, str | None]:
    """Return the parent of each exception class of a module; None for one whose parent is not of this module."""
    classes = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.__name__
    }
    parents = {name: each.__bases__[0] for name, each in classes.items()}
    return {name: parent.__name__ if parent in classes.values() else None for name, parent in parents.items()}


@pytest.mark.parametrize("name", MODULES)
def test_the_drawn_tree_is_the_tree_of_classes(name: str) -> None:
    module = import_module(name)
    assert drawn(module) == defined(module)


@pytest.mark.parametrize("folder", ["server", "export", "contract"])
def test_no_error_is_defined_outside_its_tree(folder: str) -> None:
    known = set(defined(import_module(f"regard.{folder}.errors")))
    root = import_module("tests.bundles").ROOT / folder
    for path in root.rglob("*.py"):
        if path.name == "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert not {ast.unparse(base) for base in node.bases} & (known | {"Exception"}), f"{path}: {node.name}"
