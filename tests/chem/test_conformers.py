"""Geometries: reproducible, plausible, the same for all SMILES of a molecule, and never silently missing."""

import pickle
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from rdkit.Chem import rdForceFieldHelpers

import molattn.chem.molecule
from molattn.chem import (
    BOND_LENGTH,
    NO_GEOMETRY,
    NOT_OPTIMIZED,
    ConformerOptions,
    MoleculeGraph,
    conformer,
    featurize,
    from_pyg,
    molecule_graph,
    random_smiles,
    read_smiles,
    to_pyg,
)
from molattn.errors import ConformerError, InputError, SmilesError

from .molecules import CAGES, DRUGLIKE, STEREO

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
IMPOSSIBLE = "C1CC2CC1=C2"
"""A double bond at a bridgehead of small rings: RDKit gives up in well under a second."""
# A cubane with inverted corners: RDKit searches for a conformer for many seconds.
SLOW = "[C@@]12({0})[C@@]3({0})[C@@]4({0})[C@@]1({0})[C@@]5({0})[C@@]2({0})[C@@]3({0})[C@@]45{0}".format("C(C)C")


def distances(smiles: str, settings: ConformerOptions | None = None, add_hs: bool = False) -> np.ndarray:
    d = molecule_graph(smiles, add_hs=add_hs, conformers=settings or ConformerOptions()).distances
    assert d is not None
    return d


def test_without_conformers_there_are_no_distances():
    assert molecule_graph(ASPIRIN).distances is None


@pytest.mark.parametrize("smiles", ["C", "CC", ASPIRIN, "[Na+].[Cl-]", "CC(=O)[O-].[NH4+]", "[H][H]", CAGES[0]])
def test_distances_are_those_of_the_coordinates(smiles: str):
    x, _ = conformer(smiles)
    graph = molecule_graph(smiles, conformers=ConformerOptions())
    d, n = graph.distances, graph.num_atoms
    assert d is not None
    assert x.shape == (n, 3)
    assert d.shape == (n, n)
    assert (x.dtype, d.dtype) == (np.float64, np.float32)
    assert np.array_equal(d, d.T)
    assert not d.diagonal().any()
    together = graph.path_lengths != 255
    expected = np.linalg.norm(x[:, None] - x[None], axis=-1)
    np.testing.assert_allclose(d[together], expected[together], rtol=1e-6)
    assert np.isinf(d[~together]).all()
    assert (d[together & ~np.eye(n, dtype=bool)] > 0.5).all()


def test_bonds_have_their_lengths():
    assert 1.45 < distances("CC")[0, 1] < 1.60
    assert 1.30 < distances("C=C")[0, 1] < 1.36
    ring = distances("c1ccccc1")
    assert all(1.37 < ring[i, (i + 1) % 6] < 1.42 for i in range(6))
    # Across the ring: twice the side of a regular hexagon.
    assert ring[0, 3] == pytest.approx(2 * ring[0, 1], abs=0.02)
    methane = distances("C", add_hs=True)
    assert methane[0, 1:] == pytest.approx([1.09] * 4, abs=0.02)


def test_a_geometry_distinguishes_what_a_graph_does_not():
    assert distances("F/C=C\\F")[0, 3] < distances("F/C=C/F")[0, 3] - 0.5


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_geometry():
    x, _ = conformer(ASPIRIN, seed=0)
    assert np.array_equal(x, conformer(ASPIRIN, seed=0).coordinates)
    assert not np.allclose(distances(ASPIRIN), distances(ASPIRIN, ConformerOptions(seed=1)), atol=0.05)


def test_hydrogens_are_always_embedded_and_removed_unless_requested():
    without, every = conformer(ASPIRIN).coordinates, conformer(ASPIRIN, add_hs=True).coordinates
    assert (len(without), len(every)) == (13, 21)
    assert np.array_equal(without, every[:13])


@pytest.mark.parametrize(
    ("one", "other", "places"),
    [
        ("CCO", "OCC", [2, 1, 0]),
        ("C[C@H](N)C(=O)O", "N[C@@H](C)C(=O)O", [2, 1, 0, 3, 4, 5]),
        ("[Na+].CC(=O)[O-]", "CC(=O)[O-].[Na+]", [4, 0, 1, 2, 3]),
    ],
)
def test_all_smiles_of_a_molecule_have_the_same_distances(one: str, other: str, places: list[int]):
    assert np.array_equal(distances(one), distances(other)[np.ix_(places, places)])


