"""Finds the bundles under some directories and says which one a name and a version mean.

It does not know sessions, engines or files inside a bundle.

A directory holds NAME/VERSION/. VERSION is a positive integer without leading zeros, and the largest is the newest.
What is named otherwise is left aside with a warning. A bundle that is broken is an error, though others may be whole: a
server that starts without a model that it was given would look healthy and fail its callers.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from regard.contract.bundle import LoadedBundle, load_bundle
from regard.contract.errors import BundleError as ContractError
from regard.contract.names import MODEL_NAME, MODEL_VERSION, ModelKey
from regard.contract.tasks import Task
from regard.server.errors import BundleError, ModelNotFound, SettingsError, TaskNotServed

_ODD_CHARACTER = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_ECHO = 24


class Registry:
    """All bundles of a server; never changes.

    Args:
        bundles: at least one, no two with the same key.
        default: name of the model for requests that name none and are for its task; None for no preference.
        preferred: the same, if it is among the bundles and the default is not for its task. Of other tasks it is the
            first one among the bundles.
        warnings: what was left aside.
    """

    def __init__(
        self,
        bundles: Sequence[LoadedBundle],
        *,
        default: str | None,
        preferred: str | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        self._bundles = tuple(sorted(bundles, key=lambda bundle: (bundle.key.name, -int(bundle.key.version))))
        self._by_key = {bundle.key: bundle for bundle in self._bundles}
        # The newest version comes first, so it must be written last.
        self._newest = {bundle.key.name: bundle for bundle in reversed(self._bundles)}
        first: dict[Task, LoadedBundle] = {}
        for bundle in (self._newest.get(default or ""), self._newest.get(preferred or ""), *bundles):
            if bundle is not None:
                first.setdefault(bundle.task, bundle)
        self._defaults = {
            task: next(other for other in self._bundles if other.key.name == bundle.key.name and other.task is task)
            for task, bundle in first.items()
        }
        self._warnings = tuple(warnings)

    @classmethod
    def discover(
        cls, roots: Sequence[Path], *, default: str | None, profile: str | None, preferred: str | None = None
    ) -> Self:
        """Load every NAME/VERSION of every root.

        Args:
            roots: directories.
            default: name of the model for requests that name none and are for its task. For all else it is the only
                one for a task or, of several, the first by name in the first root that has any.
            profile: which graphs to run; None takes the default of each bundle.
            preferred: name of a model that is the default for its task if it is there and `default` is not for that.

        Raises:
            BundleError: a bundle is broken, twice there, not where its name says or outside of its root; there is none;
                or a root is no directory.
            SettingsError: there is no model of the default name.
        """
        found: dict[ModelKey, LoadedBundle] = {}
        warnings: list[str] = []
        for root in roots:
            for directory in _find_directories(root, warnings):
                try:
                    bundle = load_bundle(directory, profile=profile)
                except ContractError as error:
                    raise BundleError(str(error)) from error
                expected = ModelKey(directory.parent.name, directory.name)
                if bundle.key != expected:
                    raise BundleError(
                        f"bundle {directory}: the manifest says {bundle.key.name}/{bundle.key.version}, "
                        f"but it lies in {expected.name}/{expected.version}"
                    )
                if bundle.key in found:
                    raise BundleError(f"bundle {directory} is also at {found[bundle.key].directory}")
                found[bundle.key] = bundle
        if not found:
            raise BundleError(f"no NAME/VERSION directory with a bundle in {', '.join(map(str, roots)) or 'nothing'}")
        names = [key.name for key in found]
        if default is not None and default not in names:
            raise SettingsError(f"the default model {default!r} is none of {', '.join(sorted(set(names)))}")
        return cls(list(found.values()), default=default, preferred=preferred, warnings=warnings)

    def holding(self, bundles: Sequence[LoadedBundle]) -> Self:
        """The same registry of the same bundles, perhaps with other graphs: one for each that it has, of its key."""
        held = copy.copy(self)
        by_key = {bundle.key: bundle for bundle in bundles}
        held._bundles = tuple(by_key[bundle.key] for bundle in self._bundles)
        held._by_key = by_key
        held._newest = {name: by_key[bundle.key] for name, bundle in self._newest.items()}
        held._defaults = {task: by_key[bundle.key] for task, bundle in self._defaults.items()}
        return held

    @property
    def bundles(self) -> tuple[LoadedBundle, ...]:
        """By name and then by version, newest first."""
        return self._bundles

    @property
    def default(self) -> LoadedBundle:
        """What a request without a name and a task gets: a translator if there is one."""
        return self._defaults.get(Task.TRANSLATION) or next(iter(self._defaults.values()))

    def is_default(self, bundle: LoadedBundle) -> bool:
        """Whether requests for its task that name no model get this one."""
        return self._defaults[bundle.task] is bundle

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found and left aside, one sentence each."""
        return self._warnings

    def resolve(self, name: str, version: str, task: Task | None = None) -> LoadedBundle:
        """Find a bundle; an empty name means the default for the task, an empty version the newest. Touches no file.

        A model that is named is found whatever it is for.

        Raises:
            ModelNotFound: there is no such model or version, or the name is none that a model can have. An odd name is
                not repeated in full.
        """
        wanted = name or self._default_name(task)
        if not MODEL_NAME.fullmatch(wanted) or wanted not in self._newest:
            raise ModelNotFound(_sanitise(wanted), _sanitise(version), tuple(sorted(self._newest)))
        if not version:
            return self._newest[wanted]
        bundle = self._by_key.get(ModelKey(wanted, version))
        if bundle is None:
            known = tuple(f"{key.name} version {key.version}" for key in self._by_key if key.name == wanted)
            raise ModelNotFound(wanted, _sanitise(version), known)
        return bundle

    def _default_name(self, task: Task | None) -> str:
        if task is None:
            return self.default.key.name
        if task not in self._defaults:
            raise TaskNotServed(task.value, tuple(sorted(self._newest)))
        return self._defaults[task].key.name


def _find_directories(root: Path, warnings: list[str]) -> list[Path]:
    """All NAME/VERSION directories of a root, by name; adds a warning for all else."""
    directories: list[Path] = []
    for parent in _list_directories(root, root, MODEL_NAME, "a model name", warnings):
        versions = _list_directories(parent, root, MODEL_VERSION, "a version, a positive integer", warnings)
        if not versions:
            warnings.append(f"{parent} holds no version")
        directories += versions
    return directories


def _list_directories(parent: Path, root: Path, pattern: re.Pattern[str], what: str, warnings: list[str]) -> list[Path]:
    try:
        entries = sorted(parent.iterdir())
    except OSError as error:
        raise BundleError(f"cannot list {parent}: {error.strerror or error}") from error
    kept: list[Path] = []
    for entry in entries:
        if not entry.is_dir():
            warnings.append(f"{entry} is left aside: it is no directory")
        elif not pattern.fullmatch(entry.name):
            warnings.append(f"{str(entry)!r} is left aside: its name is not {what}")
        elif not entry.resolve().is_relative_to(root.resolve()):
            raise BundleError(f"{entry} is a link that leaves {root}")
        else:
            kept.append(entry)
    return kept


def _sanitise(text: str) -> str:
    """A name from outside, short and without odd characters, for messages."""
    tamed = _ODD_CHARACTER.sub("?", text[:_LONGEST_ECHO])
    return tamed if len(text) <= _LONGEST_ECHO else f"{tamed}..."
