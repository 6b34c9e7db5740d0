"""The table of the book's equations: every line of code that it names exists."""

import inspect
import re
from importlib import import_module
from operator import attrgetter
from typing import Any

import pytest

import molattn.graph

DOC = molattn.graph.__doc__ or ""
ROWS = re.findall(r"^\| (14\.\d) ([^|]*)\|([^|]*)\|$", DOC, re.MULTILINE)
LINES = re.findall(r"`([^`]+)` in `([^`]+)`", DOC)
PLACES = [name for name in re.findall(r"`([^`]+)`", DOC) if name not in {line for line, _ in LINES}]


def found(name) -> Any:
    if name.startswith("molattn."):
        return import_module(name)
    return attrgetter(name)(molattn.graph)


def test_the_table_has_the_nine_equations_and_a_location_for_each():
    assert [number for number, _, _ in ROWS] == [f"14.{i}" for i in range(1, 10)]
    assert all(len(re.findall("`", place)) in (2, 4) for _, _, place in ROWS)
    assert len(LINES) == 8


@pytest.mark.parametrize("place", sorted(set(PLACES)))
def test_every_location_in_the_table_exists(place):
    assert found(place) is not None


@pytest.mark.parametrize(("line", "place"), LINES)
def test_every_quoted_line_is_at_its_location(line, place):
    code = inspect.getsource(inspect.unwrap(found(place)))
    assert all(piece in code for piece in line.split("..."))