@pytest.mark.parametrize("smiles", [*DRUGLIKE[1::4], *STEREO[::4], *CAGES[::3]])
def test_random_smiles_have_the_same_distances_to_the_bit(smiles: str):
    expected = np.sort(distances(smiles), axis=None)
    for seed in range(2):
        spelled = random_smiles(read_smiles(smiles), seed)
        assert np.array_equal(np.sort(distances(spelled), axis=None), expected)


def test_mirror_images_have_about_the_same_distances():
    one, other = distances("C[C@H](N)C(=O)O"), distances("C[C@@H](N)C(=O)O")
    bonded = molecule_graph("C[C@H](N)C(=O)O").path_lengths <= 2
    np.testing.assert_allclose(one[bonded], other[bonded], atol=0.05)


def test_fragments_are_embedded_independently():
    both = distances("CCO.[I-].c1ccccc1")
    assert np.array_equal(both[:3, :3], distances("CCO"))
    assert np.array_equal(both[4:, 4:], distances("c1ccccc1"))
    assert np.isinf(both[:3, 3:]).all()
    assert both[3, 3] == 0


@pytest.mark.parametrize("smiles", [*DRUGLIKE[:12], *STEREO[:6]])
def test_ordinary_molecules_have_a_geometry_without_a_warning(smiles: str):
    graph = molecule_graph(smiles, conformers=ConformerOptions())
    assert replace(graph, distances=None) == molecule_graph(smiles)


@pytest.mark.parametrize("smiles", ["OB(O)C", "[H][H]"])
def test_without_mmff_parameters_the_geometry_is_that_of_etkdg_with_a_warning(smiles: str):
    graph = molecule_graph(smiles, conformers=ConformerOptions())
    assert graph.warnings[-1] == f"{NOT_OPTIMIZED}MMFF94 has no parameters for it"
    assert graph.distances is not None
    assert 0.5 < graph.distances[0, 1] < 1.7


def test_a_single_atom_needs_no_parameters():
    assert molecule_graph("[Re].[H+]", conformers=ConformerOptions()).warnings == ()


def test_an_optimization_that_does_not_converge_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rdForceFieldHelpers, "MMFFOptimizeMolecule", lambda *_, **__: 1)
    assert conformer("CC").warnings == (f"{NOT_OPTIMIZED}MMFF94 finds no minimum in 2,000 steps",)


def test_a_molecule_without_a_geometry_is_an_error_in_one_sentence():
    with pytest.raises(ConformerError, match=r"'C1CC2CC1=C2': RDKit finds no 3D geometry that fits") as caught:
        conformer(IMPOSSIBLE)
    assert isinstance(caught.value, SmilesError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_the_timeout_is_respected():
    start = time.monotonic()
    with pytest.raises(ConformerError, match="within 1 s"):
        conformer(SLOW, timeout=1)
    assert time.monotonic() - start < 10


def test_fragments_over_the_limit_are_rejected_at_once():
    start = time.monotonic()
    with pytest.raises(ConformerError, match="a fragment of 452 atoms, hydrogens included, is over the limit of 400"):
        conformer("C" * 150)
    assert time.monotonic() - start < 2


def test_path_lengths_replace_distances_with_a_warning():
    graph = molecule_graph(f"{IMPOSSIBLE}.O", conformers=ConformerOptions())
    assert graph.distances is not None
    expected = np.where(graph.path_lengths == 255, np.inf, BOND_LENGTH * graph.path_lengths).astype(np.float32)
    assert np.array_equal(graph.distances, expected)
    (warning,) = graph.warnings
    assert warning.startswith(NO_GEOMETRY)
    assert "1.4 angstrom: RDKit finds no 3D geometry" in warning


@pytest.mark.parametrize("policy", ["reject", "stop"])
def test_one_molecule_without_a_geometry_raises_under_the_other_policies(policy: str):
    with pytest.raises(ConformerError):
        molecule_graph(IMPOSSIBLE, conformers=ConformerOptions(on_failure=policy))


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"seed": -1}, "seed"), ({"timeout": 0}, "timeout"), ({"on_failure": "retry"}, "choose one of paths, reject")],
)
def test_settings_out_of_range_are_rejected(settings: dict, says: str):
    with pytest.raises(ValueError, match=says):
        ConformerOptions(**settings)


