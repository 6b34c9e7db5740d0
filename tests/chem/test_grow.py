"""Molecules grown from others: new, distinct, reproducible by the seed, and none that is excluded."""

import pytest
from rdkit import Chem
from rdkit.Chem import BRICS

from molattn.chem import canonical_smiles, grow_molecules, inchi_key, read_smiles
from molattn.errors import SmilesError
from tests.molecules import esol

SMILES = [s for s in esol(40)[0] if "." not in s]


def test_molecules_are_new_distinct_and_canonical() -> None:
    made = grow_molecules(SMILES, 60, seed=0)
    keys = [inchi_key(s) for s in made]
    assert len(made) == len(set(keys)) == 60
    assert not {inchi_key(s) for s in SMILES} & set(keys)
    for smiles in made:
        mol = read_smiles(smiles)
        assert canonical_smiles(mol) == smiles
        assert "." not in smiles
        assert not any(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms())


def test_a_seed_gives_the_same_molecules_whatever_their_number() -> None:
    assert (
        grow_molecules(SMILES, 30, seed=1)[:10]
        == grow_molecules(SMILES, 10, seed=1)
        != grow_molecules(SMILES, 10, seed=2)
    )


def test_excluded_molecules_are_not_returned() -> None:
    free = grow_molecules(SMILES, 20, seed=0)
    excluded = set(free[::2])
    made = grow_molecules(SMILES, 20, seed=0, is_excluded=lambda s: s in excluded)
    assert len(made) == 20
    assert not excluded & set(made)


def test_halves_are_recombined_at_bonds_of_the_same_environments() -> None:
    # An ester and an amide: what BRICS would put together of their halves is among what grows from them.
    given = ["CCCCOC(=O)c1ccccc1", "CCCNC(=O)c1ccncc1"]
    made = {inchi_key(s) for s in grow_molecules(given, 60, seed=0)}
    assert inchi_key("CCCCOC(=O)c1ccncc1") in made
    assert BRICS.BRICSDecompose(Chem.MolFromSmiles("CCCCOC(=O)c1ccncc1")) & BRICS.BRICSDecompose(
        Chem.MolFromSmiles(given[0])
    )


def test_no_input_gives_no_molecules_and_an_invalid_smiles_is_named() -> None:
    assert grow_molecules([], 5, seed=0) == []
    assert grow_molecules(SMILES, 0, seed=0) == []
    with pytest.raises(SmilesError, match="C1CC"):
        grow_molecules(["C1CC"], 1, seed=0)
