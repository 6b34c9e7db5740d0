"""The applicability domain: distances, similarities and limits."""

import numpy as np
import pytest

from molattn.chem import Fingerprints, morgan_bits
from molattn.models.applicability_domain import LABELS, ApplicabilityDomain, max_tanimoto, mean_nearest_distance
from tests.molecules import SPECIAL, esol


def test_similarity_is_that_of_rdkit_and_1_without_bits() -> None:
    smiles = [*esol(60)[0], *SPECIAL]
    bits = morgan_bits(smiles)
    fingerprints = Fingerprints(smiles)
    full = np.array([fingerprints.similarities(i) for i in range(len(smiles))])
    np.testing.assert_allclose(max_tanimoto(bits, bits), full.max(1), atol=1e-6)
    np.fill_diagonal(full, -1)
    np.testing.assert_allclose(max_tanimoto(bits, bits, exclude_self=True), full.max(1), atol=1e-6)
    nothing = np.zeros((1, 256), dtype=np.uint8)
    assert max_tanimoto(nothing, nothing) == [1.0] and max_tanimoto(nothing, bits[:1]) == [0.0]


@pytest.mark.parametrize("m", [3, 700])
def test_distances_to_the_nearest_five_by_sorting(m: int) -> None:
    draw = np.random.default_rng(0)
    x, others = draw.normal(size=(600, 4)), draw.normal(size=(m, 4))
    distances = np.sort(np.linalg.norm(x[:, None] - others, axis=2), 1)
    np.testing.assert_allclose(mean_nearest_distance(x, others), distances[:, :5].mean(1))
    own = np.sort(np.linalg.norm(others[:, None] - others, axis=2), 1)[:, 1:]
    np.testing.assert_allclose(mean_nearest_distance(others, others, exclude_self=True), own[:, :5].mean(1), atol=1e-7)


def test_95_percent_of_the_training_molecules_are_within_each_limit() -> None:
    draw = np.random.default_rng(0)
    embeddings, bits = draw.normal(size=(400, 6)), morgan_bits(esol(400)[0])
    domain = ApplicabilityDomain.fit(embeddings, bits)
    apart = mean_nearest_distance(embeddings, embeddings, exclude_self=True)
    assert (apart <= domain.max_distance).mean() == pytest.approx(0.95, abs=0.003)
    assert (max_tanimoto(bits, bits, exclude_self=True) >= domain.min_similarity).mean() >= 0.95
    x = np.concatenate([embeddings[:1], embeddings[:1] + 50])
    strange = morgan_bits(["F[Xe]F", esol(400)[0][0]])
    distances, alike, flags = domain.measure(x, strange)
    assert flags == ["fingerprint", "embedding"]
    assert distances[1] > 100 and alike[1] == 1.0
    assert domain.measure(x[1:], strange[:1])[2] == ["both"] and set(flags) < set(LABELS)
