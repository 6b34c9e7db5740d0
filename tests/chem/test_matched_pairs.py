"""Matched molecular pairs, and substructures by SMARTS."""

from itertools import combinations

import pytest
from rdkit import Chem

from molattn.chem.matched_pairs import HYDROGEN, matched_pairs
from molattn.chem.substructures import RING_SYSTEMS, substructure_matches
from molattn.errors import SmilesError, UsageError
from tests.molecules import SPECIAL, esol


def joined(core: str, substituent: str) -> str:
    """The molecule of two parts, by joining them at their dummy atoms."""
    if substituent == HYDROGEN:
        return Chem.MolToSmiles(Chem.MolFromSmiles(core.replace("*", "[H]", 1)))
    parts = Chem.RWMol(Chem.CombineMols(*map(Chem.MolFromSmiles, (core, substituent))))
    ends = []
    for atom in [a for a in parts.GetAtoms() if not a.GetAtomicNum()]:
        (neighbour,) = atom.GetNeighbors()
        ends.append((atom.GetIdx(), neighbour.GetIdx()))
    parts.AddBond(ends[0][1], ends[1][1], Chem.BondType.SINGLE)
    for dummy in sorted((d for d, _ in ends), reverse=True):
        parts.RemoveAtom(dummy)
    return Chem.MolToSmiles(Chem.MolFromSmiles(Chem.MolToSmiles(parts)))


def flat(smiles: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(smiles), isomericSmiles=False)


def test_core_and_substituent_are_the_molecule_again():
    smiles = esol(300)[0]
    pairs = matched_pairs(smiles)
    assert len(pairs) > 50
    for pair in pairs:
        assert pair.first < pair.second
        for row, part in ((pair.first, pair.first_substituent), (pair.second, pair.second_substituent)):
            assert flat(joined(pair.core, part)) == flat(smiles[row])
            core = sum(a.GetAtomicNum() > 1 for a in Chem.MolFromSmiles(pair.core).GetAtoms())
            assert 3 * core >= 2 * Chem.MolFromSmiles(smiles[row]).GetNumHeavyAtoms()
    assert len({pair[:2] for pair in pairs}) == len(pairs)


def test_halogens_of_a_ring_are_pairs_and_so_is_hydrogen():
    smiles = ["c1ccccc1", "Clc1ccccc1", "Brc1ccccc1", "Cc1ccccc1"]
    pairs = matched_pairs(smiles)
    assert [pair[:2] for pair in pairs] == list(combinations(range(4), 2))
    assert {pair.first_substituent for pair in pairs if pair.first == 0} == {HYDROGEN}


def test_rows_of_one_molecule_fragments_and_small_cores_are_no_pairs():
    assert matched_pairs(["CCO", "OCC"]) == []
    assert matched_pairs(["CCCCO.Cl", "CCCCN.Cl"]) == []
    assert matched_pairs(["CCCCCCO", "OC1CCCCC1"]) == []
    assert matched_pairs(list(SPECIAL)) is not None
    with pytest.raises(SmilesError):
        matched_pairs(["C1CC"])


def test_pairs_do_not_depend_on_how_a_molecule_is_written():
    smiles = esol(60)[0]
    written = [Chem.MolToSmiles(Chem.MolFromSmiles(text), doRandom=True) for text in smiles]
    assert [pair[:2] for pair in matched_pairs(smiles)] == [pair[:2] for pair in matched_pairs(written)]


def test_substructures_are_those_of_rdkit():
    smiles = esol(80)[0]
    found = substructure_matches(smiles, RING_SYSTEMS)
    for row, text in zip(found, smiles, strict=True):
        mol = Chem.MolFromSmiles(text)
        assert row.tolist() == [mol.HasSubstructMatch(Chem.MolFromSmarts(s)) for s in RING_SYSTEMS.values()]
        assert row[0] == bool(mol.GetRingInfo().NumRings())
    assert found.any(0).sum() > 8


@pytest.mark.parametrize("smarts", ["[OX2H", "", "C(", "not smarts"])
def test_a_smarts_that_cannot_be_read_is_named(smarts):
    with pytest.raises(UsageError, match="the SMARTS of 'mine', cannot be read"):
        substructure_matches(["C"], {"mine": smarts})
