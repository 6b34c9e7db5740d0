"""Molecules grown from others: new, distinct, the same for a seed, and never one that is refused."""

import pytest
from rdkit import Chem
from rdkit.Chem import BRICS

from molattn.chem import canonical_smiles, grow, inchi_key, read_smiles
from molattn.errors import SmilesError
from tests.molecules import esol

SMILES = [s for s in esol(40)[0] if "." not in s]


def test_they_are_new_and_distinct_and_stay_what_they_are() -> None:
    made = grow(SMILES, 60, seed=0)
    keys = [inchi_key(s) for s in made]
    assert len(made) == len(set(keys)) == 60
    assert not {inchi_key(s) for s in SMILES} & set(keys)
    for smiles in made:
        mol = read_smiles(smiles)
        assert canonical_smiles(mol) == smiles
        assert "." not in smiles
        assert not any(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms())


def test_a_seed_makes_the_same_and_fewer_are_the_first_of_more() -> None:
    assert grow(SMILES, 30, seed=1)[:10] == grow(SMILES, 10, seed=1) != grow(SMILES, 10, seed=2)


def test_what_is_refused_does_not_come_up() -> None:
    free = grow(SMILES, 20, seed=0)
    refused = set(free[::2])
    made = grow(SMILES, 20, seed=0, refuse=lambda s: s in refused)
    assert len(made) == 20
    assert not refused & set(made)


def test_halves_are_swapped_at_bonds_of_one_kind() -> None:
    # An ester and an amide: what BRICS would put together of their halves is among what grows from them.
    given = ["CCCCOC(=O)c1ccccc1", "CCCNC(=O)c1ccncc1"]
    made = {inchi_key(s) for s in grow(given, 60, seed=0)}
    assert inchi_key("CCCCOC(=O)c1ccncc1") in made
    assert BRICS.BRICSDecompose(Chem.MolFromSmiles("CCCCOC(=O)c1ccncc1")) & BRICS.BRICSDecompose(
        Chem.MolFromSmiles(given[0])
    )


def test_nothing_grows_from_nothing_and_a_bad_smiles_is_named() -> None:
    assert grow([], 5, seed=0) == []
    assert grow(SMILES, 0, seed=0) == []
    with pytest.raises(SmilesError, match="C1CC"):
        grow(["C1CC"], 1, seed=0)
