"""The graph attention model: embed -> blocks -> readout -> head."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molattn.attention import JOINS, NORMALIZERS, SCORES, SCORES_WITH_WEIGHTS
from molattn.chem import (
    ATOM_FEATURES,
    DEFAULT_READ_OPTIONS,
    MoleculeGraph,
    Progress,
    ReadOptions,
    featurize,
)
from molattn.data.store.batches import MoleculeBatch, collate
from molattn.data.store.packing import GraphPacking
from molattn.errors import SmilesError
from molattn.graph import (
    READOUTS,
    AdditiveReadout,
    DenseGraph,
    SumEmbedding,
    VirtualNode,
    fused_unsupported_reason,
    run_blocks,
)
from molattn.graph.blocks import BLOCKS, BlockConfig, DegreeScaledSum, MixedEdgeUpdate
from molattn.graph.encodings import adjacency
from molattn.kernels.loader import COMPILE_DISABLED
from molattn.models.base import MoleculeModel, to_float64
from molattn.models.config import GraphModelConfig
from molattn.models.encodings import check_choice, edge_encoding, node_encodings
from molattn.models.readers import graph_reader, graph_vocabulary

NEIGHBOURS = ("all", "bonded")


class GraphModel(MoleculeModel):
    """Properties of molecules, or of their atoms, from attention over the pairs of their atoms.

    v_i  = sum of embeddings of its atom codes + node encodings;   e_ij = edge encodings;   u = a learned vector
    v, u = block_L( ... block_1(v, e, u))
    y    = W [readout(norm(v), u), z] + b,   or for each atom   y_i = W norm(v_i) + b

    Args:
        config: its configuration.
        num_outputs: the number of outputs y.
        atom_level: whether the targets are atom-level. If so, there is no readout, and no output for a virtual node.
        num_descriptors: k, the number of the standardized descriptors z.

    Raises:
        ValueError: an unknown name, or inconsistent settings.
    """

    supports_atom_level = True

    def __init__(
        self, config: GraphModelConfig, num_outputs: int = 1, atom_level: bool = False, num_descriptors: int = 0
    ):
        super().__init__(config, num_outputs, atom_level, num_descriptors)
        _check(config)
        self.config = config
        d = config.hidden_dim
        self.embed_atoms = SumEmbedding([f.size for f in ATOM_FEATURES], d)
        self.edges = edge_encoding(config)
        self.u = nn.Parameter(torch.zeros(config.global_dim)) if config.global_dim else None
        settings = BlockConfig(
            node_dim=d,
            num_heads=config.num_heads,
            edge_dim=0 if self.edges is None else self.edges.dim,
            global_dim=config.global_dim,
            hidden_dim=config.feed_forward * d,
            global_aggr="mean",
            dropout=config.dropout,
            score=config.score,
            normalizer=config.normalizer,
            join=config.join,
            temperature=config.temperature,
            lambdas=config.lambdas,
        )
        self.blocks = nn.ModuleList(BLOCKS[config.attention](settings) for _ in range(config.num_layers))
        has_fixed_weights = any(isinstance(m, MixedEdgeUpdate) for m in self.blocks.modules())
        self.norm = nn.LayerNorm(d)
        readout_dim = config.global_dim if config.readout == "global" and not atom_level else d
        self.head = nn.Linear(readout_dim + num_descriptors, num_outputs)
        # Created last, so that the initial weights of the other modules do not depend on them.
        self.nodes = nn.ModuleList(node_encodings(config))
        # MAT's dummy node is adjacent only to itself, and far from all atoms.
        dummy_edges = None
        if has_fixed_weights:
            dummy_edges = torch.tensor([[0.0], [0.0], [1.0]]).expand(3, settings.edge_dim)
        self.virtual_node = VirtualNode(d, settings.edge_dim, dummy_edges) if config.virtual_node else None
        self.readout = None if atom_level else READOUTS[config.readout](d)
        self.readout_name, self.neighbours = config.readout, config.neighbours
        self.virtual_labels = ("virtual node",) if config.virtual_node else ()
        self.rows_sum_to_one = not (has_fixed_weights and config.distance_kernel == "exp")
        self.needs_degree = any(isinstance(m, DegreeScaledSum) for m in self.modules())

    collate = staticmethod(collate)

    @staticmethod
    def read(
        smiles: Iterable[object],
        options: ReadOptions = DEFAULT_READ_OPTIONS,
        num_workers: int = 0,
        progress: Progress | None = None,
    ) -> list[MoleculeGraph | SmilesError]:
        """The graphs of many SMILES: see `molattn.chem.featurize`."""
        return featurize(smiles, num_workers=num_workers, progress=progress, **vars(options))

    @staticmethod
    def reader(options: ReadOptions = DEFAULT_READ_OPTIONS) -> Callable[[object], MoleculeGraph]:
        """A function from one SMILES to its graph: see `molattn.chem.molecule_graph`."""
        return graph_reader(options)

    @staticmethod
    def packing(*, conformers: bool = False) -> GraphPacking:
        """Graphs in flat columns."""
        return GraphPacking(distances=conformers)

    @staticmethod
    def vocabulary() -> dict[str, dict[str, list[str]]]:
        """The labels of every atom and bond feature."""
        return graph_vocabulary()

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """(b, outputs) raw outputs, or (N, outputs) for atom-level targets; see `MoleculeModel.forward`."""
        return self.forward_head(self.forward_features(batch), batch)

    def forward_graph(self, graph: DenseGraph, batch: MoleculeBatch) -> Tensor:
        """`forward` from the output of `input_graph`, which the caller may have changed."""
        return self.forward_head(self.forward_blocks(graph), batch)

    def forward_features(self, batch: MoleculeBatch) -> DenseGraph:
        """The batch as graphs after all blocks; without edge features if the blocks use the embedding tables."""
        has_table = self.edges is not None and self.virtual_node is None
        edges = self.edges.edge_embedding_of_forward(batch) if has_table else None  # pyright: ignore[reportOptionalMemberAccess]
        if edges is not None:
            return run_blocks(self.blocks, self._embed_nodes(batch), edges)
        return self.forward_blocks(self.input_graph(batch))

    def forward_blocks(self, graph: DenseGraph) -> DenseGraph:
        """The output of `input_graph` after all blocks."""
        return run_blocks(self.blocks, graph)

    def slow_reason(self) -> str:
        """Why the blocks of this model do not run fused on the CPU; empty if they do.

        Also empty if the user has disabled compilation with MOLATTN_COMPILE=0.
        """
        config: Any = self.config
        if config.attention not in ("molattn", "tensor-dot"):
            return ""
        why = fused_unsupported_reason(list(self.blocks), 0 if self.edges is None else self.edges.dim)
        return "" if why == COMPILE_DISABLED else why

    def attention(self, batch: MoleculeBatch) -> tuple[Tensor, Tensor]:
        """The result of `forward`, and the attention weights of every layer and head, (b, layers, heads, n, n).

        The row and column of a virtual node come after those of the atoms and the padding.
        """
        graph, weights = self.input_graph(batch), []
        for block in self.blocks:
            graph, messages = block.forward_with_messages(graph)  # pyright: ignore[reportCallIssue]
            weights.append(messages.weights)
        stacked = torch.stack(weights, dim=1)
        if self.virtual_node is not None:
            stacked = stacked.roll((-1, -1), (-2, -1))
        return self.forward_head(graph, batch), stacked

    def embeddings(self, batch: MoleculeBatch) -> Tensor:
        """See `MoleculeModel.embeddings`.

        Raises:
            ValueError: a model with atom-level targets, which has no readout.
        """
        return self.append_descriptors(self.pool(self.forward_features(batch)), batch)

    def contributions(self, batch: MoleculeBatch) -> Tensor:
        """The contribution of each atom to the output, (b, n, outputs), for readouts that are sums.

        sum_i c_i + sum_k of `descriptor_terms` + `constant_term` = `forward`

        Such readouts are "sum", "mean" and "additive". The term of a virtual node comes after those of the atoms and
        the padding; the terms of the padding are zero. For "mean", the bias of the final normalization, which is the
        same for every node, is part of the constant.

        Raises:
            ValueError: another readout, atom-level targets, or a head that was replaced or has a hook.
        """
        self.check_linear_head()
        if self.atom_level:
            raise ValueError("a model with atom-level targets has no sum over atoms")
        graph = self.forward_features(batch)
        x = to_float64(self.norm(graph.v))
        if self.readout_name == "mean":
            x = (x - self.norm.bias.to(x.dtype)) / graph.count_nodes().to(x.dtype).view(-1, 1, 1)
        elif isinstance(self.readout, AdditiveReadout):
            x = self.readout.terms(x)
        elif self.readout_name != "sum":
            raise ValueError(f"the readout {self.readout_name!r} is not a sum over atoms: there are no terms")
        terms = (x @ self.head.weight[:, : x.shape[-1]].to(x.dtype).T).masked_fill(~graph.node_mask.unsqueeze(-1), 0.0)
        return terms if self.virtual_node is None else terms.roll(-1, 1)

    def constant_term(self) -> Tensor:
        """The term of the output, (outputs,), that belongs neither to an atom nor to a descriptor: see `contributions`.

        It is the head's bias; for the readout "mean" also W beta, beta being the bias of the final normalization.
        """
        bias = to_float64(self.head.bias)
        if self.readout_name != "mean":
            return bias
        beta = to_float64(self.norm.bias)
        return bias + to_float64(self.head.weight[:, : len(beta)]) @ beta

    def initialize_bias(self, bias: np.ndarray) -> None:
        """With the readouts "sum" and "additive", initialize the head's bias, the output for no atoms, with `bias`.

        With a bias of 0, the terms of the atoms would have to learn the offset of the mean of the targets.
        """
        if self.readout_name in ("sum", "additive") and not self.atom_level:
            with torch.no_grad():
                self.head.bias[: len(bias)] = torch.from_numpy(bias).to(self.head.bias)

    def input_graph(self, batch: MoleculeBatch) -> DenseGraph:
        """The batch as graphs: complete with self-loops, or of bonds and self-loops, with or without a virtual node."""
        graph = self._embed_nodes(batch)
        graph = graph.replace(e=None if self.edges is None else self.edges(batch))
        return graph if self.virtual_node is None else self.virtual_node(graph)

    def _embed_nodes(self, batch: MoleculeBatch) -> DenseGraph:
        """The batch as graphs without edge features."""
        v = self.embed_atoms(batch.atom_codes)
        for encoding in self.nodes:
            v = v + encoding(batch)
        bonded = None
        if self.neighbours == "bonded":
            bonded = adjacency(batch) | torch.eye(batch.mask.shape[1], dtype=torch.bool, device=batch.mask.device)
        return DenseGraph(
            v=v,
            node_mask=batch.mask,
            u=None if self.u is None else self.u.expand(batch.mask.shape[0], -1),
            edge_mask=bonded,
            degree=adjacency(batch).sum(-1) if self.needs_degree else None,
        )

    def forward_head(self, graph: DenseGraph, batch: MoleculeBatch) -> Tensor:
        """`forward` from the output of the last block."""
        if self.atom_level:
            # Skip the virtual node, which is first.
            first = 0 if self.virtual_node is None else 1
            return self.apply_head(to_float64(self.norm(graph.v[:, first:][graph.node_mask[:, first:]])))
        return self.apply_head(self.append_descriptors(self.pool(graph), batch))

    def padded_atom_outputs(self, batch: MoleculeBatch) -> Tensor:
        """(b, n, outputs), the outputs of a model with atom-level targets, also for the padding: see `forward`."""
        first = 0 if self.virtual_node is None else 1
        return self.apply_head(to_float64(self.norm(self.forward_features(batch).v[:, first:])))

    def pool(self, graph: DenseGraph) -> Tensor:
        """(b, d), the readout of the output of the last block."""
        if self.readout is None:
            raise ValueError("a model with atom-level targets has no readout and no embeddings of molecules")
        u = None if graph.u is None else to_float64(graph.u)
        return self.readout(to_float64(self.norm(graph.v)), graph.replace(u=u))


def _check(config: GraphModelConfig) -> None:
    check_choice("attention", config.attention, BLOCKS)
    check_choice("readout", config.readout, READOUTS)
    check_choice("neighbours", config.neighbours, NEIGHBOURS)
    check_choice("score", config.score, [*SCORES, *SCORES_WITH_WEIGHTS])
    check_choice("normalizer", config.normalizer, NORMALIZERS)
    check_choice("join", config.join, JOINS)
    settings = {f.name: f.default for f in fields(config) if f.name in ("score", "normalizer", "join", "temperature")}
    changed = [name for name, default in settings.items() if getattr(config, name) != default]
    if changed and config.attention not in ("molattn", "tensor-dot"):
        raise ValueError(
            f"model.{changed[0]} is an option of the attentions molattn and tensor-dot, not of {config.attention}"
        )
    if config.readout == "global" and not config.global_dim:
        raise ValueError("the readout 'global' needs graph features u: set model.global_dim above 0")
    if config.readout == "virtual-node" and not config.virtual_node:
        raise ValueError("the readout 'virtual-node' needs a virtual node: set model.virtual_node=true")
