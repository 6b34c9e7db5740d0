"""InChIKeys and their first blocks: the same for all SMILES, stereoisomers and salts of a molecule."""

import pytest

from molattn.chem import inchi_key, inchikey_skeletons, random_smiles, read_smiles
from molattn.errors import SmilesError
from tests.molecules import esol

SMILES, _ = esol(30)


def test_keys_depend_on_the_molecule_not_on_its_smiles() -> None:
    for seed, smiles in enumerate(SMILES):
        other = random_smiles(read_smiles(smiles), seed)
        assert inchi_key(other) == inchi_key(smiles)
        assert inchikey_skeletons(other) == inchikey_skeletons(smiles) == (inchi_key(smiles)[:14],)
    assert len({inchi_key(s) for s in SMILES}) == len(SMILES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("CC(=O)O", "CC(=O)[O-]"),
        ("[2H]C", "C"),
        ("Oc1ccccn1", "O=c1cccc[nH]1"),  # tautomers that InChI unifies
    ],
)
def test_forms_of_one_molecule_share_a_block(one: str, other: str) -> None:
    assert inchikey_skeletons(one) == inchikey_skeletons(other)


def test_a_salt_has_the_blocks_of_its_fragments() -> None:
    assert set(inchikey_skeletons("CC(=O)O")) < set(inchikey_skeletons("CC(=O)[O-].[Na+]"))
    assert len(inchikey_skeletons("C.C.C")) == 2


def test_molecules_that_inchi_does_not_support_have_no_key() -> None:
    assert inchi_key("*C") == ""
    assert inchikey_skeletons("*C") == inchikey_skeletons("*C.CCO") == ()
    with pytest.raises(SmilesError):
        inchikey_skeletons("C1CC")
