"""Bond features: embeddings and one-hot."""

from molattn.chem import BOND_FEATURES, unpack_bond
from molattn.graph import BondEncoding, BondOneHot, DegreeEncoding, PathEncoding, Sum
from molattn.graph.encodings import adjacency
from tests.assertions import assert_close, assert_identical
from tests.graph.encodings.batches import PARTS, SIZES, SMILES, batch_of, num_atoms
from tests.graph.graphs import double

BATCH = batch_of(*SMILES)


def test_bond_and_path_encodings_match_lookups_one_by_one():
    bond, path = double(BondEncoding(PARTS, SIZES, 5)), double(PathEncoding(5, max_path=3))
    e = Sum([bond, path])(BATCH)
    tables = bond.bond.table.weight.split(SIZES)
    for k in range(len(SMILES)):
        n = num_atoms(BATCH, k)
        parts = unpack_bond(BATCH.bond_codes[k, :n, :n].numpy())
        for i in range(n):
            for j in range(n):
                length = int(BATCH.path_lengths[k, i, j])
                row = 4 if length == 255 else min(length, 3)  # longer paths share a row, other fragments have their own
                expected = (
                    sum(table[int(c)] for table, c in zip(tables, parts[i, j], strict=True)) + path.path.weight[row]
                )
                assert_close(e[k, i, j], expected)


def test_the_bond_codes_are_not_in_the_state_dict():
    assert set(BondEncoding(PARTS, SIZES, 5).state_dict()) == {"bond.table.weight"}


def test_a_dative_bond_has_a_row_for_each_end():
    batch = batch_of("[NH3]->[Pt](Cl)Cl")
    e = double(BondEncoding(PARTS, SIZES, 4))(batch)
    assert (e[0, 0, 1] - e[0, 1, 0]).abs().max() > 0.01
    assert_identical(e[0, 1, 2], e[0, 2, 1])


def test_one_hot_bonds_have_a_one_at_each_features_code():
    encoding = BondOneHot(PARTS, SIZES)
    e = encoding(BATCH)
    assert encoding.dim == sum(SIZES)
    for k in range(len(SMILES)):
        n = num_atoms(BATCH, k)
        parts = unpack_bond(BATCH.bond_codes[k, :n, :n].numpy())
        for i in range(n):
            for j in range(n):
                blocks = e[k, i, j].split(SIZES)
                for feature, block, code in zip(BOND_FEATURES, blocks, parts[i, j], strict=True):
                    assert block.tolist() == [float(c == code) for c in range(feature.size)]


def test_a_linear_map_of_one_hot_bonds_equals_the_embedding():
    rows = double(BondEncoding(PARTS, SIZES, 5))
    assert_close(BondOneHot(PARTS, SIZES).double()(BATCH) @ rows.bond.table.weight, rows(BATCH))


def test_adjacency_matches_the_bond_codes():
    none_or_self = 2
    kind = PARTS[BATCH.bond_codes.long()][..., 0]
    assert_identical(adjacency(BATCH), kind >= none_or_self)


def test_constant_tables_are_not_in_the_state_dict():
    assert set(BondEncoding(PARTS, SIZES, 5).state_dict()) == {"bond.table.weight"}
    assert not BondOneHot(PARTS, SIZES).state_dict()


def test_a_degree_has_a_row_up_to_the_largest():
    encoding = double(DegreeEncoding(3, max_degree=2))
    x = encoding(batch_of("CC(C)C"))
    assert encoding.degree.weight.shape == (3, 3)
    assert_identical(x[0], encoding.degree.weight[[1, 2, 1, 1]])  # three neighbours share the row of two
