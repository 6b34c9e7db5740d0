"""Mutants: what is changed, one at a time, what stays as it is, and that each compiles."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from mutants import Module
from mutation import EQUIVALENT, MODULES, ROOT

SOURCE = '''"""A module."""

LIMIT = 3


def f(a: "int | None", b: int = 1, *, texts=("x",)) -> "str | None":
    """It has a text, and 1 number."""
    if a is None or not b > LIMIT:
        raise ValueError(f"{b} is more than {LIMIT + 1}")
    for x, y in zip([a], [b], strict=True):
        a += x * -y
        print("two words", "word")
    return "" if a else texts[b:]


class C:
    @property
    def p(self) -> int:
        def inner() -> int:
            return 1

        return inner()
'''
CHANGES = {
    "a is None or not b > LIMIT: Or -> And",
    "a is None: Is -> IsNot",
    "not b > LIMIT -> b > LIMIT in a is None or not b > LIMIT",
    "b > LIMIT: Gt -> GtE",
    "raise ValueError(f'{b} is more than {LIMIT + 1}') -> pass",
    "a += x * -y -> pass",
    "a += x * -y: Add -> Sub",
    "x * -y: Mult -> Add",
    "-y -> y in x * -y",
    "print('two words', 'word') -> pass",
    "'word' -> 'wordXX' in print('two words', 'word')",
    "'' if a else texts[b:] -> None in return '' if a else texts[b:]",
    "a -> not a in '' if a else texts[b:]",
    "'' -> 'XX' in '' if a else texts[b:]",
    "b -> b + 1 in b:",
}


def changes(path: Path) -> list[tuple[str, str]]:
    path.write_text(SOURCE)
    return [(mutant.function, mutant.change) for mutant in Module(path, "m").mutants]


def run(module: Module, place: int) -> ModuleType:
    """The module with one of its mutants put in."""
    module.mutants[place].put()
    (codes,) = module.codes()["f"]
    loaded = ModuleType("m")
    spec = importlib.util.spec_from_file_location("m", module.path)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(loaded)
    loaded.f.__code__ = codes
    return loaded


def test_what_is_changed(tmp_path: Path) -> None:
    found = changes(tmp_path / "m.py")
    assert {change for function, change in found if function == "f"} == CHANGES
    assert {change for function, change in found if function == "C.p"} == {
        "inner() -> None in return inner()",
        "1 -> None in return 1",
        "1 -> 2 in return 1",
    }
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("change", "arguments", "result"),
    [
        ("b > LIMIT: Gt -> GtE", (5, 3), ""),
        ("raise ValueError(f'{b} is more than {LIMIT + 1}') -> pass", (3, 1), ()),
        ("x * -y: Mult -> Add", (2, 4), ()),
        ("'' -> 'XX' in '' if a else texts[b:]", (5, 4), "XX"),
        ("a -> not a in '' if a else texts[b:]", (5, 4), ()),
    ],
)
def test_a_change_is_what_the_code_does(
    tmp_path: Path, change: str, arguments: tuple[int, int], result: object
) -> None:
    names = [name for _, name in changes(tmp_path / "m.py")]
    whole = Module(tmp_path / "m.py", "m")
    assert run(whole, names.index(change)).f(*arguments) == result


def test_every_module_is_there_and_its_mutants_have_names_of_their_own() -> None:
    equivalent = [m["mutant"] for m in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]]
    assert len(set(equivalent)) == len(equivalent)
    names: set[str] = set()
    for name, tests in MODULES.items():
        assert all((ROOT / "tests" / test).is_file() for test in tests), name
        of_module = [mutant.name for mutant in Module(ROOT / "molattn" / f"{name}.py", name).mutants]
        assert len(set(of_module)) == len(of_module) > 5
        names.update(of_module)
    assert set(equivalent) <= names, "a mutant said to be equivalent is no more"
