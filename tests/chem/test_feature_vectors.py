"""Feature vectors against RDKit, and for any SMILES of a molecule."""

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Avalon.pyAvalonTools import GetAvalonCountFP
from rdkit.Chem import rdFingerprintGenerator, rdReducedGraphs

from molattn.chem import (
    FEATURE_LENGTHS,
    feature_columns,
    feature_vectors,
    morgan_environments,
    nci_molecules,
    random_smiles,
)
from molattn.errors import SmilesError, UsageError
from tests.molecules import esol

SMILES = [*esol(60)[0], "C", "[Na+].[Cl-]", "[U]", "C[C@H](N)C(=O)O", "F/C=C/F"]


def _avalon(mol: Chem.Mol) -> np.ndarray:
    counts = np.zeros(1024)
    DataStructs.ConvertToNumpyArray(GetAvalonCountFP(mol, nBits=1024), counts)
    return counts


def test_features_are_those_of_rdkit() -> None:
    found = feature_vectors(SMILES)
    assert found.dtype == np.float32 and found.shape == (len(SMILES), sum(FEATURE_LENGTHS.values()))
    columns = feature_columns(tuple(FEATURE_LENGTHS))
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    for text, row in zip(SMILES, found, strict=True):
        np.testing.assert_array_equal(
            row[columns["morgan_count"]], morgan.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(text))
        )
        np.testing.assert_array_equal(row[columns["avalon_count"]], _avalon(Chem.MolFromSmiles(text)))
        erg = rdReducedGraphs.GetErGFingerprint(Chem.MolFromSmiles(text))
        np.testing.assert_allclose(row[columns["erg"]], erg, rtol=1e-6)


def test_a_descriptor_without_a_value_is_zero_and_nothing_is_infinite() -> None:
    found = feature_vectors([*SMILES, "*", "[He]", "[Fe+2]"])
    assert np.isfinite(found).all()


@pytest.mark.parametrize("seed", range(3))
def test_all_smiles_of_a_molecule_have_the_same_features(seed: int) -> None:
    smiles = list(nci_molecules(80))[:150]
    other = [random_smiles(Chem.MolFromSmiles(text), seed) for text in smiles]
    np.testing.assert_allclose(feature_vectors(other), feature_vectors(smiles), rtol=1e-5, atol=1e-5)


def test_workers_change_nothing_and_some_featurizers_are_some_columns() -> None:
    whole = feature_vectors(SMILES[:20])
    np.testing.assert_array_equal(feature_vectors(SMILES[:20], num_workers=2), whole)
    columns = feature_columns(tuple(FEATURE_LENGTHS))
    some = feature_vectors(SMILES[:20], ["erg", "morgan_count"])
    np.testing.assert_array_equal(some[:, : FEATURE_LENGTHS["erg"]], whole[:, columns["erg"]])
    np.testing.assert_array_equal(some[:, FEATURE_LENGTHS["erg"] :], whole[:, columns["morgan_count"]])
    assert feature_vectors([]).shape == (0, whole.shape[1])


def test_environments_are_as_many_as_are_counted() -> None:
    columns = feature_columns(tuple(FEATURE_LENGTHS))
    for text, row in zip(SMILES, feature_vectors(SMILES), strict=True):
        counts = row[columns["morgan_count"]]
        found = morgan_environments(text)
        assert {bit: len(atoms) for bit, atoms in found.items()} == {b: int(counts[b]) for b in np.flatnonzero(counts)}
        n = Chem.MolFromSmiles(text).GetNumAtoms()
        # Each atom alone is a substructure of radius 0.
        assert sorted(i for places in found.values() for atoms in places if len(atoms) == 1 for i in atoms) >= [
            *range(n)
        ]


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(SmilesError, match="cannot read"):
        feature_vectors(["CCO", "foo"])
    with pytest.raises(UsageError, match="morgan_count"):
        feature_vectors(["CCO"], ["ecfp"])
    with pytest.raises(UsageError, match="unknown featurizer 'ecfp': choose one of morgan_count"):
        feature_columns(["ecfp"])
    with pytest.raises(UsageError, match="a featurizer is named twice: erg, morgan_count, erg"):
        feature_columns(["erg", "morgan_count", "erg"])
