"""Path lengths by both routes, and where the byte ends."""

import numpy as np
import pytest
from rdkit import Chem

from molattn.chem import DISCONNECTED, MAX_PATH, codes, path_lengths

from .molecules import CAGES, DRUGLIKE


@pytest.mark.parametrize("smiles", [*DRUGLIKE, *CAGES, "[Na+].[Cl-]", "[H][H]"])
def test_both_routes_agree(smiles, monkeypatch):
    mol = Chem.MolFromSmiles(smiles)
    by_rdkit = path_lengths(mol)
    monkeypatch.setattr(codes, "_MAX_RDKIT_ATOMS", 0)
    by_scipy = path_lengths(mol)
    assert by_rdkit.dtype == by_scipy.dtype == np.uint8
    np.testing.assert_array_equal(by_rdkit, by_scipy)
    expected = Chem.GetDistanceMatrix(mol)
    np.testing.assert_array_equal(by_rdkit, np.where(expected > 1e6, DISCONNECTED, expected))


@pytest.mark.parametrize("route", [0, 10_000])
def test_long_paths_and_fragments(route, monkeypatch):
    monkeypatch.setattr(codes, "_MAX_RDKIT_ATOMS", route)
    lengths = path_lengths(Chem.MolFromSmiles("C" * 300 + ".O"))
    i = np.arange(300)
    expected = np.minimum(abs(i[:, None] - i), MAX_PATH)
    np.testing.assert_array_equal(lengths[:300, :300], expected)
    assert (lengths[300, :300] == DISCONNECTED).all()
    assert (lengths[:300, 300] == DISCONNECTED).all()
    assert lengths[300, 300] == 0
    assert (lengths[:300, :300] <= MAX_PATH).all()


def test_two_ions_are_disconnected_and_one_atom_is_not():
    assert path_lengths(Chem.MolFromSmiles("[Na+].[Cl-]")).tolist() == [[0, 255], [255, 0]]
    assert path_lengths(Chem.MolFromSmiles("C")).tolist() == [[0]]
