"""Errors: their exit codes and messages."""

import pickle
import tomllib
from pathlib import Path

import pytest

from molattn import errors


def test_every_error_has_the_exit_code_that_the_documentation_gives() -> None:
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if len(cells) == 3 and hasattr(errors, cells[1]):
            assert getattr(errors, cells[1]).exit_code == int(cells[0])


def test_the_error_for_a_missing_extra_has_the_install_command() -> None:
    error = errors.MissingExtra("anywidget", "widget", "the widget")
    assert str(error) == "the widget needs anywidget: pip install 'molattn[widget]'"
    assert error.exit_code == 5


def test_a_smiles_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(errors.SmilesError("C1CC", "a ring is open")))  # noqa: S301
    assert (error.smiles, error.reason, str(error)) == ("C1CC", "a ring is open", "'C1CC': a ring is open")


def test_the_doctor_knows_every_extra_of_the_package() -> None:
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert set(errors.EXTRAS) == set(declared["optional-dependencies"]) - {"test", "dev", "docs", "fuzz"}
    assert set(errors.installed_extras()) == set(errors.EXTRAS)


def test_the_error_for_an_unknown_choice_lists_the_choices() -> None:
    names = [f"setting_{i}" for i in range(30)]
    assert errors.unknown_choice("loss", "hinge", ("mse", "mae")) == "unknown loss 'hinge': choose one of mse, mae"
    close = errors.unknown_choice("loss", "mes", ("mse", "huber"))
    assert close == "unknown loss 'mes': choose one of mse, huber; did you mean 'mse'?"
    assert (
        errors.unknown_choice("option", "setting_29x", names)
        == "unknown option 'setting_29x': did you mean 'setting_29'?"
    )
    assert errors.unknown_choice("option", 3, names).endswith("setting_19 and 10 more")
    longer = [f"training.{name}_schedule" for name in ("learning_rate", "dropout_rate")]
    found = errors.unknown_choice("setting", "training.learning_rate_schedul", ["training.learning_rate", *longer])
    assert found.endswith("did you mean 'training.learning_rate_schedule'?")


def test_the_alternative_to_a_choice_is_listed_before_the_closest_name() -> None:
    names = [f"setting_{i}" for i in range(30)]
    either = errors.unknown_choice("score", "dott", ("dot", "scaled_dot"), "a function")
    assert either == "unknown score 'dott': choose one of dot, scaled_dot, or pass a function; did you mean 'dot'?"
    assert (
        errors.unknown_choice("score", "setting_29x", names, "a function")
        == "unknown score 'setting_29x': pass a function; did you mean 'setting_29'?"
    )


def test_long_values_of_a_choice_are_cut() -> None:
    assert len(errors.unknown_choice("loss", "x" * 10**6, ("mse",))) < 200


@pytest.mark.parametrize("text", ["C" * 1000, "\x1b[31mred", "\u0421", "\u202eC", "\ud800", None, float("nan")])
def test_shown_values_are_short_and_printable_and_those_of_smiles_are_ascii(text: object) -> None:
    name, smiles = errors.short_repr(text), errors.short_ascii(text)
    assert smiles.isascii()
    for form in (name, smiles):
        assert form.isprintable()
        assert len(form) <= 60
    assert str(errors.SmilesError(text, "bad")) == f"{smiles}: bad"


def test_names_of_any_script_are_shown_as_they_are() -> None:
    assert errors.short_repr("Löslichkeit 溶解度") == "'Löslichkeit 溶解度'"
