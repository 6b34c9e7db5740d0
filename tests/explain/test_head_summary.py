"""Summaries of heads: shares that sum to 1, and ratios that are 1 for uniform attention."""

import inspect
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from molattn.errors import InputError, MolattnWarning, SmilesError, UsageError
from molattn.explain import AttentionMap, summarize_heads
from molattn.explain.head_summary import COLUMNS, DISTANCES, HeadSummary, Key
from molattn.inference import Predictor
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import TargetScaler
from molattn.viewer import heads_plot
from tests.molecules import SPECIAL, esol
from tests.viewer.maps import ASPIRIN, attention_map, with_virtual_node

SMILES = [*SPECIAL, ASPIRIN, *esol(30)[0]]


def uniform(attention):
    return replace(attention, weights=np.full_like(attention.weights, 1 / attention.weights.shape[-1]))


@pytest.mark.parametrize("more", [lambda a: a, with_virtual_node], ids=["atoms", "virtual node"])
def test_shares_of_a_head_sum_to_1(more):
    summary = summarize_heads(more(attention_map(s, 2, 3, seed=i)) for i, s in enumerate(SMILES))
    assert summary.num_molecules == len(SMILES)
    frame = summary.to_frame().to_pandas()
    by_head = frame[frame.by == "distance"].groupby(["layer", "head"])
    assert len(by_head) == 6
    np.testing.assert_allclose(by_head.share.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(by_head.uniform.sum(), 1, rtol=1e-12)
    by_receiver = frame[frame.by == "element"].groupby(["layer", "head", "receiver"])
    np.testing.assert_allclose(by_receiver.share.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(by_receiver.uniform.sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("more", [lambda a: a, with_virtual_node], ids=["atoms", "virtual node"])
def test_uniform_attention_has_ratios_of_1_and_maximal_entropy(more):
    frame = summarize_heads(uniform(more(attention_map(s, 1, 2))) for s in SMILES).to_frame().to_pandas()
    assert set(frame.by) == {"distance", "element", "group", "entropy"}
    np.testing.assert_allclose(frame[frame.by == "entropy"].relative_entropy, 1, rtol=1e-6)
    known = frame[frame.uniform > 0]
    np.testing.assert_allclose(known.ratio, 1, rtol=1e-6)
    assert frame[frame.uniform == 0].ratio.isna().all()


def test_rows_that_do_not_sum_to_1_are_shares_all_the_same():
    maps = [attention_map(s, 1, 2) for s in SMILES]
    scaled = [replace(m, weights=1.7 * m.weights, rows_sum_to_one=False) for m in maps]
    one, other = (summarize_heads(m).to_frame().to_pandas() for m in (maps, scaled))
    np.testing.assert_allclose(one.share, other.share, rtol=1e-6)


def test_a_model_whose_queries_and_biases_are_zero_has_ratios_of_1():
    torch.manual_seed(0)
    model = GraphModel(GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=2)).eval()
    predictor = Predictor(Artifact(model, TargetScaler((0.0,), (1.0,)), ("y",), ("",)))
    before = summarize_heads(predictor.attentions(SMILES)).to_frame().to_pandas()
    with torch.no_grad():
        for block in model.blocks:
            for parameter in block.phi_e.parameters():
                parameter.zero_()
    after = summarize_heads(predictor.attentions(SMILES)).to_frame().to_pandas()
    assert (before.ratio - 1).abs().max() > 0.1
    np.testing.assert_allclose(after[after.uniform > 0].ratio, 1, rtol=1e-6)


def test_a_head_that_attends_to_one_category_has_a_share_of_1():
    """Head 0 attends to the atom itself, head 1 to bonded atoms, head 2 to oxygen."""
    maps = []
    for smiles in (ASPIRIN, "CCO", "CC(=O)C"):
        attention = attention_map(smiles, 1, 3)
        paths, n = attention.graph().path_lengths, attention.num_atoms
        oxygen = np.broadcast_to(np.array(attention.symbols) == "O", (n, n))
        heads = np.stack([np.eye(n), paths == 1, oxygen]).astype(float)
        maps.append(replace(attention, weights=(heads / heads.sum(-1, keepdims=True))[None]))
    summary = summarize_heads(maps)
    np.testing.assert_allclose(summary.share(Key("distance", "any atom", "self"))[0, :2], [1, 0])
    np.testing.assert_allclose(summary.share(Key("distance", "any atom", "bonded"))[0, :2], [0, 1])
    np.testing.assert_allclose(summary.share(Key("element", "C", "O"))[0, 2], 1)
    np.testing.assert_allclose(summary.share(Key("element", "O", "C"))[0, 2], 0)
    # Of ethanol's two other atoms, head 1 of one attends to both its neighbours, of the other to none of the alcohol.
    assert summary.share(Key("group", "other atoms", "alcohol"))[0].tolist() == [0, 0.25, 1]
    assert summary.entropy()[0, 0] == 0


def test_the_numbers_are_those_of_a_loop_over_pairs():
    """The shares by a plain loop over pairs of atoms."""
    maps = [attention_map("CC(=O)O.[Na+]", 1, 1), attention_map("C", 1, 1), attention_map("NCCCCF", 1, 1)]
    summary, atoms = summarize_heads(maps), sum(m.num_atoms for m in maps)
    names = {0: "self", 1: "bonded", 2: "2 bonds", 3: "3 bonds", None: "other fragment"}
    distance, elements, receivers = defaultdict(float), defaultdict(float), defaultdict(set)
    for k, attention in enumerate(maps):
        for row in attention.to_frame().to_pylist():
            distance[names.get(row["path_length"], "farther")] += row["weight"] / atoms
            elements[row["receiver_element"], row["sender_element"]] += row["weight"]
            receivers[row["receiver_element"]].add((k, row["receiver"]))
    for key in summary.keys("distance"):
        np.testing.assert_allclose(summary.share(key)[0, 0], distance[key[2]], atol=1e-12)
    for (receiver, sender), given in elements.items():
        key = Key("element", receiver, sender)
        assert summary.receivers(key) == len(receivers[receiver])
        np.testing.assert_allclose(summary.share(key)[0, 0], given / len(receivers[receiver]))


def test_atoms_of_other_fragments_and_the_virtual_node_have_shares_of_their_own():
    summary = summarize_heads([uniform(with_virtual_node(attention_map("[Na+].[Cl-]", 1, 1)))])
    shares = {key[2]: float(summary.share(key)[0, 0]) for key in summary.keys("distance")}
    assert shares.pop("virtual node") == pytest.approx(1 / 3)
    assert shares == pytest.approx({name: (name in ("self", "other fragment")) / 3 for name in shares})


def test_the_entropies_are_the_means_over_atoms():
    """Of the definition, -sum w log w, computed for each atom; virtual nodes are keys, but not counted as queries."""
    maps = [with_virtual_node(attention_map(s, 2, 3, seed=i)) for i, s in enumerate(("CCO", "C", ASPIRIN))]
    summary = summarize_heads(maps)
    assert summary.num_atoms == sum(m.num_atoms for m in maps) == 17
    nats, shares = np.zeros((2, 3)), np.zeros((2, 3))
    for attention in maps:
        w = attention.weights[:, :, : attention.num_atoms].astype(float)
        atom_level = -(w * np.log(w)).sum(-1)
        nats += atom_level.sum(-1) / 17
        shares += atom_level.sum(-1) / np.log(w.shape[-1]) / 17
    np.testing.assert_allclose(summary.entropy(), nats, rtol=1e-6)
    np.testing.assert_allclose(summary.relative_entropy(), shares, rtol=1e-6)
    frame = summary.to_frame().to_pandas()
    assert set(frame[frame.entropy.notna()].by) == {"entropy"}
    entropies = frame[frame.by == "entropy"]
    assert set(zip(entropies.receiver, entropies.sender, strict=True)) == {("any atom", "any")}
    np.testing.assert_allclose(entropies.entropy, nats.ravel(), rtol=1e-6)
    np.testing.assert_allclose(entropies.relative_entropy, shares.ravel(), rtol=1e-6)
    assert entropies.share.isna().all() and entropies.ratio.isna().all() and set(entropies.atoms) == {17}


def test_two_atoms_have_an_entropy():
    summary = summarize_heads([uniform(attention_map("CO", 1, 1))])
    np.testing.assert_allclose(summary.relative_entropy(), 1)
    np.testing.assert_allclose(summary.entropy(), np.log(2))


def test_elements_attend_to_the_virtual_node_by_its_name():
    attention = with_virtual_node(attention_map("CCO", 1, 2))
    summary = summarize_heads([attention])
    senders = {key[2] for key in summary.keys("element")}
    assert senders == {"C", "O", "virtual node"} and {key[1] for key in summary.keys("element")} == {"C", "O"}
    np.testing.assert_allclose(summary.share(Key("element", "O", "virtual node")), attention.weights[:, :, 2, 3])
    np.testing.assert_allclose(summary.share(Key("element", "C", "O")), attention.weights[:, :, :2, 2].mean(-1))


def test_what_there_is_comes_in_the_order_of_distance_and_else_the_commonest_first():
    summary = summarize_heads(uniform(attention_map(s, 1, 1)) for s in ("O", "CCCCO", "CCCCCN"))
    assert summary.keys("distance") == [("distance", "any atom", name) for name in DISTANCES]
    given = {("C", "C"): 4 * 4 / 5 + 5 * 5 / 6, ("C", "N"): 5 / 6, ("N", "C"): 5 / 6, ("N", "N"): 1 / 6}
    given |= {("C", "O"): 4 / 5, ("O", "C"): 4 / 5, ("O", "O"): 1 + 1 / 5}
    found = [key[1:] for key in summary.keys("element")]
    assert [given[pair] for pair in found] == pytest.approx(sorted(given.values(), reverse=True))


def test_nothing_counted_is_an_empty_table():
    frame = HeadSummary().to_frame()
    assert (frame.num_rows, frame.column_names) == (0, list(COLUMNS))
    assert HeadSummary().entropy().size == 0 and HeadSummary().relative_entropy() is None


def test_molecules_of_one_atom_have_no_entropy():
    frame = summarize_heads([attention_map("C", 1, 1)]).to_frame().to_pandas()
    assert "entropy" not in set(frame.by)
    assert frame[frame.sender == "self"].share.tolist() == [1.0]


def test_what_cannot_be_summarised_is_refused():
    with pytest.raises(InputError, match="no molecule"):
        summarize_heads([])
    with pytest.raises(UsageError, match="tokens"):
        summarize_heads([AttentionMap("C", ("C",), np.ones((1, 1, 1, 1)), {}, {}, position_type="tokens")])
    with pytest.raises(InputError, match="layers and heads"):
        summarize_heads([attention_map("C", 1, 1), attention_map("C", 1, 2)])


def test_molecules_that_cannot_be_read_are_left_out_and_reported():
    maps = [attention_map("CCO", 1, 1), SmilesError("C1CC", "a ring is open"), attention_map("C", 1, 1)]
    message = "^1 of 3 SMILES are left out; the first, row 1, 'C1CC': a ring is open"
    with pytest.warns(MolattnWarning, match=message) as warned:
        assert (
            inspect.unwrap(summarize_heads)(maps).num_molecules == 2
        )  # without the tests' checks of shapes in between
    assert warned[0].filename == __file__
    maps.append(SmilesError("", "there is nothing"))
    with pytest.warns(MolattnWarning, match="^2 of 4 SMILES are left out; the first, row 1, "):
        summarize_heads(maps)
    with pytest.raises(InputError, match="no molecule to summarize: the first, row 0, 'C1CC'"):
        summarize_heads(maps[1:2])


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("h.csv", pd.read_csv),
        ("h.tsv", pd.read_table),
        ("H.TSV", pd.read_table),
        ("h.parquet", pd.read_parquet),
    ],
)
def test_pandas_reads_the_saved_table(tmp_path, name, read):
    summary = summarize_heads(attention_map(s, 2, 3, seed=i) for i, s in enumerate((ASPIRIN, "CCO", "[Na+].[Cl-]")))
    summary.save(tmp_path / name)
    frame = summary.to_frame().to_pandas()
    assert frame.sender.str.contains(" ").any() and frame.ratio.isna().any()
    pd.testing.assert_frame_equal(read(tmp_path / name), frame, check_dtype=False, rtol=1e-12)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_saved_figure_is_that_of_the_viewer(tmp_path):
    summary = summarize_heads([attention_map("CCO", 1, 2)])
    for name in ("h.svg", "h.png"):
        summary.save(str(tmp_path / name))
    picture = heads_plot(summary)
    assert (tmp_path / "h.svg").read_text(encoding="utf-8") == picture.svg
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["h.txt", "h", "csv"])
def test_a_summary_is_not_saved_under_another_suffix(tmp_path, name):
    message = f"{name}: name it .csv, .tsv, .parquet for a table, .svg or .png for a figure"
    with pytest.raises(UsageError, match=message):
        summarize_heads([attention_map("C", 1, 1)]).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_summary_is_not_saved_in_a_folder_that_does_not_exist(tmp_path):
    summary = summarize_heads([attention_map("C", 1, 1)])
    for name in ("h.csv", "h.parquet", "h.svg"):
        with pytest.raises(UsageError, match="is not a folder: create it first"):
            summary.save(tmp_path / "gone" / name)
