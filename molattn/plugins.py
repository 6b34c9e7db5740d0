"""Plugins: third-party modules that add a loss, a metric, an encoding, a command, ... to molattn.

A plugin is a Python module that, when it is imported, adds entries to the registries in `REGISTRIES`, such as

    from molattn.models.losses import Loss, register_loss

    register_loss(Loss("log-cosh", ("regression",), "log-cosh, standardized", lambda o, z, _: (o - z).cosh().log()))

It is found by an entry point of an installed package,

    [project.entry-points."molattn.plugins"]
    log-cosh = "my_package.log_cosh"

or by the environment variable MOLATTN_PLUGINS: names of modules, or paths of .py files, with commas between them; a
file is imported as molattn_plugin_NAME. A plugin runs with all rights of the user. Therefore a model folder never names
one: a model that needs a plugin can be loaded only where the plugin is installed.
"""

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from molattn.errors import MolattnWarning, UsageError, short_repr

GROUP, VARIABLE = "molattn.plugins", "MOLATTN_PLUGINS"
"""The group of entry points, and the environment variable, that name the plugins."""

REGISTRIES: Mapping[str, tuple[str, ...]] = {
    "score": ("molattn.attention.score:SCORES", "molattn.attention.score:SCORES_WITH_WEIGHTS"),
    "join": ("molattn.attention.heads:JOINS",),
    "normalizer": ("molattn.attention.normalize:NORMALIZERS",),
    "attention block": ("molattn.graph.blocks:BLOCKS",),
    "readout": ("molattn.graph.aggregate:READOUTS",),
    "edge encoding": ("molattn.models.encodings:EDGE_ENCODINGS",),
    "node encoding": ("molattn.models.encodings:NODE_ENCODINGS",),
    "loss": ("molattn.models.losses:LOSSES",),
    "metric": ("molattn.training.metrics:METRICS",),
    "callback": ("molattn.training.callbacks:CALLBACKS",),
    "logger": ("molattn.training.loggers:LOGGERS",),
    "split": ("molattn.data.splits.splitters:SPLITS", "molattn.data.splits.splitters:SPLITS_BY_TARGET"),
    "preset": ("molattn.models.presets:PRESETS",),
}
"""The registries that a plugin can add to, "module:NAME", by the kind of their entries."""

Additions = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each plugin the names that it added to the `REGISTRIES`, by kind."""


@cache
def load_plugins() -> Additions:
    """Import the plugins, once in a process, and return what each has added.

    Later calls return the result of the first, also if MOLATTN_PLUGINS has changed.

    Returns:
        For each plugin, the names that it added to the `REGISTRIES`, by kind: {"my_package.log_cosh": {"loss":
        ("log-cosh",)}}, say. Empty without plugins.

    Raises:
        UsageError: a plugin that cannot be imported.

    >>> from molattn.plugins import load_plugins
    >>> load_plugins()  # without plugins
    {}
    """
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    sources = {name: f"taken out of {VARIABLE}" for name in names if name}
    for entry in entry_points(group=GROUP):
        package = "its package" if entry.dist is None else entry.dist.name
        sources[entry.module] = f"removed by uninstalling {package}"
    return {name: _load(name, removal) for name, removal in sources.items()}


def added_by_plugins(kind: str) -> list[str]:
    """The names of one kind of entries that plugins have added to `REGISTRIES`; none if no plugin has been loaded.

    Args:
        kind: a key of `REGISTRIES`.

    >>> from molattn.plugins import added_by_plugins
    >>> added_by_plugins("loss")  # without plugins
    []
    """
    if not load_plugins.cache_info().currsize:
        return []
    return [name for additions in load_plugins().values() for name in additions.get(kind, ())]


@cache
def _load(name: str, removal: str) -> Mapping[str, tuple[str, ...]]:
    """Import one plugin, and return the names that it added to the `REGISTRIES`, by kind.

    Cached for each plugin: if another one raises an error and `load_plugins` is called again, this one is already
    imported, and a second call would find nothing added.
    """
    before = _entries()
    try:
        if name.endswith(".py"):
            _import_file(Path(name).expanduser())
        else:
            importlib.import_module(name)
    except Exception as error:
        raise UsageError(
            f"the plugin {short_repr(name)} cannot be loaded, {type(error).__name__}: {error}; until it is fixed, it "
            f"can be {removal}"
        ) from error
    added = {}
    for kind, entries in _entries().items():
        if names := tuple(n for n in entries if n not in before[kind]):
            added[kind] = names
        if replaced := [n for n, entry in entries.items() if before[kind].get(n, entry) is not entry]:
            text = f"the plugin {short_repr(name)} replaces the {kind} {', '.join(replaced)}; it can be {removal}"
            warnings.warn(MolattnWarning(text), stacklevel=2)
    return added


def _import_file(path: Path) -> None:
    """Import a .py file as the module molattn_plugin_NAME, since NAME may be that of another module, as statistics."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name = f"molattn_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _entries() -> dict[str, dict[str, object]]:
    """All entries of the `REGISTRIES`, by kind and name."""
    return {
        kind: {name: entry for path in paths for name, entry in _registry(path).items()}
        for kind, paths in REGISTRIES.items()
    }


def _registry(path: str) -> Mapping[str, object]:
    """The registry at "module:NAME", imported."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def describe_plugins() -> str:
    """Load the plugins, and describe in one line what each adds.

    Raises:
        UsageError: a plugin that cannot be imported.

    >>> from molattn.plugins import describe_plugins
    >>> describe_plugins()  # without plugins
    'none; MOLATTN_PLUGINS names some, see molattn.plugins'
    """

    def describe(name: str, added: Mapping[str, tuple[str, ...]]) -> str:
        return f"{name}: " + ("; ".join(f"{kind} {', '.join(names)}" for kind, names in added.items()) or "loaded")

    described = [describe(name, added) for name, added in load_plugins().items()]
    return " | ".join(described) or f"none; {VARIABLE} names some, see molattn.plugins"