ROWS = ["CCO", "C1CC", IMPOSSIBLE, *DRUGLIKE[2:20], None, "CCO"]


def same(one: MoleculeGraph | SmilesError, other: MoleculeGraph | SmilesError) -> bool:
    if isinstance(one, SmilesError) or isinstance(other, SmilesError):
        return str(one) == str(other)
    return one == other


def test_workers_keep_order_and_bits_and_report_progress():
    calls: list[tuple[int, int]] = []
    alone = featurize(ROWS, conformers=ConformerOptions(), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(done, len(ROWS)) for done in range(1, len(ROWS) + 1)]
    calls.clear()
    shared = featurize(
        ROWS, conformers=ConformerOptions(), num_workers=2, progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1] == (len(ROWS), len(ROWS))
    assert len(calls) > 1
    assert len(alone) == len(shared) == len(ROWS)
    assert all(map(same, alone, shared))
    assert [k for k, outcome in enumerate(alone) if isinstance(outcome, SmilesError)] == [1, len(ROWS) - 2]


def test_reject_makes_the_row_an_error_and_continues():
    made = featurize(ROWS, conformers=ConformerOptions(on_failure="reject"))
    assert [k for k, outcome in enumerate(made) if isinstance(outcome, SmilesError)] == [1, 2, len(ROWS) - 2]
    assert isinstance(made[2], ConformerError)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_stop_raises_the_error_with_its_row(num_workers: int):
    calls: list[int] = []
    with pytest.raises(ConformerError) as caught:
        featurize(
            [*ROWS, *["CC"] * 40],
            conformers=ConformerOptions(on_failure="stop"),
            num_workers=num_workers,
            progress=lambda done, _: calls.append(done),
        )
    assert caught.value.row == 2
    assert max(calls, default=0) <= 2


def test_progress_is_reported_without_conformers_too(monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(molattn.chem.molecule, "distances", None)
    featurize(["C", "CC"], progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


def test_permute_and_equality_include_distances():
    graph = molecule_graph(ASPIRIN, conformers=ConformerOptions())
    order = np.random.default_rng(0).permutation(graph.num_atoms).tolist()
    moved = graph.permute(order)
    assert graph.distances is not None
    assert moved.distances is not None
    assert moved.distances[0, 1] == graph.distances[order[0], order[1]]
    assert moved.permute(np.argsort(order).tolist()) == graph
    assert graph != replace(graph, distances=None)
    assert graph != replace(graph, distances=graph.distances + 1)


@pytest.mark.parametrize("change", [lambda d: d[:1], lambda d: d.astype(np.float64)])
def test_distances_of_another_shape_or_type_are_rejected(change: Callable[[np.ndarray], np.ndarray]):
    graph = molecule_graph("CCO", conformers=ConformerOptions())
    assert graph.distances is not None
    with pytest.raises(Exception, match="distances"):
        replace(graph, distances=change(graph.distances))


def test_pyg_carries_distances_there_and_back():
    graph = molecule_graph("[Na+].CC(=O)[O-]", conformers=ConformerOptions())
    data = to_pyg(graph)
    assert data.distances.shape == (25,)
    receiver, sender = data.edge_index[1], data.edge_index[0]
    (edge,) = torch.nonzero((receiver == 1) & (sender == 2)).flatten()
    assert graph.distances is not None
    assert data.distances[edge] == float(graph.distances[1, 2])
    shuffled = torch.randperm(25, generator=torch.Generator().manual_seed(0))
    for name in ("edge_index", "edge_attr", "distances"):
        data[name] = data[name][..., shuffled] if name != "edge_attr" else data[name][shuffled]
    assert from_pyg(data) == graph
    data.distances = data.distances[:3]
    with pytest.raises(InputError, match="distances must be"):
        from_pyg(data)
