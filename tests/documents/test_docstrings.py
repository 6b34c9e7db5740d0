"""`help()` of every public name has a summary, all arguments, the errors raised, and an example."""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

import molattn

WITHOUT_ALL = ("molattn.errors", "molattn.plugins")
"""Modules without `__all__` that users import from."""


def modules() -> Iterator[ModuleType]:
    """The packages with `__all__`, and `WITHOUT_ALL`."""
    found = [info.name for info in pkgutil.walk_packages(molattn.__path__, "molattn.") if info.ispkg]
    for module in map(importlib.import_module, ["molattn", *found, *WITHOUT_ALL]):
        if hasattr(module, "__all__") or module.__name__ in WITHOUT_ALL:
            yield module


def names(module: ModuleType) -> list[str]:
    """The public names of a module."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name, value in vars(module).items() if name[0] != "_" and _is_ours(value)]


def _is_ours(value: Any) -> bool:
    return getattr(inspect.unwrap(value) if callable(value) else value, "__module__", "").startswith("molattn")


def objects() -> dict[str, Any]:
    """Every public class and function, by its shortest public name."""
    found = {f"{m.__name__}.{name}": getattr(m, name) for m in modules() for name in names(m)}
    routines = {name: o for name, o in found.items() if (inspect.isclass(o) or inspect.isroutine(o)) and _is_ours(o)}
    first = {id(o): name for name, o in sorted(routines.items(), key=lambda item: -len(item[0]))}
    return {name: routines[name] for name in sorted(first.values())}


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods that the classes of molattn among the bases of a class define."""
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if name[0] != "_" and owner is not None and owner.__module__.startswith("molattn"):
            method = inspect.getattr_static(cls, name)
            method = method.__func__ if isinstance(method, staticmethod | classmethod) else method
            # Not the methods that PyG generates for a `MessagePassing` at its first call.
            if inspect.isfunction(method) and not method.__module__.endswith("_propagate"):
                yield name, method


def parameters(function: Any) -> list[str]:
    """The names of the parameters of a function, without those of all methods and those that begin with _."""
    try:
        signature = inspect.signature(inspect.unwrap(function) if not inspect.isclass(function) else function)
    except ValueError:  # no signature, as that of a built-in type
        return []
    return [
        name
        for name, p in signature.parameters.items()
        if name not in ("self", "cls")
        and name[0] != "_"
        and p.kind is not p.VAR_KEYWORD
        and p.kind is not p.VAR_POSITIONAL
    ]


def raised(function: Any) -> set[str]:
    """The names of the exceptions that the body of a function, or `__init__` of a class, raises itself."""
    if inspect.isclass(function):
        if getattr(function, "_is_protocol", False):
            return set()
        function = next((vars(function)[n] for n in ("__init__", "__post_init__") if n in vars(function)), None)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))) if function else ast.Module([])
    except (OSError, TypeError):  # methods that dataclasses generate
        return set()
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {call.func.id for call in calls if isinstance(call.func, ast.Name) and call.func.id.endswith("Error")}


def _document(o: Any) -> str:
    """What `help()` shows of the object itself: of a class, also the docstring of `__init__`."""
    own = inspect.getdoc(o) or ""
    return own + "\n" + (inspect.getdoc(o.__init__) or "" if inspect.isclass(o) and "__init__" in vars(o) else "")


@pytest.mark.parametrize("name", objects())
def test_help_names_the_arguments_and_the_errors_and_has_an_example(name: str) -> None:
    o = objects()[name]
    text = _document(o)
    assert re.match(r"[^\n]+[.:](\s|$)", text), "no sentence at the beginning"
    if inspect.isclass(o) and issubclass(o, BaseException):
        return  # users catch it, and do not call it
    unnamed = [p for p in parameters(o) if not re.search(rf"\b{p}\b", text)]
    assert not unnamed, f"arguments that are not named: {unnamed}"
    assert raised(o) <= set(re.findall(r"\w+Error", text)), f"errors that are not named: {raised(o)}"
    assert ">>> " in text, "no example"


@pytest.mark.parametrize("name", [name for name, o in objects().items() if inspect.isclass(o)])
def test_methods_name_their_arguments_and_errors(name: str) -> None:
    cls = objects()[name]
    wrong = {}
    for method_name, method in methods(cls):
        text = f"{inspect.getdoc(method) or ''}\n{_document(cls)}"
        missing = [p for p in parameters(method) if not re.search(rf"\b{p}\b", text)]
        missing += raised(method) - set(re.findall(r"\w+Error", text))
        if not inspect.getdoc(getattr(cls, method_name)):  # getdoc finds that of the method that is overridden
            missing.append("no docstring")
        if missing:
            wrong[method_name] = missing
    assert not wrong


@pytest.mark.parametrize("module", [module.__name__ for module in modules()])
def test_constants_have_a_docstring(module: str) -> None:
    exported = set(names(importlib.import_module(module)))
    documented = set()
    for info in [importlib.import_module(module), *map(importlib.import_module, _modules_of(module))]:
        tree = ast.parse(inspect.getsource(info))
        bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]  # if TYPE_CHECKING
        for node, following in (pair for body in bodies for pair in pairwise([*body, None])):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                for target in targets:
                    documented |= {e.id for e in ast.walk(target) if isinstance(e, ast.Name)} if target else set()
    value = importlib.import_module(module)
    constants = {
        n for n in exported if not (inspect.isclass(getattr(value, n)) or inspect.isroutine(getattr(value, n)))
    }
    assert constants - documented == set()


def _modules_of(module: str) -> list[str]:
    """The modules of molattn from which a package imports its names."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    froms = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return [name for name in froms if name.startswith("molattn")]
