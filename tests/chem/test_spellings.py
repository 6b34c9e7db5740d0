import pytest

from molattn.chem import (
    canonical_smiles,
    molecules_like,
    nci_molecules,
    random_smiles,
    read_smiles,
    stable_smiles,
    tokenize,
)
from molattn.chem.tokens import TOKENS

MOLECULES = ["C", "CCO", "CC(=O)Oc1ccccc1C(=O)O", "C[C@H](N)C(=O)O", "F/C=C/F", "[NH4+]", "c1ccc2[nH]ccc2c1"]


@pytest.mark.parametrize("smiles", MOLECULES)
def test_a_random_spelling_is_the_same_molecule_and_the_same_for_the_same_seed(smiles):
    mol = read_smiles(smiles)
    spellings = [random_smiles(mol, seed) for seed in range(30)]
    assert {canonical_smiles(read_smiles(s)) for s in spellings} == {canonical_smiles(mol)}
    assert spellings == [random_smiles(mol, seed) for seed in range(30)]
    assert len(set(spellings)) > 2 or mol.GetNumAtoms() == 1
    assert {token for s in spellings for token in tokenize(s)} <= set(TOKENS)


def test_a_seed_is_not_disturbed_by_other_draws():
    mol = read_smiles(MOLECULES[2])
    first = random_smiles(mol, 0)
    random_smiles(mol, 99)
    assert random_smiles(mol, 0) == first


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_that_rdkit_would_not_take_is_refused(seed):
    with pytest.raises(ValueError, match="a seed is from 0"):
        random_smiles(read_smiles("CCO"), seed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("OCC", "CCO"), ("C1=CC=CC=C1", "c1ccccc1"), ("CC.O", None), ("CCCCCCCCCCC", None), ("C(", None), ("", None)],
)
def test_stable_smiles_are_short_canonical_and_of_one_piece(text, expected):
    assert stable_smiles(text, max_length=10) == expected


def test_the_molecules_of_the_nci_are_canonical_short_and_distinct():
    smiles = nci_molecules(max_length=12)
    assert 200 < len(smiles) < 1000
    assert len(set(smiles)) == len(smiles)
    assert smiles == sorted(smiles)
    assert all(len(s) <= 12 and "." not in s and canonical_smiles(read_smiles(s)) == s for s in smiles)


def test_edits_make_new_stable_molecules_that_are_none_of_those_left_out():
    start = ["CCO", "CC(=O)Oc1ccccc1C(=O)O", "c1ccc2[nH]ccc2c1", "CC[N+](=O)[O-]"]
    made = molecules_like(start, 200, seed=0, max_length=24)
    assert len(made) == len(set(made)) == 200
    assert not set(made) & set(start)
    assert all(stable_smiles(s, 24) == s for s in made)
    assert not any(a.GetNumRadicalElectrons() for s in made for a in read_smiles(s).GetAtoms())
    assert made == molecules_like(start, 200, seed=0, max_length=24)
    assert made != molecules_like(start, 200, seed=1, max_length=24)
    left_out = made[::2]
    assert not set(molecules_like(start, 200, seed=0, max_length=24, without=left_out)) & set(left_out)


def test_edits_of_nothing_or_without_room_end():
    assert molecules_like([], 5, seed=0, max_length=10) == []
    # All that fits into one character.
    made = molecules_like(["C"], 100, seed=0, max_length=1)
    assert set(made) <= {"N", "O", "S", "F"}
