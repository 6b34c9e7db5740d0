"""Descriptor targets: RDKit's values, standardised with the training molecules only."""

import numpy as np
import pytest

from molattn.chem import FEW_DESCRIPTORS, descriptors
from molattn.errors import SmilesError
from molattn.training.descriptors import CLIP, compute_descriptors, standardize_targets
from tests.molecules import esol

SMILES, _ = esol(30)


def test_values_are_the_descriptors_row_by_row() -> None:
    found = compute_descriptors(SMILES, FEW_DESCRIPTORS)
    np.testing.assert_array_equal(found, [descriptors(s, FEW_DESCRIPTORS) for s in SMILES])
    assert compute_descriptors([], FEW_DESCRIPTORS).shape == (0, len(FEW_DESCRIPTORS))
    with pytest.raises(SmilesError, match="C1CC"):
        compute_descriptors(["CCO", "C1CC"], FEW_DESCRIPTORS)


def test_scaling_and_filtering_use_the_training_molecules_only() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, (20, 4))
    values[:10, 1] = 7.0  # differs, but not among the training molecules
    values[:3, 2] = np.nan  # missing for three of ten
    values[0, 3] = np.nan
    train = np.arange(10)
    found = standardize_targets(["a", "constant", "missing", "once"], values, train)
    assert found.names == ("a", "once")
    assert found.dropped == {"constant": "constant", "missing": "not finite"}
    other = values.copy()
    other[10:] += 100.0
    again = standardize_targets(["a", "constant", "missing", "once"], other, train)
    assert again.scaler == found.scaler
    np.testing.assert_array_equal(again.z[:10], found.z[:10])
    z = found.z[train]
    np.testing.assert_allclose(np.nanmean(z, 0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(z, 0), 1.0)
    assert np.isnan(z[0, 1])


def test_outliers_are_clipped() -> None:
    values = np.concatenate([np.random.default_rng(0).normal(0, 1, (100, 1)), [[1e6]]])
    found = standardize_targets(["y"], values, np.arange(100))
    assert found.z[-1, 0] == CLIP
    np.testing.assert_allclose(found.scaler.unscale(found.z[:100]), values[:100])


def test_a_target_with_too_few_differing_molecules_is_dropped() -> None:
    values = np.zeros((50, 1))
    values[:4] = 1.0
    assert standardize_targets(["rare"], values, np.arange(50), min_differing=5).names == ()
    assert standardize_targets(["rare"], values, np.arange(50), min_differing=4).names == ("rare",)
