"""The tidy frame: a row for every weight, with the bond, path length and elements of its pair."""

import numpy as np
import pytest
from rdkit import Chem

from molattn.errors import InputError
from molattn.explain import AttentionMap
from tests.viewer.maps import ASPIRIN, attention_map, with_virtual_node


@pytest.mark.parametrize("smiles", [ASPIRIN, "C", "[Na+].[Cl-]", "[2H]C(*)F", "[NH3]->[Cu]", "C[C@H](N)C(=O)O"])
@pytest.mark.parametrize("add_hs", [False, True])
def test_every_row_is_the_weight_of_its_layer_head_receiver_and_sender(smiles, add_hs):
    attention = attention_map(smiles, layers=2, heads=3, add_hs=add_hs)
    frame = attention.to_frame().to_pandas()
    assert len(frame) == attention.weights.size
    places = tuple(frame[name] for name in ("layer", "head", "receiver", "sender"))
    np.testing.assert_array_equal(frame.weight, attention.weights[places])
    assert not frame.duplicated(["layer", "head", "receiver", "sender"]).any()


def test_bonds_path_lengths_and_elements_are_those_of_rdkit():
    frame = attention_map(ASPIRIN, layers=1, heads=1).to_frame().to_pylist()
    mol = Chem.MolFromSmiles(ASPIRIN)
    lengths = Chem.GetDistanceMatrix(mol)
    for row in frame:
        i, j = row["receiver"], row["sender"]
        bond = mol.GetBondBetweenAtoms(i, j)
        expected = "self" if i == j else "none" if bond is None else bond.GetBondType().name.lower()
        assert row["bond"] == expected
        assert row["path_length"] == lengths[i, j]
        assert row["receiver_element"] == mol.GetAtomWithIdx(i).GetSymbol()
        assert row["sender_element"] == mol.GetAtomWithIdx(j).GetSymbol()
        assert row["sender_label"] == f"{row['sender_element']}{j}"


def test_a_bond_that_gives_electrons_is_seen_from_its_receiver():
    rows = {(r["receiver"], r["sender"]): r["bond"] for r in attention_map("[NH3]->[Cu]", 1, 1).to_frame().to_pylist()}
    assert (rows[0, 1], rows[1, 0]) == ("dative to", "dative from")


def test_between_fragments_there_is_no_path():
    rows = attention_map("[Na+].[Cl-]", 1, 1).to_frame().to_pylist()
    assert [r["path_length"] for r in rows] == [0, None, None, 0]
    assert [r["bond"] for r in rows] == ["self", "none", "none", "self"]


def test_virtual_nodes_are_rows_with_their_label_and_no_chemistry():
    attention = with_virtual_node(attention_map("CCO", 1, 1))
    frame = attention.to_frame().to_pandas()
    assert len(frame) == 16
    virtual = frame[(frame.receiver == 3) | (frame.sender == 3)]
    assert len(virtual) == 7
    assert virtual[["bond", "path_length"]].isna().all(axis=None)
    assert (frame[frame.sender == 3].sender_label == "virtual node").all()
    assert frame[frame.sender == 3].sender_element.isna().all()
    assert frame[frame.receiver == 3].receiver_element.isna().all()
    np.testing.assert_allclose(frame.groupby("receiver").weight.sum(), 1, atol=1e-6)


def test_tokens_have_labels_and_no_chemistry():
    tokens = ("C", "1", "C", "C", "1")
    attention = AttentionMap("C1CC1", tokens, np.full((1, 1, 5, 5), 0.2), {}, {}, position_type="tokens")
    frame = attention.to_frame().to_pandas()
    assert len(frame) == 25
    assert frame[["bond", "path_length", "receiver_element", "sender_element"]].isna().all(axis=None)
    assert frame.sender_label[:5].tolist() == attention.labels


def test_a_map_of_another_molecule_is_refused():
    attention = AttentionMap("CCN", ("C", "C", "O"), np.full((1, 1, 3, 3), 1 / 3), {}, {})
    with pytest.raises(InputError, match="C C O"):
        attention.to_frame()
