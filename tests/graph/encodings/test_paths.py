"""Path lengths, and the bonds along all shortest paths: compared with an enumeration of every path."""

from collections import deque
from itertools import pairwise

import pytest
import torch

from molattn.graph import AttentionBias, PathEdgeEncoding, PathEncoding, PathOneHot, RandomWalkEncoding
from molattn.graph.encodings.paths import path_codes, random_walks
from tests.assertions import assert_close, assert_identical
from tests.graph.encodings.batches import PARTS, SIZES, SMILES, batch_of, num_atoms
from tests.graph.graphs import F64, double

BATCH = batch_of(*SMILES)


def path_edges(max_path=5, dim=3, seed=0):
    return double(PathEdgeEncoding(PARTS, SIZES, dim, max_path), seed)


def shortest_paths(neighbours, i, j):
    """All shortest paths from i to j, as lists of atoms: breadth-first search, then backtracking through its levels."""
    level, queue = {i: 0}, deque([i])
    while queue:
        k = queue.popleft()
        for m in neighbours[k]:
            if m not in level:
                level[m] = level[k] + 1
                queue.append(m)
    if j not in level:
        return []

    def back(k):
        if k == i:
            return [[i]]
        return [[*path, k] for m in neighbours[k] if level[m] == level[k] - 1 for path in back(m)]

    return back(j)


def neighbours_of(batch, k):
    n = num_atoms(batch, k)
    kinds = PARTS[batch.bond_codes[k, :n, :n].long()][..., 0]  # 0 is no bond, 1 is the atom itself
    return [[j for j in range(n) if kinds[i, j] > 1] for i in range(n)]


@pytest.mark.parametrize("max_path", [1, 2, 5, 9])
def test_bonds_along_all_shortest_paths_match_enumerated_paths(max_path):
    encoding = path_edges(max_path)
    e = encoding(BATCH)
    tables = [position.table.weight.split(SIZES) for position in encoding.positions]
    most = 0
    for k in range(len(SMILES)):
        neighbours = neighbours_of(BATCH, k)
        for i in range(len(neighbours)):
            for j in range(len(neighbours)):
                paths = shortest_paths(neighbours, i, j)
                expected = torch.zeros(3, dtype=F64)
                length = len(paths[0]) - 1 if paths else 0
                if 1 <= length <= max_path:
                    most = max(most, len(paths))
                    for path in paths:
                        for place, (near, far) in enumerate(pairwise(path)):
                            codes = PARTS[int(BATCH.bond_codes[k, near, far])].tolist()
                            expected += sum(t[c] for t, c in zip(tables[place], codes, strict=True))
                    expected /= length * len(paths)
                assert_close(e[k, i, j], expected)
    assert most == {1: 1, 2: 2}.get(max_path, 6)


def test_neighbours_have_the_row_of_their_bond_at_position_1():
    encoding = path_edges()
    first = encoding.positions[0](encoding.unpacked_codes)
    e = encoding(BATCH)
    bonded = BATCH.path_lengths == 1
    assert_close(e[bonded], first[BATCH.bond_codes[bonded].long()])


def test_position_1_is_at_the_receiver():
    e = path_edges()(batch_of("CC#N"))
    encoding = path_edges()
    single, triple = (batch_of("CC#N").bond_codes[0, i, i + 1].long() for i in (0, 1))
    first, second = (position(encoding.unpacked_codes) for position in encoding.positions[:2])
    assert_close(e[0, 0, 2], (first[single] + second[triple]) / 2)
    assert_close(e[0, 2, 0], (first[triple] + second[single]) / 2)


def test_a_dative_bond_on_the_path_is_read_from_the_receiver_to_the_sender():
    batch = batch_of("[NH3]->[Pt]Cl")
    encoding = path_edges()
    first, second = (position(encoding.unpacked_codes) for position in encoding.positions[:2])
    code = batch.bond_codes[0].long()
    assert code[0, 1] != code[1, 0]
    e = encoding(batch)
    assert_close(e[0, 0, 2], (first[code[0, 1]] + second[code[1, 2]]) / 2)
    assert_close(e[0, 2, 0], (first[code[2, 1]] + second[code[1, 0]]) / 2)


def test_longer_paths_other_fragments_and_the_diagonal_are_zero():
    encoding = path_edges(max_path=2)
    e = encoding(batch_of("CCCC.C"))
    zero = torch.tensor(
        [
            [1, 0, 0, 1, 1],
            [0, 1, 0, 0, 1],
            [0, 0, 1, 0, 1],
            [1, 0, 0, 1, 1],
            [1, 1, 1, 1, 1],
        ]
    ).bool()
    assert_identical((e[0] == 0).all(-1), zero)


def test_many_paths_are_counted_in_single_precision_too():
    encoding = path_edges(max_path=9)
    expected = encoding(BATCH)
    assert_close(encoding.float()(BATCH).double(), expected, tol=1e-5)


