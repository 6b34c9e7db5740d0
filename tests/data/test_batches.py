"""Batches: their padding, and the samplers."""

import numpy as np
import pytest
import torch

from molattn.chem import ConformerOptions, MoleculeGraph, molecule_graph, smiles_tokens
from molattn.data.store.batches import BucketBatchSampler, batches_by_size, collate, collate_tokens
from molattn.data.store.cache import Featurization, cached_molecules
from molattn.data.store.packing import GraphPacking, TokenPacking


def _graphs(*smiles: str) -> list[MoleculeGraph]:
    return [molecule_graph(s, conformers=ConformerOptions()) for s in smiles]


def test_distances_are_padded_with_zeros_and_moved_with_the_rest() -> None:
    graphs = _graphs("C", "[Na+].[Cl-]", "CCO")
    batch = collate(graphs)
    assert batch.distances is not None
    assert batch.distances.shape == (3, 3, 3)
    for padded, graph in zip(batch.distances.numpy(), graphs, strict=True):
        n = graph.num_atoms
        assert np.array_equal(padded[:n, :n], graph.distances)
        assert not padded[n:].any()
        assert not padded[:, n:].any()
    assert np.isinf(batch.distances[1, 0, 1].item())
    moved = batch.to("meta").distances
    assert moved is not None
    assert moved.device.type == "meta"


def test_molecules_without_distances_make_a_batch_without() -> None:
    batch = collate([molecule_graph("C"), molecule_graph("CC")])
    assert batch.distances is None
    assert batch.to("cpu").distances is None


def test_molecules_with_and_without_do_not_mix() -> None:
    with pytest.raises(ValueError, match="1 of 2 molecules have distances"):
        collate([*_graphs("C"), molecule_graph("CC")])


def test_codes_are_those_of_the_molecules_and_padding_is_zero() -> None:
    graphs = [molecule_graph(s) for s in ("CC(=O)O", "C", "CCO")]
    targets = np.array([[1.0], [np.nan], [3.0]])
    descriptors = np.array([[0.5], [1.5], [2.5]])
    batch = collate(graphs, targets, descriptors)
    assert len(batch) == 3
    assert batch.mask.tolist() == [[True] * 4, [True] + [False] * 3, [True] * 3 + [False]]
    for i, graph in enumerate(graphs):
        n = graph.num_atoms
        for name in ("bond_codes", "path_lengths"):
            padded = getattr(batch, name)[i].numpy().copy()
            assert np.array_equal(padded[:n, :n], getattr(graph, name))
            padded[:n, :n] = 0
            assert not padded.any()
        assert np.array_equal(batch.atom_codes[i, :n], graph.atom_codes)
        assert not batch.atom_codes[i, n:].any()
    assert batch.targets is not None and batch.descriptors is not None
    assert batch.targets.dtype == torch.float64 and batch.descriptors.dtype == torch.float32
    assert np.array_equal(batch.targets.numpy(), targets, equal_nan=True)
    assert np.array_equal(batch.descriptors.numpy(), descriptors)
    alone = collate(graphs)
    assert alone.targets is None and alone.descriptors is None


def test_molecules_of_a_store_are_padded_alike() -> None:
    smiles = ["CC(=O)O", "C", "CCO"]
    targets, descriptors = np.array([[1.0], [2.0], [3.0]]), np.array([[4.0], [5.0], [6.0]])
    for make, packing, batch in (
        (molecule_graph, GraphPacking(), collate),
        (smiles_tokens, TokenPacking(), collate_tokens),
    ):
        store = cached_molecules(smiles, Featurization(make, packing, {})).molecules
        ours, theirs = batch(store, targets, descriptors), batch([make(s) for s in smiles], targets, descriptors)
        for name, x in vars(theirs).items():
            found = getattr(ours, name)
            assert (x is None and found is None) or (x.dtype == found.dtype and torch.equal(x, found)), name


