"""Descriptors: RDKit's own numbers, whatever the spelling; NaN and not an error where there is none."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, rdMolDescriptors

from molattn.chem import DESCRIPTORS, FEW_DESCRIPTORS, descriptors, random_smiles, read_smiles
from molattn.errors import SmilesError
from tests.molecules import SPECIAL, esol

SMILES, _ = esol(20)


def test_they_are_rdkits() -> None:
    names = ("MolLogP", "MolMR", "TPSA", "fr_phenol")
    for smiles in SMILES:
        mol = Chem.MolFromSmiles(smiles)
        expected = [
            Crippen.MolLogP(mol),
            Crippen.MolMR(mol),
            rdMolDescriptors.CalcTPSA(mol),
            Descriptors.fr_phenol(mol),
        ]
        assert descriptors(smiles, names).tolist() == expected


def test_every_name_is_there_once() -> None:
    assert len(set(DESCRIPTORS)) == len(DESCRIPTORS) > 200
    assert set(FEW_DESCRIPTORS) <= set(DESCRIPTORS)


@pytest.mark.parametrize("smiles", SMILES[:5])
def test_a_spelling_changes_nothing(smiles: str) -> None:
    other = random_smiles(read_smiles(smiles), 3)
    np.testing.assert_allclose(descriptors(other), descriptors(smiles), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("smiles", SPECIAL)
def test_what_is_no_finite_number_is_nan(smiles: str) -> None:
    found = descriptors(smiles)
    assert found.shape == (len(DESCRIPTORS),)
    assert not np.isinf(found).any()
    assert np.isfinite(found[DESCRIPTORS.index("MolWt")])


def test_mercury_has_no_partial_charges() -> None:
    assert np.isnan(descriptors("C[Hg]C", ("MaxPartialCharge", "BCUT2D_CHGHI"))).all()


def test_what_is_no_molecule_is_refused() -> None:
    with pytest.raises(SmilesError, match="spelling"):
        descriptors("C1CC")
