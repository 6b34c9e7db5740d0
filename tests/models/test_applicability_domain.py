"""The applicability domain: distances, similarities and limits."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from molattn.chem import Fingerprints, molecule_graph, morgan_bits
from molattn.models import batching
from molattn.models.applicability_domain import OUT_OF_DOMAIN, ApplicabilityDomain, max_tanimoto, mean_nearest_distance
from molattn.models.artifact import Artifact
from molattn.models.blended_trees import weighted_average
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_embeddings
from molattn.models.predictions import Predictions
from molattn.models.tasks import REGRESSION, Binary
from molattn.training.build_artifact import fit_domain
from tests.assertions import assert_same_predictions
from tests.models.forms import FORMS, TOKENS, _artifact
from tests.molecules import SPECIAL, esol

TWELVE = esol(12)[0]
GRAPHS = [molecule_graph(smiles) for smiles in TWELVE]


def _model(**settings: object) -> GraphModel:
    torch.manual_seed(0)
    config = GraphModelConfig(hidden_dim=8, num_layers=1, num_heads=2, edge_dim=4)
    return GraphModel(config, **settings).eval()  # pyright: ignore[reportArgumentType]


def _rows_of(domain: ApplicabilityDomain | None, embeddings: np.ndarray) -> list[int]:
    """The molecules whose embeddings a domain has, in its order."""
    assert domain is not None
    return [int(np.linalg.norm(embeddings - row, axis=1).argmin()) for row in domain.embeddings]


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


@pytest.mark.parametrize("m", [3, 700])
def test_similarities_to_any_number_of_others_are_shared_bits_over_all_bits(m: int) -> None:
    bits, others = (np.random.default_rng(n).integers(0, 256, (n, 256), dtype=np.uint8) for n in (600, m))
    others[0] = 0
    a, b = (np.unpackbits(rows, axis=1).astype(int) for rows in (bits, others))
    both = a @ b.T
    tanimoto = both / (a.sum(1)[:, None] + b.sum(1) - both)
    np.testing.assert_allclose(max_tanimoto(bits, others), tanimoto.max(1), rtol=1e-6)
    both = b[1:] @ b[1:].T
    own = both / (b[1:].sum(1)[:, None] + b[1:].sum(1) - both)
    np.fill_diagonal(own, 0)
    np.testing.assert_allclose(max_tanimoto(others[1:], others[1:], exclude_self=True), own.max(1), rtol=1e-6)


def test_many_training_molecules_are_compared_in_bounded_memory() -> None:
    m = 20_000
    bits, embeddings = np.zeros((m, 256), dtype=np.uint8), np.zeros((m, 4), dtype=np.float32)
    tracemalloc.start()
    assert max_tanimoto(bits[:1], bits) == [1.0]
    assert not mean_nearest_distance(embeddings[:600], embeddings).any()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # the bits of all molecules as float32 have 160 MB, all distances 100 MB


def test_95_percent_of_the_training_molecules_are_within_each_limit() -> None:
    draw = np.random.default_rng(0)
    embeddings, bits = draw.normal(size=(400, 6)), morgan_bits(esol(400)[0])
    domain = ApplicabilityDomain.fit(embeddings, bits)
    distances_to_others = mean_nearest_distance(embeddings, embeddings, exclude_self=True)
    assert (distances_to_others <= domain.max_distance).mean() == pytest.approx(0.95, abs=0.003)
    assert (max_tanimoto(bits, bits, exclude_self=True) >= domain.min_similarity).mean() >= 0.95
    x = np.concatenate([embeddings[:1], embeddings[:1] + 50])
    other_bits = morgan_bits(["F[Xe]F", esol(400)[0][0]])
    distances, similarities = domain.distances(x), domain.similarities(other_bits)
    flags = domain.flags(distances, similarities)
    assert flags == ["fingerprint", "embedding"]
    assert distances[1] > 100 and similarities[1] == 1.0
    assert domain.flags(distances[1:], similarities[:1]) == ["both"] and set(flags) < set(OUT_OF_DOMAIN)


def test_the_domain_has_each_training_molecule_once_in_their_order() -> None:
    model = _model()
    twice = [3, 0, 3, 1, 0, 2]
    molecules, keys = [GRAPHS[i] for i in twice], [TWELVE[i] for i in twice]
    domain = fit_domain(model, molecules, keys, 100, 0)
    assert domain is not None
    once = [3, 0, 1, 2]
    np.testing.assert_allclose(domain.embeddings, compute_embeddings(model, [GRAPHS[i] for i in once]), rtol=1e-5)
    np.testing.assert_array_equal(domain.bits, morgan_bits([TWELVE[i] for i in once]))


def test_a_large_training_set_is_represented_by_a_sample_of_its_molecules() -> None:
    model = _model()
    embeddings = compute_embeddings(model, GRAPHS)
    samples = [_rows_of(fit_domain(model, GRAPHS, TWELVE, 9, seed), embeddings) for seed in (0, 0, 1, 2)]
    for sample in samples:
        assert len(set(sample)) == 9 and sample == sorted(sample)
    assert samples[0] == samples[1]
    assert len({tuple(sample) for sample in samples}) > 1
    for size in (12, 13):
        assert _rows_of(fit_domain(model, GRAPHS, TWELVE, size, 0), embeddings) == list(range(12))


def test_two_molecules_are_a_domain_and_fewer_are_none() -> None:
    model = _model()
    for size, molecules in ((2, GRAPHS), (100, GRAPHS[:2])):
        domain = fit_domain(model, molecules, TWELVE[: len(molecules)], size, 0)
        assert domain is not None and len(domain.embeddings) == len(domain.bits) == 2
    assert fit_domain(model, GRAPHS, TWELVE, 0, 0) is None
    assert fit_domain(model, GRAPHS[:1] * 3, TWELVE[:1] * 3, 100, 0) is None
    assert fit_domain(_model(atom_level=True), GRAPHS, TWELVE, 100, 0) is None


def test_descriptors_are_part_of_the_embeddings_of_the_domain() -> None:
    z = np.random.default_rng(0).normal(size=(12, 2))
    domain = fit_domain(_model(num_descriptors=2), GRAPHS, TWELVE, 5, 0, z)
    assert domain is not None
    rows = [int(np.abs(z - row).sum(1).argmin()) for row in domain.embeddings[:, -2:]]
    assert len(set(rows)) == 5
    np.testing.assert_allclose(domain.embeddings[:, -2:], z[rows], rtol=1e-6)
    np.testing.assert_array_equal(domain.bits, morgan_bits([TWELVE[i] for i in rows]))


WITH_DISTANCES: dict[str, Callable[[], Artifact]] = {
    "graph": FORMS["distances"],
    "tokens": lambda: _artifact(config=TOKENS, domain=FORMS["distances"]().domain),
    "classes": lambda: _artifact("pq", task=Binary(), domain=FORMS["distances"]().domain),
    "ensemble": lambda: _artifact(size=3, domain=FORMS["distances"]().domain),
    "dropout": lambda: replace(FORMS["distances"](), uncertainty_method="dropout"),
}


@pytest.mark.parametrize("form", WITH_DISTANCES)
def test_distances_are_of_the_embeddings_and_cost_no_second_pass(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = WITH_DISTANCES[form]()
    molecules = [artifact.model.reader(artifact.read_options)(smiles) for smiles in TWELVE]
    assert artifact.domain is not None
    wanted, expected = artifact.domain.distances(artifact.embed(molecules)), artifact.predict(molecules)
    assert expected.distance is None

    passes: list[Any] = []
    counted = batching.batches_by_size
    monkeypatch.setattr(batching, "batches_by_size", lambda *args: passes.append(args) or counted(*args))
    artifact.predict(molecules)
    without = len(passes)
    found = artifact.predict(molecules, with_distances=True)
    assert len(passes) == 2 * without > 0

    assert found.distance is not None
    assert_same_predictions(found.distance, wanted)
    assert_same_predictions(found.values, expected.values)
    if expected.std is not None:
        assert found.std is not None
        assert_same_predictions(found.std, expected.std)
    assert replace(artifact, domain=None).predict(molecules, with_distances=True).distance is None


def test_trees_change_no_distances() -> None:
    draw = np.random.default_rng(0)
    for task, columns in ((REGRESSION, 1), (Binary(), 1)):
        outputs = [Predictions(draw.random((5, columns)), np.empty((5, 0)), distance=draw.random(5)) for _ in range(2)]
        average = weighted_average(task, *outputs, [0.3])
        assert average.distance is outputs[0].distance
