"""The 2D layout: RDKit's or CoordGen's, whichever has fewer clashes."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdCoordGen, rdDepictor

from molattn.chem import read_smiles
from molattn.viewer.layout import BOND_LENGTH, count_clashes, lay_out
from tests.viewer.maps import ASPIRIN, CAFFEINE, SALT

PACLITAXEL = (
    "CC1=C2[C@H](C(=O)[C@@]3([C@H](C[C@@H]4[C@]([C@H]3[C@@H]([C@@](C2(C)C)(C[C@@H]1OC(=O)[C@@H]([C@H](C5=CC=CC=C5)"
    "NC(=O)C6=CC=CC=C6)O)O)OC(=O)C7=CC=CC=C7)(CO4)OC(=O)C)O)C)OC(=O)C"
)
CUBANE = "C12C3C4C1C5C2C3C45"


def places(mol):
    return mol.GetConformer().GetPositions()[:, :2]


def by_hand(mol):
    """Clashes counted pair by pair."""
    at, bonds = places(mol), [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
    lengths = [np.linalg.norm(at[i] - at[j]) for i, j in bonds]
    near = sum(
        np.linalg.norm(at[i] - at[j]) < 0.57 * np.median(lengths)
        for i in range(len(at))
        for j in range(i)
        if (i, j) not in bonds and (j, i) not in bonds
    )

    def side(a, b, c):
        return np.sign((at[b] - at[a])[0] * (at[c] - at[a])[1] - (at[b] - at[a])[1] * (at[c] - at[a])[0])

    return near + sum(
        side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
        for k, (a, b) in enumerate(bonds)
        for c, d in bonds[:k]
        if not {a, b} & {c, d}
    )


@pytest.mark.parametrize("smiles", [ASPIRIN, PACLITAXEL, CUBANE, SALT, "C"])
def test_the_layout_has_no_more_clashes_than_either(smiles):
    mol, first = read_smiles(smiles), read_smiles(smiles)
    lay_out(mol)
    rdDepictor.Compute2DCoords(first)
    second = Chem.Mol(first)
    rdCoordGen.AddCoords(second)
    assert count_clashes(mol) == min(count_clashes(first), count_clashes(second))
    for one in (mol, first, second):
        assert count_clashes(one) == (by_hand(one) if one.GetNumBonds() else 0)
    again = read_smiles(smiles)
    lay_out(again)
    np.testing.assert_array_equal(places(again), places(mol))


def test_rdkit_s_layout_is_left_where_nothing_clashes():
    mol, other = read_smiles(CAFFEINE), read_smiles(CAFFEINE)
    lay_out(mol)
    rdDepictor.Compute2DCoords(other)
    np.testing.assert_array_equal(places(mol), places(other))


def test_paclitaxel_has_coordgen_s_layout_with_bonds_of_the_usual_length():
    mol, other = read_smiles(PACLITAXEL), read_smiles(PACLITAXEL)
    rdDepictor.Compute2DCoords(other)
    assert count_clashes(other) > 0
    lay_out(mol)
    assert count_clashes(mol) == 0
    at = places(mol)
    lengths = [np.linalg.norm(at[b.GetBeginAtomIdx()] - at[b.GetEndAtomIdx()]) for b in mol.GetBonds()]
    assert np.median(lengths) == pytest.approx(BOND_LENGTH)