def test_rows_of_tokens() -> None:
    rows = [smiles_tokens(s) for s in ("CCO", "C")]
    batch = collate_tokens(rows, np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    assert len(batch) == 2
    assert batch.codes.tolist() == [rows[0].codes.tolist(), [*rows[1].codes.tolist(), 0, 0]]
    moved = batch.to("meta")
    assert all(x is not None and x.device.type == "meta" for x in vars(moved).values())
    alone = collate_tokens(rows)
    assert alone.targets is None and alone.descriptors is None


@pytest.mark.parametrize(("count", "size", "batches"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (60, 8, 8)])
def test_random_batches_contain_every_molecule_once(count: int, size: int, batches: int) -> None:
    sampler = BucketBatchSampler([i % 7 for i in range(count)], size, seed=0)
    assert len(sampler) == batches
    if count:
        found = list(sampler)
        assert sorted(i for batch in found for i in batch) == list(range(count))
        assert sorted(map(len, found)) == sorted([size] * (count // size) + [count % size] * bool(count % size))


def test_every_epoch_is_shuffled_reproducibly() -> None:
    sampler = BucketBatchSampler(list(range(40)), 4, seed=0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first != list(BucketBatchSampler(list(range(40)), 4, seed=1))


def test_only_pools_of_batches_are_sorted_by_size() -> None:
    sizes = np.random.default_rng(0).permutation(64)
    whole = BucketBatchSampler(sizes, 4, seed=0, pool_size=16)
    assert sorted(sorted(sizes[batch].tolist()) for batch in whole) == [list(range(i, i + 4)) for i in range(0, 64, 4)]
    # The order of batches is random: the first batches of an epoch are not all of small molecules.
    assert [min(sizes[batch]) for batch in whole] != list(range(0, 64, 4))
    spreads = [
        np.mean([np.ptp(sizes[batch]) for batch in BucketBatchSampler(sizes, 4, seed=0, pool_size=pool)])
        for pool in (1, 2, 4, 16)
    ]
    assert spreads == sorted(spreads, reverse=True) and spreads[0] > 2 * spreads[2] > 2 * spreads[3]
    # All molecules of a batch are from one random pool.
    order = np.random.default_rng([0, 0]).permutation(64)
    pools = [set(order[i : i + 8].tolist()) for i in range(0, 64, 8)]
    assert all(any(set(batch) <= pool for pool in pools) for batch in BucketBatchSampler(sizes, 4, seed=0, pool_size=2))


@pytest.mark.parametrize(
    ("sizes", "batch_size", "pairs", "batches"),
    [
        ([], 2, 100, []),
        ([3], 2, 1, [[0]]),
        ([3, 1, 2, 5, 4], 2, 10**6, [[1, 2], [0, 4], [3]]),
        ([2, 2, 2, 2], 4, 16, [[0, 1, 2, 3]]),
        ([2, 2, 2, 2], 4, 15, [[0, 1, 2], [3]]),
        ([2, 2, 2, 2], 4, 12, [[0, 1, 2], [3]]),
        ([2, 2, 2, 2], 4, 11, [[0, 1], [2, 3]]),
        ([5, 5, 1], 9, 49, [[2], [0], [1]]),
        ([5, 5, 1], 9, 50, [[2, 0], [1]]),
        ([9, 9], 9, 10, [[0], [1]]),
        ([1, 1, 1, 1, 1], 2, 100, [[0, 1], [2, 3], [4]]),
    ],
)
def test_batches_of_a_prediction(sizes: list[int], batch_size: int, pairs: int, batches: list[list[int]]) -> None:
    assert [batch.tolist() for batch in batches_by_size(sizes, batch_size, pairs)] == batches


def test_molecules_of_one_size_keep_their_order() -> None:
    found = batches_by_size([i % 2 for i in range(200)], 100)
    assert [batch.tolist() for batch in found] == [list(range(0, 200, 2)), list(range(1, 200, 2))]


@pytest.mark.parametrize(
    ("pairs", "of_large"), [(49, [[6], [7], [8]]), (50, [[6, 7], [8]]), (99, [[6, 7, 8]]), (100, None), (None, None)]
)
def test_large_molecules_are_batched_separately(pairs: int | None, of_large: list[list[int]] | None) -> None:
    sizes = [2] * 6 + [5] * 3
    sampler = (
        BucketBatchSampler(sizes, 4, seed=0) if pairs is None else BucketBatchSampler(sizes, 4, seed=0, max_pairs=pairs)
    )
    for epoch in range(3):
        sampler.set_epoch(epoch)
        found = list(sampler)
        assert len(found) == len(sampler)
        assert sorted(i for batch in found for i in batch) == list(range(9))
        if of_large is None:
            assert sorted(map(len, found)) == [1, 4, 4]
        else:
            assert sorted(batch for batch in found if 6 in batch or 7 in batch or 8 in batch) == of_large
            assert sorted(len(batch) for batch in found if max(batch) < 6) == [2, 4]


def test_one_molecule_is_a_batch() -> None:
    batch = collate([molecule_graph("CCO")])
    assert len(batch) == 1 and batch.mask.all()
    assert np.array_equal(batch.atom_codes[0], molecule_graph("CCO").atom_codes)


def test_a_batch_is_pinned_whole(monkeypatch):
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: (pinned.append(x), x.clone())[1])
    molecules = [molecule_graph("CCO"), molecule_graph("C")]
    batch = collate(molecules, np.array([[1.0], [2.0]]))
    copy = batch.pin_memory()
    there = {name: x for name, x in vars(batch).items() if x is not None}
    assert {id(x) for x in pinned} == {id(x) for x in there.values()}
    assert all(torch.equal(getattr(copy, name), x) and getattr(copy, name) is not x for name, x in there.items())
    assert copy.distances is None
