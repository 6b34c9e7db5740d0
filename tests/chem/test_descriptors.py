"""Descriptors: RDKit's values for any SMILES of a molecule; NaN, not an error, for undefined values."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, rdFingerprintGenerator, rdMolDescriptors

from molattn.chem import (
    DESCRIPTORS,
    FEW_DESCRIPTORS,
    descriptors,
    featurizer_descriptors,
    random_smiles,
    read_smiles,
    unknown_descriptors,
)
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


def test_columns_of_the_fingerprint_are_logarithms_of_the_counts_of_rdkit() -> None:
    columns = featurizer_descriptors(["morgan_count"])
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    assert len(set(columns)) == 1024 and unknown_descriptors(columns) == []
    for smiles in SMILES[:5]:
        expected = np.log(1.0 + generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(smiles)))
        np.testing.assert_allclose(descriptors(smiles, columns), expected)
        other = random_smiles(read_smiles(smiles), 3)
        np.testing.assert_array_equal(descriptors(other, columns), descriptors(smiles, columns))
    # Chains of any length have the same bits, and not the same counts.
    assert (descriptors("CCCCCCCC", columns) > 0).sum() == (descriptors("CCCCCCCCCC", columns) > 0).sum()
    assert descriptors("CCCCCCCC", columns).sum() < descriptors("CCCCCCCCCC", columns).sum()


def test_columns_of_the_fingerprint_and_other_descriptors_come_in_any_order() -> None:
    names = ("morgan_count_80", "TPSA", "morgan_count_1", "MolLogP", "morgan_count_80")
    found = descriptors("CC(C)O", names)
    assert found.tolist() == [float(descriptors("CC(C)O", (name,))[0]) for name in names]
    with pytest.raises(UsageError, match="unknown descriptor 'morgan_count_1024'"):
        descriptors("CCO", ("TPSA", "morgan_count_1024"))


@pytest.mark.parametrize("smiles", SPECIAL)
def test_every_molecule_has_a_fingerprint(smiles: str) -> None:
    assert np.isfinite(descriptors(smiles, featurizer_descriptors(["morgan_count"]))).all()
