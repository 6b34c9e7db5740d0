import pytest

from molattn.chem import (
    canonical_smiles,
    mutate_molecules,
    nci_molecules,
    random_smiles,
    read_smiles,
    round_trip_smiles,
    tokenize,
)
from molattn.chem.tokens import TOKENS

MOLECULES = ["C", "CCO", "CC(=O)Oc1ccccc1C(=O)O", "C[C@H](N)C(=O)O", "F/C=C/F", "[NH4+]", "c1ccc2[nH]ccc2c1"]


@pytest.mark.parametrize("smiles", MOLECULES)
def test_random_smiles_are_the_same_molecule_and_reproducible(smiles):
    mol = read_smiles(smiles)
    variants = [random_smiles(mol, seed) for seed in range(30)]
    assert {canonical_smiles(read_smiles(s)) for s in variants} == {canonical_smiles(mol)}
    assert variants == [random_smiles(mol, seed) for seed in range(30)]
    assert len(set(variants)) > 2 or mol.GetNumAtoms() == 1
    assert {token for s in variants for token in tokenize(s)} <= set(TOKENS)


def test_a_seed_does_not_depend_on_other_calls():
    mol = read_smiles(MOLECULES[2])
    first = random_smiles(mol, 0)
    random_smiles(mol, 99)
    assert random_smiles(mol, 0) == first


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_outside_of_rdkits_range_is_rejected(seed):
    with pytest.raises(ValueError, match="a seed is from 0"):
        random_smiles(read_smiles("CCO"), seed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("OCC", "CCO"), ("C1=CC=CC=C1", "c1ccccc1"), ("CC.O", None), ("CCCCCCCCCCC", None), ("C(", None), ("", None)],
)
def test_round_trip_smiles_are_short_canonical_and_of_one_fragment(text, expected):
    assert round_trip_smiles(text, max_length=10) == expected


def test_the_molecules_of_the_nci_are_canonical_short_and_distinct():
    smiles = nci_molecules(max_length=12)
    assert 200 < len(smiles) < 1000
    assert len(set(smiles)) == len(smiles)
    assert smiles == sorted(smiles)
    assert all(len(s) <= 12 and "." not in s and canonical_smiles(read_smiles(s)) == s for s in smiles)


def test_mutations_give_new_molecules_that_are_not_excluded():
    start = ["CCO", "CC(=O)Oc1ccccc1C(=O)O", "c1ccc2[nH]ccc2c1", "CC[N+](=O)[O-]"]
    made = mutate_molecules(start, 200, seed=0, max_length=24)
    assert len(made) == len(set(made)) == 200
    assert not set(made) & set(start)
    assert all(round_trip_smiles(s, 24) == s for s in made)
    assert not any(a.GetNumRadicalElectrons() for s in made for a in read_smiles(s).GetAtoms())
    assert made == mutate_molecules(start, 200, seed=0, max_length=24)
    assert made != mutate_molecules(start, 200, seed=1, max_length=24)
    excluded = made[::2]
    assert not set(mutate_molecules(start, 200, seed=0, max_length=24, exclude=excluded)) & set(excluded)


def test_mutations_stop_without_input_or_new_molecules():
    assert mutate_molecules([], 5, seed=0, max_length=10) == []
    # All molecules with a SMILES of one character.
    made = mutate_molecules(["C"], 100, seed=0, max_length=1)
    assert set(made) <= {"N", "O", "S", "F"}


def test_mutations_return_no_input_however_it_is_written():
    made = mutate_molecules(["OCC", "C(C)N"], 300, seed=0, max_length=3)
    assert len(made) > 10 and not {"CCO", "CCN"} & set(made)
