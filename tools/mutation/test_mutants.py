"""Mutants: what is changed, one at a time, what is not, and that each compiles."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from modules import MODULES
from mutants import Module
from page import page, table
from run import EQUIVALENT, ROOT

SOURCE = '''"""A module."""

B = object
LIMIT = 3


def f(a: "int | None", b: int = 1, *, texts=("x",)) -> "str | None":
    """It has a text, and 1 number."""
    if a is None or not b > LIMIT:
        raise ValueError(f"{b} is more than {LIMIT + 1}")
    for x, y in zip([a], [b], strict=True):
        a += x * -y
        print("two words", "word")
    return "" if a else texts[b:]


class C(B):
    def __init__(self):
        super().__init__()

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
    """The module with one of its mutants applied."""
    module.mutants[place].apply()
    (code,) = module.compile_functions()["f"]
    loaded = ModuleType("m")
    spec = importlib.util.spec_from_file_location("m", module.path)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(loaded)
    loaded.f.__code__ = code
    return loaded


def test_what_is_changed(tmp_path: Path) -> None:
    found = changes(tmp_path / "m.py")
    assert {change for function, change in found if function == "f"} == CHANGES
    assert {change for function, change in found if function == "C.p"} == {
        "inner() -> None in return inner()",
        "1 -> None in return 1",
        "1 -> 2 in return 1",
    }
    assert {change for function, change in found if function == "C.__init__"} == {"super().__init__() -> super()"}
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
        files = [test.removeprefix("--deselect=tests/").partition("::")[0] for test in tests]
        assert all((ROOT / "tests" / file).is_file() for file in files), name
        of_module = [mutant.name for mutant in Module(ROOT / "molattn" / f"{name}.py", name).mutants]
        assert of_module
        assert len(set(of_module)) == len(of_module)
        names.update(of_module)
    assert set(equivalent) <= names, "a mutant listed as equivalent does not exist"


RESULTS = {
    "a": {"of": 4, "seed": 0, "seconds": 2, "versions": {"torch": "2"},
          "tried": 3, "not_killed": {"a f: y -> z": "timeout", "a g: 1 -> 2": "survived"}},
    "b": {"of": 1, "seed": 0, "seconds": 1000, "versions": {"torch": "2"},
          "tried": 1, "not_killed": {"b f: x -> y": "not reached"}},
}  # fmt: skip


def test_the_table_counts_each_mutant_once() -> None:
    lines = table(RESULTS, {"a g: 1 -> 2": "the same", "a f: x -> y": "wrongly said to be"}).splitlines()
    assert lines[2:] == [
        "| a | 3 of 4 | 2 | 1 | 0 | 100.0% |",
        "| b | 1 of 1 | 0 | 0 | 1 | 0.0% |",
        "| all | 4 of 5 | 2 | 1 | 1 | 75.0% |",
    ]


def test_the_page_names_who_survived_and_how_the_sample_was_drawn() -> None:
    text = page(RESULTS, {"a g: 1 -> 2": "the same"})
    assert "Survivors:\n\n- `b f: x -> y`\n\n" in text
    assert "drawn at random, with seed 0." in text
    assert "torch 2. 1,002 seconds" in text


def test_the_digest_is_of_the_code_alone(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "m.py").write_text(text)
        return Module(tmp_path / "m.py", "m").digest

    assert digest(SOURCE) == digest(
        SOURCE.replace("It has a text", "Other words").replace("LIMIT = 3", "LIMIT = 3  # 3")
    )
    assert digest(SOURCE) != digest(SOURCE.replace("LIMIT = 3", "LIMIT = 4"))
