"""Units in the names of columns."""

import pytest

from molattn.data.tables.units import find_without_unit, name_has_unit, split_unit


@pytest.mark.parametrize(
    ("name", "rest", "unit"),
    [
        ("IC50 [nM]", "IC50", "nM"),
        ("logS (mol/L)", "logS", "mol/L"),
        ("mp(\u00b0C)", "mp", "\u00b0C"),
        ("inhibition (%) ", "inhibition", "%"),
        ("Cl (int) [uL/min/mg]", "Cl (int)", "uL/min/mg"),
        ("logS(log10(mol/L))", "logS", "log10(mol/L)"),
        ("y (a) (b)", "y (a)", "b"),
        *((name, name, "") for name in ("y", "y (2)", "y [1]", "(nM)", "pIC50 (mean)", "y (Experimental)", "y ()")),
        *((name, name, "") for name in ("[nM] y", "y (a very long remark of somebody)", "y (nM", "y nM)")),
    ],
)
def test_text_in_brackets_at_the_end_is_the_unit(name: str, rest: str, unit: str) -> None:
    assert split_unit(name) == (rest, unit)
    assert name_has_unit(name, unit) == bool(unit)
    assert not name_has_unit(name, "kg")


def test_a_column_is_found_without_its_unit() -> None:
    columns = ["smiles", "IC50 [nM]", " Ki [nM]", "Ki [uM]", "EC50", "EC50 [nM]"]
    assert find_without_unit(columns, "IC50") == find_without_unit(columns, " IC50 ") == "IC50 [nM]"
    for name in ("IC50 [nM]", "Ki", "EC50", "other", "Ki [nM]"):
        assert find_without_unit(columns, name) == name
