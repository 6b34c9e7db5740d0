"""The graph attention model: embed -> blocks -> readout -> head."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from molattn.chem import (
    ATOM_FEATURES,
    BOND_FEATURES,
    BOND_SIZE,
    DISCONNECTED,
    Conformers,
    MoleculeGraph,
    Progress,
    featurize,
    unpack_bond,
)
from molattn.data.batches import MoleculeBatch, collate
from molattn.errors import SmilesError
from molattn.graph import DenseGraph, GraphNetBlock, PairCodes, SumOfCodes, mean_nodes, sum_nodes
from molattn.models.base import MoleculeModel, wide
from molattn.models.config import GraphModelConfig


class GraphModel(MoleculeModel):
    """Properties of molecules from attention over all pairs of their atoms.

    v_i  = sum of a learned row per atom code;   e_ij = bond and path-length rows;   u = a learned vector
    v, u = block_L( ... block_1(v, e, u))
    y    = W norm(readout(v, u))

    Args:
        config: what it is made of.
        num_targets: T.

    Raises:
        ValueError: a readout that is not in `READOUTS`, heads that do not divide the channels.
    """

    def __init__(self, config: GraphModelConfig, num_targets: int = 1):
        super().__init__(config, num_targets)
        if config.readout not in READOUTS:
            raise ValueError(f"unknown readout {config.readout!r}: choose one of {', '.join(READOUTS)}")
        if config.readout == "global" and not config.global_dim:
            raise ValueError("the readout 'global' reads u: set model.global_dim")
        self.config = config
        d = config.hidden_dim
        self.embed_atoms = SumOfCodes([f.size for f in ATOM_FEATURES], d)
        self.embed_pairs = PairCodes(
            bond_parts=torch.from_numpy(unpack_bond(range(BOND_SIZE))),
            bond_sizes=[f.size for f in BOND_FEATURES],
            dim=config.edge_dim,
            max_path=config.max_path,
            disconnected=DISCONNECTED,
        )
        self.u = nn.Parameter(torch.zeros(config.global_dim)) if config.global_dim else None
        self.blocks = nn.ModuleList(
            GraphNetBlock(
                node_dim=d,
                num_heads=config.num_heads,
                edge_dim=config.edge_dim,
                global_dim=config.global_dim,
                hidden_dim=config.feed_forward * d,
                to_graph="mean",
                dropout=config.dropout,
            )
            for _ in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(d)
        self.readout = READOUTS[config.readout]
        read_dim = config.global_dim if config.readout == "global" else d
        self.head = nn.Linear(read_dim, num_targets)

    collate = staticmethod(collate)

    @staticmethod
    def read(
        smiles: Iterable[object],
        *,
        add_hs: bool,
        max_atoms: int,
        num_workers: int = 0,
        conformers: Conformers | None = None,
        progress: Progress | None = None,
    ) -> list[MoleculeGraph | SmilesError]:
        """The graphs of many SMILES: see `molattn.chem.featurize`."""
        return featurize(
            smiles,
            add_hs=add_hs,
            max_atoms=max_atoms,
            num_workers=num_workers,
            conformers=conformers,
            progress=progress,
        )

    @staticmethod
    def vocabulary() -> dict[str, dict[str, list[str]]]:
        """The labels of every atom and bond feature."""
        return {
            "atoms": {f.name: list(f.labels) for f in ATOM_FEATURES},
            "bonds": {f.name: list(f.labels) for f in BOND_FEATURES},
        }

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """(b, T), in the units that the model was trained in."""
        graph = self.embed(batch)
        for block in self.blocks:
            graph = block(graph)
        return self.read_out(graph)

    def attention(self, batch: MoleculeBatch) -> tuple[Tensor, Tensor]:
        """What `forward` returns, and the weights of every layer and head, (b, layers, heads, n, n)."""
        graph, weights = self.embed(batch), []
        for block in self.blocks:
            graph, messages = block.step(graph)  # pyright: ignore[reportCallIssue]
            weights.append(messages.weights)
        return self.read_out(graph), torch.stack(weights, dim=1)

    def embed(self, batch: MoleculeBatch) -> DenseGraph:
        """The batch as complete graphs with self-loops."""
        u = None if self.u is None else self.u.expand(len(batch), -1)
        return DenseGraph(
            v=self.embed_atoms(batch.atom_codes),
            node_mask=batch.mask,
            e=self.embed_pairs(batch.bond_codes, batch.path_lengths),
            u=u,
        )

    def read_out(self, graph: DenseGraph) -> Tensor:
        """(b, T) from what the last block left."""
        u = None if graph.u is None else wide(graph.u)
        return self.answer(self.readout(wide(self.norm(graph.v)), graph.replace(u=u)))


def _global(v: Tensor, graph: DenseGraph) -> Tensor:  # noqa: ARG001
    assert graph.u is not None
    return graph.u


READOUTS: dict[str, Callable[[Tensor, DenseGraph], Tensor]] = {
    "mean": mean_nodes,
    "sum": sum_nodes,
    "global": _global,
}
