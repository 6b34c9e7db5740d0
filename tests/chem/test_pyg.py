"""There and back through PyG's `Data`."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from molattn.chem import ATOM_FEATURES, from_pyg, molecule_graph, to_pyg
from molattn.errors import InputError

from .molecules import CAGES, DRUGLIKE, ODD, STEREO


@pytest.mark.parametrize("smiles", DRUGLIKE + CAGES + ODD + STEREO)
def test_round_trip(smiles):
    graph = molecule_graph(smiles)
    data = to_pyg(graph, y=1.5)
    n = graph.num_atoms
    assert data.x.shape == (n, len(ATOM_FEATURES))
    assert data.edge_index.shape == (2, n * n)
    assert data.edge_attr.shape == (n * n, 5)
    assert data.x.dtype == data.edge_index.dtype == data.edge_attr.dtype == torch.long
    assert data.y.tolist() == [[1.5]]
    assert from_pyg(data) == graph


def test_the_order_of_the_edges_does_not_matter():
    graph = molecule_graph("[NH3]->[Pt](Cl)Cl")
    data = to_pyg(graph)
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))
    data.edge_index, data.edge_attr = data.edge_index[:, order], data.edge_attr[order]
    assert from_pyg(data) == graph


def test_row_0_is_the_sender():
    graph = molecule_graph("[NH3]->[Pt](Cl)Cl")
    data = to_pyg(graph)
    senders, receivers = data.edge_index
    (edge,) = torch.nonzero((senders == 0) & (receivers == 1)).flatten().tolist()
    # The metal, as the receiver, gets the pair of nitrogen: "dative from".
    assert data.edge_attr[edge, 0] == 8


def test_targets():
    graph = molecule_graph("CCO")
    assert "y" not in to_pyg(graph)
    assert to_pyg(graph, y=[1, 2]).y.tolist() == [[1.0, 2.0]]
    assert to_pyg(graph, y=torch.tensor([3.0])).y.shape == (1, 1)


def test_graphs_batch_and_come_back():
    graphs = [molecule_graph(smiles) for smiles in DRUGLIKE[:4]]
    batch = Batch.from_data_list([to_pyg(graph, y=0.0) for graph in graphs])
    assert batch.y.shape == (4, 1)
    assert [from_pyg(data) for data in batch.to_data_list()] == graphs


def broken(change) -> Data:
    data = to_pyg(molecule_graph("CCO"))
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("x"), "x must be a tensor"),
        (lambda d: d.update({"x": d.x.float()}), "x must be a tensor of integer"),
        (lambda d: d.update({"x": d.x[:, :3]}), "x must have the shape"),
        (lambda d: d.update({"edge_index": d.edge_index[:, :5], "edge_attr": d.edge_attr[:5]}), "complete graph"),
        (lambda d: d.update({"edge_attr": d.edge_attr[:, :4]}), "complete graph"),
        (lambda d: d.update({"edge_index": torch.zeros_like(d.edge_index)}), "every ordered pair"),
        (lambda d: d.update({"edge_index": d.edge_index + 1}), "every ordered pair"),
        (lambda d: d.update({"x": d.x + 200}), "x holds codes outside"),
        (lambda d: d.update({"edge_attr": d.edge_attr - 1}), "edge_attr holds codes outside"),
    ],
)
def test_other_graphs_are_rejected(change, message):
    with pytest.raises(InputError, match=message):
        from_pyg(broken(change))


def test_only_these_two_names_are_lazy():
    import molattn.chem

    with pytest.raises(AttributeError, match="nonsense"):
        _ = molattn.chem.nonsense  # type: ignore[attr-defined]