def test_a_path_has_at_least_one_bond():
    with pytest.raises(ValueError, match="max_path must be at least 1, not 0"):
        PathEdgeEncoding(PARTS, SIZES, 3, max_path=0)


def test_longer_paths_share_the_row_of_the_longest_and_other_fragments_have_their_own():
    encoding = double(PathEncoding(4, max_path=2))
    e = encoding(batch_of("CCCC.C"))[0]
    rows = encoding.path.weight
    assert_identical(e[0], rows[[0, 1, 2, 2, 3]])
    assert len(rows) == 4  # no row that is never read


def test_neighbourhood_order_is_one_hot_in_the_path_length():
    encoding = PathOneHot(2)
    assert encoding.dim == 4 and not encoding.state_dict()
    e = encoding(batch_of("CCCC.C"))[0]
    assert_identical(e[0], torch.eye(4)[[0, 1, 2, 2, 3]])
    assert_identical(e[4], torch.eye(4)[[3, 3, 3, 3, 0]])


def test_a_head_table_is_a_number_per_head_and_path_length():
    encoding = double(AttentionBias(4, num_heads=3))
    e = encoding(batch_of("CCCC.C"))[0]
    assert encoding.dim == 3
    assert_identical(e[0], encoding.table[[0, 1, 2, 2, 3]])


def test_a_head_table_reads_any_codes():
    encoding = double(AttentionBias(len(PARTS), num_heads=2, codes=lambda molecules: molecules.bond_codes))
    batch = batch_of("CC#N", "C")
    e = encoding(batch)
    bonds = batch.bond_codes.long()
    assert_identical(e[0], encoding.table[bonds[0]])
    assert_identical(e[1, 0, 0], encoding.table[bonds[1, 0, 0]])


def test_the_smallest_head_tables_are_paths_or_none_and_one_code_for_all_pairs():
    batch = batch_of("CCCC.C")
    paths = double(AttentionBias(2, num_heads=3))
    assert_identical(paths(batch)[0, 0], paths.table[[0, 0, 0, 0, 1]])
    one = double(AttentionBias(1, num_heads=3, codes=lambda molecules: torch.zeros_like(molecules.path_lengths)))
    assert_identical(one(batch), one.table[0].expand(1, 5, 5, 3))


def test_a_head_table_is_initialized_with_zeros():
    assert (AttentionBias(7, 2)(BATCH) == 0).all()


@pytest.mark.parametrize("max_path", [0, 1, 3, 30, 254, 255, 300])
def test_the_table_by_bytes_holds_the_row_of_every_path_length(max_path):
    encoding = double(PathEncoding(4, max_path))
    embedding = encoding.edge_embedding(BATCH)
    (table,), (lengths,) = embedding.tables, embedding.codes
    pairs = BATCH.mask.unsqueeze(-1) & BATCH.mask.unsqueeze(-2)
    assert_identical(table[lengths.long()][pairs], encoding(BATCH)[pairs])
    assert len(table) == 256 and set(encoding.state_dict()) == {"path.weight"}
    assert_identical(table[255], encoding.path.weight[max_path + 1])


def test_constant_tables_of_bonds_are_not_in_the_state_dict():
    assert all(name.startswith("positions.") for name in path_edges().state_dict())


def test_a_walk_has_at_least_the_step_0():
    assert_close(random_walks(BATCH, 1)[0, 0, 0], torch.ones(1))
    assert RandomWalkEncoding(1, 4)(BATCH).shape[-1] == 4
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        RandomWalkEncoding(0, 4)
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        random_walks(BATCH, 0)


@pytest.mark.parametrize("max_path", [0, 254, 255, 300])
def test_any_number_of_path_lengths_has_its_columns(max_path):
    batch = batch_of("CCCC.C")
    lengths = batch.path_lengths[0].long()
    expected = torch.where(lengths == 255, max_path + 1, lengths.clamp(max=max_path))
    assert_identical(PathOneHot(max_path)(batch)[0].argmax(-1), expected)
    assert_identical(path_codes(batch, max_path)[0].long(), expected)


@pytest.mark.parametrize(
    ("encoding", "sizes", "message"),
    [
        (PathEncoding, (4, -1), "max_path must be at least 0, not -1"),
        (PathEncoding, (0, 3), "dim must be at least 1, not 0"),
        (PathOneHot, (-1,), "max_path must be at least 0, not -1"),
        (AttentionBias, (1, 2), "num_codes must be at least 2, not 1"),
        (AttentionBias, (0, 2, lambda molecules: molecules.bond_codes), "num_codes must be at least 1, not 0"),
        (AttentionBias, (4, 0), "num_heads must be at least 1, not 0"),
    ],
)
def test_sizes_of_path_encodings_are_checked(encoding, sizes, message):
    with pytest.raises(ValueError, match=message):
        encoding(*sizes)
