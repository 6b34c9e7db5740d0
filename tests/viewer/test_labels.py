"""Labels of atoms: next to their discs, without covering discs, letters or each other."""

import numpy as np
import pytest

from molattn.chem import read_smiles
from molattn.explain import Attribution
from molattn.viewer import draw_atom_values, draw_attribution
from molattn.viewer.labels import place_labels
from tests.molecules import esol
from tests.viewer.maps import ASPIRIN, CAFFEINE

CROWDED = ["CC(C)(C)C(C)(C)C(=O)NC(F)(F)F", "CC(C)CCCC(C)C1CCC2C1(CCC3C2CC=C4C3(CCC(C4)O)C)C"]


@pytest.fixture
def placed(monkeypatch):
    """What is given to every placement of labels, and its boxes."""
    found = []

    def spy(*args):
        found.append((args, place_labels(*args)))
        return found[-1][1]

    monkeypatch.setattr("molattn.viewer.discs.place_labels", spy)
    return found


@pytest.mark.parametrize("smiles", [ASPIRIN, CAFFEINE, *CROWDED, *esol(20)[0]])
@pytest.mark.parametrize("text", ["7", "-0.53"])
def test_labels_cover_no_disc_no_letter_and_no_label_and_are_in_the_picture(placed, smiles, text, monkeypatch):
    monkeypatch.setattr("molattn.viewer.pictures.format_values", lambda values, **_: [text] * len(values))
    n = len(draw_labelled(smiles))
    for (texts, centers, radius, _, letters, _, size), boxes in placed:
        assert texts == [text] * n
        low, high = boxes[:, :2] - boxes[:, 2:], boxes[:, :2] + boxes[:, 2:]
        assert (low >= 0).all() and (high <= size).all()
        every = np.vstack([boxes, letters])
        meet = (np.abs(boxes[:, None, :2] - every[:, :2]) < boxes[:, None, 2:] + every[:, 2:] - 1e-6).all(-1)
        assert meet.sum() == n, "with itself alone"
        apart = np.hypot(*np.moveaxis(np.maximum(np.abs(boxes[:, None, :2] - centers) - boxes[:, None, 2:], 0), -1, 0))
        assert apart.min() >= radius - 1e-6


def draw_labelled(smiles):
    """Draw values as an attribution does; returns the values."""
    symbols = tuple(atom.GetSymbol() for atom in read_smiles(smiles).GetAtoms())
    values = np.linspace(-1.0, 1.0, len(symbols))
    draw_attribution(Attribution(smiles, symbols, values, "occlusion", "y", 0.0))
    return values


def test_where_there_is_no_room_a_label_is_still_drawn():
    centers = np.array([[x, y] for x in (10.0, 20.0, 30.0) for y in (10.0, 20.0, 30.0)])
    boxes = place_labels(["1"] * 9, centers, 9.0, np.empty((0, 2), int), np.empty((0, 4)), 9.0, (40, 40))
    assert np.isfinite(boxes).all()


def test_a_label_avoids_the_bonds_of_its_atom():
    centers = np.array([[50.0, 50.0], [50.0, 20.0], [20.0, 50.0]])
    bonds = np.array([[0, 1], [0, 2]])
    (x, y, *_), *_ = place_labels(["0", "1", "2"], centers, 8.0, bonds, np.empty((0, 4)), 8.0, (100, 100))
    assert x > 50 and y > 50


def test_both_formats_have_the_labels_at_the_same_places(placed):
    draw_atom_values(ASPIRIN, np.zeros(13))
    assert len(placed) == 1
