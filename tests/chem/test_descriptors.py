"""Descriptors: RDKit's values for any SMILES of a molecule; NaN and not an error where there is none."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, rdMolDescriptors

from molattn.chem import DESCRIPTORS, FEW_DESCRIPTORS, descriptors, random_smiles, read_smiles
from molattn.errors import SmilesError, UsageError
from tests.molecules import SPECIAL, esol

SMILES, _ = esol(20)


def test_values_are_those_of_rdkit() -> None:
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


def test_names_are_complete_and_distinct() -> None:
    assert len(set(DESCRIPTORS)) == len(DESCRIPTORS) > 200
    assert set(FEW_DESCRIPTORS) <= set(DESCRIPTORS)


@pytest.mark.parametrize("smiles", SMILES[:5])
def test_all_smiles_of_a_molecule_have_the_same_values(smiles: str) -> None:
    other = random_smiles(read_smiles(smiles), 3)
    np.testing.assert_allclose(descriptors(other), descriptors(smiles), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("smiles", SPECIAL)
def test_values_that_are_not_finite_are_nan(smiles: str) -> None:
    found = descriptors(smiles)
    assert found.shape == (len(DESCRIPTORS),)
    assert not np.isinf(found).any()
    assert np.isfinite(found[DESCRIPTORS.index("MolWt")])


def test_mercury_has_no_partial_charges() -> None:
    assert np.isnan(descriptors("C[Hg]C", ("MaxPartialCharge", "BCUT2D_CHGHI"))).all()


def test_invalid_smiles_are_rejected() -> None:
    with pytest.raises(SmilesError, match="spelling"):
        descriptors("C1CC")


def test_an_unknown_name_is_refused_and_none_gives_none() -> None:
    with pytest.raises(UsageError, match="unknown descriptor 'TPSAA': did you mean 'TPSA'"):
        descriptors("CCO", ("TPSAA",))
    assert descriptors("CCO", ()).shape == (0,)
