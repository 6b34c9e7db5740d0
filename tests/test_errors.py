"""Errors: their exit codes, and what they say."""

import pickle

import pytest

from molattn import errors


def test_every_error_has_the_exit_code_that_the_documentation_gives() -> None:
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if len(cells) == 3 and hasattr(errors, cells[1]):
            assert getattr(errors, cells[1]).exit_code == int(cells[0])


def test_a_missing_extra_says_what_to_type() -> None:
    error = errors.MissingExtra("anywidget", "widget", "the widget")
    assert str(error) == "the widget needs anywidget: pip install 'molattn[widget]'"
    assert error.exit_code == 5


def test_a_smiles_error_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(errors.SmilesError("C1CC", "a ring is open")))  # noqa: S301
    assert (error.smiles, error.reason, str(error)) == ("C1CC", "a ring is open", "'C1CC': a ring is open")


@pytest.mark.parametrize("text", ["C" * 1000, "\x1b[31mred", "\u0421", None, float("nan")])
def test_what_is_shown_is_short_plain_ascii(text: object) -> None:
    form = errors.short_repr(text)
    assert form.isascii()
    assert form.isprintable()
    assert len(form) <= 60
