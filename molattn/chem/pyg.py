"""Conversion to and from PyG's `Data`: the complete graph as an edge list.

The pair [i, j], receiver i and sender j, becomes a column of PyG's `edge_index`: row 0 is the sender j, row 1 is i.
"""

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from molattn.chem.atoms import ATOM_FEATURES, symbols_from_codes
from molattn.chem.bonds import BOND_FEATURES, pack_bond, unpack_bond
from molattn.chem.molecule import MoleculeGraph
from molattn.errors import InputError

_ATOM_SIZES = np.array([feature.size for feature in ATOM_FEATURES])
# The last column is the path length, a byte.
_EDGE_SIZES = np.array([*(feature.size for feature in BOND_FEATURES), 256])


def to_pyg(graph: MoleculeGraph, y: Any = None) -> Data:
    """The graph with one edge for every ordered pair of atoms, self-loops included.

    Args:
        graph: a molecule of n atoms.
        y: its targets, one or several numbers; None for none.

    Returns:
        `Data` with x (n, F) long, the atom codes; edge_index (2, n * n) long, by receiver and then by sender;
        edge_attr (n * n, 5) long: bond type, in_ring, conjugated, stereo, path length; smiles; warnings; distances
        (n * n,) float32 if the graph has them; and y (1, targets) float32 if passed.

    >>> from molattn.chem import molecule_graph, to_pyg
    >>> data = to_pyg(molecule_graph("CO"), y=-0.77)
    >>> data.num_nodes, tuple(data.edge_attr.shape), tuple(data.y.shape)
    (2, (4, 5), (1, 1))
    >>> data.edge_index.tolist()  # senders, receivers
    [[0, 1, 0, 1], [0, 0, 1, 1]]
    """
    n = graph.num_atoms
    receivers, senders = np.divmod(np.arange(n * n), n)
    edges = np.concatenate([unpack_bond(graph.bond_codes), graph.path_lengths[..., None]], axis=-1)
    data = Data(
        x=torch.from_numpy(graph.atom_codes.astype(np.int64)),
        edge_index=torch.from_numpy(np.stack([senders, receivers])),
        edge_attr=torch.from_numpy(edges.reshape(n * n, -1).astype(np.int64)),
        smiles=graph.smiles,
        warnings=graph.warnings,
    )
    if graph.distances is not None:
        data.distances = torch.from_numpy(graph.distances.reshape(-1).copy())
    if y is not None:
        data.y = torch.as_tensor(y, dtype=torch.float32).reshape(1, -1)
    return data


def from_pyg(data: Data) -> MoleculeGraph:
    """The inverse of `to_pyg`, whatever the order of the edges; targets are dropped.

    Args:
        data: one graph, with the attributes that `to_pyg` gives it.

    Raises:
        InputError: `data` is not one complete graph with self-loops and the codes of this version.

    >>> from molattn.chem import from_pyg, molecule_graph, to_pyg
    >>> graph = molecule_graph("CC(=O)O")
    >>> from_pyg(to_pyg(graph)) == graph
    True
    """
    x, edge_index, edge_attr = (_integers(data, name) for name in ("x", "edge_index", "edge_attr"))
    if x.ndim != 2 or len(x) == 0 or x.shape[1] != len(_ATOM_SIZES):
        raise InputError(f"x must have the shape (atoms, {len(_ATOM_SIZES)}), not {x.shape}; make it with to_pyg")
    n = len(x)
    if edge_index.shape != (2, n * n) or edge_attr.shape != (n * n, len(_EDGE_SIZES)):
        raise InputError(
            f"a complete graph of {n} atoms with self-loops has edge_index (2, {n * n}) and "
            f"edge_attr ({n * n}, {len(_EDGE_SIZES)}), not {edge_index.shape} and {edge_attr.shape}; "
            "make it with to_pyg"
        )
    senders, receivers = edge_index
    within = ((edge_index >= 0) & (edge_index < n)).all()
    if not within or len(np.unique(receivers * n + senders)) != n * n:
        raise InputError(f"edge_index does not hold every ordered pair of {n} atoms once; make it with to_pyg")
    for name, codes, sizes in (("x", x, _ATOM_SIZES), ("edge_attr", edge_attr, _EDGE_SIZES)):
        if (codes < 0).any() or (codes >= sizes).any():
            raise InputError(f"{name} holds codes outside the tables of this version; make it again with to_pyg")
    edges = np.zeros((n, n, len(_EDGE_SIZES)), dtype=np.uint8)
    edges[receivers, senders] = edge_attr
    flat = getattr(data, "distances", None)
    distances = None
    if flat is not None:
        if not isinstance(flat, torch.Tensor) or flat.shape != (n * n,) or not flat.is_floating_point():
            raise InputError(f"distances must be a float tensor of shape ({n * n},); make the graph with to_pyg")
        distances = np.zeros((n, n), dtype=np.float32)
        distances[receivers, senders] = flat.detach().cpu().numpy()
    codes = x.astype(np.uint8)
    return MoleculeGraph(
        smiles=getattr(data, "smiles", None) or "",
        atom_codes=codes,
        bond_codes=pack_bond(edges[..., :-1]),
        path_lengths=edges[..., -1].copy(),
        symbols=symbols_from_codes(codes),
        warnings=tuple(getattr(data, "warnings", None) or ()),
        distances=distances,
    )


def _integers(data: Data, name: str) -> np.ndarray:
    tensor = getattr(data, name, None)
    if not isinstance(tensor, torch.Tensor) or tensor.is_floating_point() or tensor.is_complex():
        raise InputError(f"{name} must be a tensor of integer codes; make the graph with to_pyg")
    return tensor.detach().cpu().numpy().astype(np.int64)
