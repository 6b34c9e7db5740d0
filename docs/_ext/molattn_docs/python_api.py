"""The pages of the Python API: one for each package, with every name that its `__all__` has."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation

import molattn
from molattn_docs.text import dedent

MODULES = ("molattn.errors", "molattn.plugins")
"""Modules without `__all__` that users import from."""
_MAX_VALUE = 90
"""The longest value of a constant that is shown, in characters."""


@cache
def packages() -> list[str]:
    """The packages that declare `__all__`, and `MODULES`, sorted."""
    found = [info.name for info in pkgutil.walk_packages(molattn.__path__, "molattn.") if info.ispkg]
    with_names = [name for name in ("molattn", *found) if hasattr(importlib.import_module(name), "__all__")]
    return sorted([*with_names, *MODULES])


def public_names(module: ModuleType) -> list[str]:
    """The names of `__all__`; of a module without it, the public names that it defines, in their order."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=lambda name: (name.lower(), name))
    tree = ast.parse(inspect.getsource(module))
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def write_index(_: str) -> str:
    """A table of the packages, and the contents of the part."""
    rows = [f"| [`{name}`]({name}.md) | {_first_sentence(importlib.import_module(name))} |" for name in packages()]
    contents = "\n".join(["```{toctree}", ":hidden:", "", *packages(), "```"])
    return "\n".join(["| package | what |", "| --- | --- |", *rows, "", contents])


@cache
def main_places() -> dict[int, str]:
    """The full name of each class and function, by its id, under which it is documented.

    A name that several packages export is documented once: in `molattn` if that has it, or else in the package that is
    nested most deeply.
    """
    places: dict[int, str] = {}
    for package in sorted(packages(), key=lambda name: (name == "molattn", name.count("."))):
        module = importlib.import_module(package)
        for name in public_names(module):
            value = getattr(module, name)
            if _kind(value) != "data":
                places[id(value)] = f"{package}.{name}"
    return places


def source_module(_: Sphinx, module: str, name: str) -> str | None:
    """For `viewcode-follow-imported`: no code for a name that is documented elsewhere; None leaves it to viewcode."""
    value = getattr(importlib.import_module(module), name.partition(".")[0], None)
    place = main_places().get(id(value))
    return None if place in (None, f"{module}.{name.partition('.')[0]}") else module


def write_package(package: str) -> str:
    """The page of one package, as Markdown."""
    module = importlib.import_module(package)
    objects = {name: getattr(module, name) for name in public_names(module)}
    # The names of the package in its docstring lead to their entries.
    introduction = re.sub(
        r"`(\w+)`", lambda s: f"{{py:obj}}`{s[1]}`" if s[1] in objects else s[0], dedent(module.__doc__ or "")
    )
    parts = [f"```{{py:module}} {package}\n```", introduction]
    rows = [f"| {{py:obj}}`{name} <{package}.{name}>` | {_summary(module, name, o)} |" for name, o in objects.items()]
    parts.append("\n".join(["| name | what |", "| --- | --- |", *rows]))
    kinds = {name: _kind(value) for name, value in objects.items()}
    for title, kind in (("Classes", "class"), ("Functions", "function"), ("Constants and types", "data")):
        names = [name for name, of in kinds.items() if of == kind]
        if names:
            parts.append(f"## {title}")
            parts += [_constant(module, n) if kind == "data" else _entry(module, n, kind) for n in names]
    return "\n\n".join(parts)


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "class"
    return "function" if inspect.isroutine(value) or hasattr(value, "__wrapped__") else "data"


def _entry(module: ModuleType, name: str, kind: str) -> str:
    full_name = f"{module.__name__}.{name}"
    place = main_places()[id(getattr(module, name))]
    if place == full_name:
        return _automatic(full_name, kind, getattr(module, name))
    return f"````{{py:{kind}}} {name}\n:module: {module.__name__}\n\nThe same as {{py:obj}}`{place}`.\n````"


def _automatic(full_name: str, kind: str, value: Any) -> str:
    options = ""
    if kind == "class":
        options = "   :members:\n" + ("   :show-inheritance:\n" if value.__bases__ != (object,) else "")
    return f"```{{eval-rst}}\n.. auto{kind}:: {full_name}\n{options}```"


def _constant(module: ModuleType, name: str) -> str:
    """A constant, whose docstring is where it is assigned and which Sphinx does not find from where it is exported."""
    value = getattr(module, name)
    shown = repr(value)
    is_short = "<" not in shown and len(shown) <= _MAX_VALUE
    lines = [f"````{{py:data}} {name}", f":module: {module.__name__}"]
    if is_short and isinstance(value, str | int | float | tuple | dict | frozenset):
        lines.append(f":value: {shown}")
    elif type(value).__module__ in ("typing", "types", "collections.abc"):
        shown = stringify_annotation(value, "smart")  # with "~" before the names whose packages are not shown
        lines.append(":value: " + re.sub(r"~(?:\w+[.])*", "", shown))
    documentation = constant_documentation(module, name)
    if type(value).__module__.startswith("molattn."):
        documentation += f"\n\nAn instance of {{py:obj}}`{type(value).__name__}`."
    if isinstance(value, dict) and not is_short:
        documentation += f"\n\nIts keys: {', '.join(f'`{key}`' for key in _first(value))}."
    return "\n".join([*lines, "", documentation, "````"])


def _first(values: Iterable[Any], most: int = 60) -> list[str]:
    names = [str(value) for value in values]
    return names if len(names) <= most else [*names[:most], "..."]


def constant_documentation(module: ModuleType, name: str) -> str:
    """The docstring after the assignment of a constant; empty if it has none."""
    home = _home(module.__name__, name)
    found = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])
    return "\n".join(found).strip()


def _home(module: str, name: str) -> str:
    """The module that assigns a name, through the imports of those that re-export it."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module != module:
                    return _home(node.module, alias.name)
    return module


def _summary(module: ModuleType, name: str, value: Any) -> str:
    text = constant_documentation(module, name) if _kind(value) == "data" else inspect.getdoc(value) or ""
    return _shorten(text)


def _first_sentence(module: ModuleType) -> str:
    return _shorten(module.__doc__ or "")


def _shorten(text: str) -> str:
    """The first paragraph of a docstring, as a cell of a table."""
    return " ".join(text.strip().partition("\n\n")[0].split()).replace("|", r"\|")
