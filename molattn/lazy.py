"""Modules that are imported at first use, for code that is also imported for predictions without torch."""

from importlib import import_module
from typing import Any


class LazyModule:
    """A stand-in for a module, which is imported when an attribute is first read.

    Args:
        name: of the module.

    >>> from molattn.lazy import LazyModule
    >>> LazyModule("math").sqrt(9.0)
    3.0
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value
