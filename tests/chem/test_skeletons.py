"""Skeletons: one for all spellings, stereoisomers and salts of a molecule."""

import pytest

from molattn.chem import inchi_key, random_smiles, read_smiles, skeletons
from molattn.errors import SmilesError
from tests.molecules import esol

SMILES, _ = esol(30)


def test_a_spelling_changes_nothing_and_molecules_differ() -> None:
    for seed, smiles in enumerate(SMILES):
        other = random_smiles(read_smiles(smiles), seed)
        assert inchi_key(other) == inchi_key(smiles)
        assert skeletons(other) == skeletons(smiles) == (inchi_key(smiles)[:14],)
    assert len({inchi_key(s) for s in SMILES}) == len(SMILES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("CC(=O)O", "CC(=O)[O-]"),
        ("[2H]C", "C"),
        ("Oc1ccccn1", "O=c1cccc[nH]1"),  # tautomers that InChI knows to be one
    ],
)
def test_forms_of_one_molecule_share_it(one: str, other: str) -> None:
    assert skeletons(one) == skeletons(other)


def test_a_salt_has_those_of_its_fragments() -> None:
    assert set(skeletons("CC(=O)O")) < set(skeletons("CC(=O)[O-].[Na+]"))
    assert len(skeletons("C.C.C")) == 2


def test_what_inchi_does_not_know_has_none() -> None:
    assert inchi_key("*C") == ""
    assert skeletons("*C") == skeletons("*C.CCO") == ()
    with pytest.raises(SmilesError):
        skeletons("C1CC")
