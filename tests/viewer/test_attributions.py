"""Attributions as pictures."""

import dataclasses

import numpy as np
import pytest

from molattn.chem import read_smiles
from molattn.cli.attribution_table import attribution_table
from molattn.errors import InputError, UsageError
from molattn.explain import Attribution
from molattn.viewer import draw_attribution
from molattn.viewer.discs import format_values
from molattn.viewer.palette import ABOVE as ORANGE
from molattn.viewer.palette import BELOW as BLUE
from tests.viewer.maps import ASPIRIN, METHANE, MOLECULES
from tests.viewer.svg import assert_sound, discs, root


def attribution(smiles, values=None, **fields):
    symbols = tuple(a.GetSymbol() for a in read_smiles(smiles, add_hs=fields.get("add_hs", False)).GetAtoms())
    values = np.random.default_rng(0).normal(size=len(symbols)) if values is None else np.asarray(values)
    total = float(values.sum()) + 0.5
    made = {"unit": "log10(mol/L)", "constant": 0.5, "adds_up": True, **fields}
    return Attribution(smiles, symbols, values, "additive", "logS", total, **made)


@pytest.mark.parametrize("smiles", MOLECULES.values(), ids=MOLECULES)
def test_a_drawing_is_valid_and_reproducible_with_a_disc_per_atom(smiles):
    a = attribution(smiles)
    picture = a.draw()
    assert_sound(picture)
    assert draw_attribution(a) == picture
    assert len(discs(picture)) == a.num_atoms


def test_gains_are_orange_losses_blue_and_the_largest_is_the_deepest():
    values = np.linspace(-1, 2, 13)
    colours = np.array([c for _, c in discs(attribution(ASPIRIN, values).draw())], dtype=float)
    red, _, blue = colours.T
    assert (red[values > 0.1] > blue[values > 0.1]).all()
    assert (blue[values < -0.1] > red[values < -0.1]).all()
    np.testing.assert_allclose(colours[-1], 255 * np.array(ORANGE), atol=2)
    np.testing.assert_allclose(colours[4], 255, atol=2)
    # Half as large on the other side is half as deep.
    np.testing.assert_allclose(colours[0], 255 * (1 + np.array(BLUE)) / 2, atol=2)


@pytest.mark.parametrize("colour", [ORANGE, BLUE])
def test_black_is_readable_on_the_deepest_disc(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    assert (np.dot([0.2126, 0.7152, 0.0722], linear) + 0.05) / 0.05 > 7


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.0, 0.0], ["0.0", "0.0"]),
        ([1234.5, -0.4], ["+1234", "0"]),
        ([0.0123, -0.004], ["+0.012", "-0.004"]),
        ([12.34, -5.0], ["+12.3", "-5.0"]),
    ],
)
def test_numbers_have_the_decimals_that_the_largest_needs(values, texts):
    values = np.array(values)
    if not values.any():
        texts = ["0.00", "0.00"]
    assert format_values(values) == texts


def test_the_sum_the_unit_and_the_faithfulness_are_shown():
    title = next(
        e.text
        for e in root(attribution("CCO", [1.0, 2.0, -0.25], other_terms={"virtual node": 0.0}).draw()).iter()
        if e.tag.endswith("title")
    )
    assert "logS 3.250 log10(mol/L) = 0.500 (constant) + 2.750 (3 atoms) + 0.000 (virtual node)" in title
    assert "additive, value of each atom, in log10(mol/L)" in title
    assert "faithfulness: not measured" in title
    other = dataclasses.replace(attribution(METHANE), adds_up=False, constant=None, unit="")
    assert "do not add up" in repr(other)


def test_values_of_one_sign_have_a_scale_from_0():
    a, b = (attribution("CCO", v).draw().svg for v in ([1.0, 2.0, 0.0], [1.0, 2.0, -0.1]))
    assert a != b


def test_weights_are_values_without_a_sign():
    weights = attribution("CCO", [0.2, 0.5, 0.3], has_unit=False, adds_up=False, constant=None)
    assert not weights.signed and attribution("CCO", [0.2, 0.5, 0.3]).signed
    assert attribution("CCO", [0.2, -0.5, 0.3], has_unit=False).signed
    assert format_values(weights.values, plus=False) == ["0.20", "0.50", "0.30"]
    signed = dataclasses.replace(weights, has_unit=True, unit="")
    assert weights.draw().svg != signed.draw().svg, "with a plus at every atom"


def test_descriptors_called_as_other_terms_are_not_lost():
    others = {"constant": 1.0, "prediction": 2.0, "3 atoms": -4.0}
    a = attribution("CCO", [1.0, 2.0, -0.25], other_terms=others)
    assert a.terms == {
        "constant": 0.5, "3 atoms": 2.75, "other constant": 1.0, "prediction": 2.0, "other 3 atoms": -4.0,
    }  # fmt: skip
    assert a.equation.endswith("+ 1.000 (other constant) + 2.000 (prediction) - 4.000 (other 3 atoms)")
    many = dataclasses.replace(a, other_terms={**others, "x": 1.5})
    assert many.equation.endswith("= 0.500 (constant) + 2.750 (3 atoms) + 0.500 (4 other terms)")
    lines = attribution_table([a]).splitlines()[4:]
    assert [(line.split(",")[4], float(line.split(",")[7])) for line in lines] == [
        ("constant", 0.5), *others.items(), ("prediction", a.prediction),
    ]  # fmt: skip


def test_it_shows_itself_and_is_a_frame():
    a = attribution("CCO", [1.0, 2.0, -0.25])
    shown = a._repr_mimebundle_()
    assert set(shown) == {"image/svg+xml", "image/png", "text/plain"}
    assert shown["text/plain"].startswith("Attribution('CCO', additive: logS 3.250")
    assert a.to_frame().to_pydict() == {"atom": [0, 1, 2], "element": ["C", "C", "O"], "value": [1.0, 2.0, -0.25]}
    assert a.labels == ["C0", "C1", "O2"]


def test_invalid_sizes_and_atoms_are_rejected():
    with pytest.raises(UsageError, match="at least 260 x"):
        attribution("CCO").draw((100, 100))
    with pytest.raises(InputError, match="3 atoms"):
        dataclasses.replace(attribution("CCO"), smiles="CCN").draw()


def test_atoms_with_nan_have_no_disc_and_change_no_other_color():
    missing, zero = (attribution("CCO", [-0.5, x, 1.0]).draw() for x in (np.nan, 0.0))
    first, _, last = discs(zero)
    assert discs(missing) == [first, last]
    assert format_values(np.array([-0.5, np.nan, 1.0])) == ["-0.50", "nan", "+1.00"]
    assert_sound(attribution("CCO", [np.nan] * 3).draw())
