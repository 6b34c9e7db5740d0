"""The bond as features: rows of tables, and ones and zeros."""

import torch

from molattn.chem import BOND_FEATURES, unpack_bond
from molattn.graph import BondEncoding, BondOneHot, PairCodes, PathEncoding, Sum
from molattn.graph.encodings import adjacency
from tests.assertions import assert_close, assert_identical
from tests.graph.encodings.batches import PARTS, SIZES, SMILES, atoms, batch_of
from tests.graph.graphs import double

BATCH = batch_of(*SMILES)


def test_bond_and_path_together_are_what_pair_codes_gave():
    pair_codes = double(PairCodes(PARTS, SIZES, dim=5, max_path=3))
    bond, path = BondEncoding(PARTS, SIZES, 5).double(), PathEncoding(5, max_path=3).double()
    bond.bond.load_state_dict(pair_codes.bond.state_dict())
    path.path.load_state_dict(pair_codes.path.state_dict())
    assert_identical(Sum([bond, path])(BATCH), pair_codes(BATCH.bond_codes, BATCH.path_lengths))


def test_bond_and_path_start_as_pair_codes_did():
    torch.manual_seed(0)
    pair_codes = PairCodes(PARTS, SIZES, dim=5, max_path=3)
    torch.manual_seed(0)
    bond, path = BondEncoding(PARTS, SIZES, 5), PathEncoding(5, max_path=3)
    assert_identical(bond.bond.table.weight, pair_codes.bond.table.weight)
    assert_identical(path.path.weight, pair_codes.path.weight)


def test_a_dative_bond_has_a_row_for_each_end():
    batch = batch_of("[NH3]->[Pt](Cl)Cl")
    e = double(BondEncoding(PARTS, SIZES, 4))(batch)
    assert (e[0, 0, 1] - e[0, 1, 0]).abs().max() > 0.01
    assert_identical(e[0, 1, 2], e[0, 2, 1])


def test_one_hot_bonds_have_a_one_per_feature_where_its_label_stands():
    encoding = BondOneHot(PARTS, SIZES)
    e = encoding(BATCH)
    assert encoding.dim == sum(SIZES)
    for k in range(len(SMILES)):
        n = atoms(BATCH, k)
        parts = unpack_bond(BATCH.bond_codes[k, :n, :n].numpy())
        for i in range(n):
            for j in range(n):
                blocks = e[k, i, j].split(SIZES)
                for feature, block, code in zip(BOND_FEATURES, blocks, parts[i, j], strict=True):
                    assert block.tolist() == [float(c == code) for c in range(feature.size)]


def test_a_learned_matrix_on_one_hot_bonds_is_the_learned_rows():
    rows = double(BondEncoding(PARTS, SIZES, 5))
    assert_close(BondOneHot(PARTS, SIZES).double()(BATCH) @ rows.bond.table.weight, rows(BATCH))


def test_bonded_pairs_are_those_of_the_bond_codes():
    none_or_self = 2
    kind = PARTS[BATCH.bond_codes.long()][..., 0]
    assert_identical(adjacency(BATCH), kind >= none_or_self)


def test_what_can_be_worked_out_again_is_not_saved():
    assert set(BondEncoding(PARTS, SIZES, 5).state_dict()) == {"bond.table.weight"}
    assert not BondOneHot(PARTS, SIZES).state_dict()
