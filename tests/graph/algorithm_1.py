"""Algorithm 1 of Battaglia et al. 2018, arXiv:1806.01261, by loops, and a block with the same phi and rho.

`algorithm_1` follows the paper and uses nothing of the library: one graph, its edges and nodes one by one, the
phi and rho functions that are passed. `Parts` are such functions; `Parts.block` makes a `GraphNetBlock` of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from molattn.graph import DenseGraph, Graph, GraphNetBlock, MaterializedMessages
from tests.graph.graphs import F64, NODE_DIM, double


@dataclass(frozen=True)
class Functions:
    """phi and rho as the paper has them: a phi of one edge, node or graph, a rho of a list (which may be empty)."""

    phi_e: Callable[..., Tensor]  # (e_k, v_rk, v_sk, u)
    phi_v: Callable[..., Tensor]  # (ebar'_i, v_i, u)
    phi_u: Callable[..., Any]  # (ebar', vbar', u)
    rho_ev: Callable[[list[Tensor]], Tensor]
    rho_eu: Callable[[list[Tensor]], Tensor]
    rho_vu: Callable[[list[Tensor]], Tensor]


def algorithm_1(E, V, u, of: Functions):
    """(E', V', u') of one graph: E is a list of (e_k, r_k, s_k), V a list of v_i.

    >>> add = lambda *xs: sum(xs)
    >>> algorithm_1([(1, 0, 1), (2, 0, 0)], [10, 20], 100, Functions(add, add, add, sum, sum, sum))
    ([(131, 0, 1), (122, 0, 0)], [363, 120], 836)
    """
    E_after = []
    for e_k, r_k, s_k in E:
        E_after.append((of.phi_e(e_k, V[r_k], V[s_k], u), r_k, s_k))  # 1. an edge
    V_after = []
    for i, v_i in enumerate(V):
        ebar_i = of.rho_ev([e_k for e_k, r_k, _ in E_after if r_k == i])  # 2. the edges into a node
        V_after.append(of.phi_v(ebar_i, v_i, u))  # 3. a node
    ebar = of.rho_eu([e_k for e_k, _, _ in E_after])  # 4. all edges
    vbar = of.rho_vu(V_after)  # 5. all nodes
    return E_after, V_after, of.phi_u(ebar, vbar, u)  # 6. the graph


def reduced(name: str, width: int) -> Callable[[list[Tensor]], Tensor]:
    """rho of the paper by its name; zeros for an empty list."""

    def rho(xs: list[Tensor]) -> Tensor:
        if not xs:
            return torch.zeros(width, dtype=F64)
        stacked = torch.stack(xs)
        return {
            "sum": lambda: stacked.sum(0),
            "mean": lambda: stacked.sum(0) / len(xs),
            "max": lambda: stacked.amax(0),
            "min": lambda: stacked.amin(0),
        }[name]()

    return rho


def graphs_of(listed: Graph):
    """(E, V, u) of each graph of an edge list, nodes numbered within their graph; None without features."""
    for b in range(listed.num_graphs):
        nodes = [i for i in range(len(listed.v)) if int(listed.node_graph[i]) == b]
        E = [
            (None if listed.e is None else listed.e[k], nodes.index(r), nodes.index(s))
            for k, (r, s) in enumerate(zip(listed.receiver.tolist(), listed.sender.tolist(), strict=True))
            if r in nodes
        ]
        yield E, [listed.v[i] for i in nodes], None if listed.u is None else listed.u[b]


def by_algorithm_1(graph: Any, of: Functions):
    """E', V' and u' of several graphs, each a list in the order of the edge list."""
    listed = graph.to_edge_list() if isinstance(graph, DenseGraph) else graph
    edge_graph = listed.node_graph[listed.receiver]
    e_after, v_after, u_after = [None] * len(listed.sender), [None] * len(listed.v), []
    for b, (E, V, u) in enumerate(graphs_of(listed)):
        edges, nodes, u = algorithm_1(E, V, u, of)
        for k, (e_k, _, _) in zip((edge_graph == b).nonzero().flatten().tolist(), edges, strict=True):
            e_after[k] = e_k
        for i, v_i in zip((listed.node_graph == b).nonzero().flatten().tolist(), nodes, strict=True):
            v_after[i] = v_i
        u_after.append(u)
    return e_after, v_after, u_after


class OfEachEdge(nn.Module):
    """A phi_e from a function of one edge: e'_k = f(e_k, v_r, v_s, u), (m, c) or (b, i, j, c), cut into heads."""

    def __init__(self, f, num_heads: int, head_dim: int):
        super().__init__()
        self.f, self.num_heads, self.head_dim = f, num_heads, head_dim

    def forward(self, graph):
        r, s, u = graph.gather_receivers(graph.v), graph.gather_senders(graph.v), graph.u
        there = None
        if isinstance(graph, Graph):
            u = None if u is None else u[graph.node_graph[graph.receiver]]
            shape: tuple[int, ...] = (len(graph.sender),)
        else:
            there = graph.edges[..., None, None]
            shape = tuple(graph.edges.shape)
            r, s = r.expand(*shape, -1), s.expand(*shape, -1)
            u = None if u is None else u[:, None, None].expand(*shape, -1)
        each = self.f(graph.e, r, s, u).unflatten(-1, (self.num_heads, self.head_dim))
        if there is not None:
            each = each.masked_fill(~there, 0.0)
        weights = each.new_ones(*shape, self.num_heads)
        weights = weights if there is None else (weights * there.squeeze(-1)).permute(0, 3, 1, 2)
        return MaterializedMessages(graph, weights, each)

    def materialize(self, graph):
        return self(graph.to_edge_list() if isinstance(graph, DenseGraph) else graph)


@dataclass(frozen=True)
class Parts:
    """The phi of a block as functions of one edge, node or graph, and the names of its rho.

    Attributes:
        phi_e, phi_v, phi_u: as `Functions` has them; they take their last dimension for the channels.
        rho_ev, rho_eu, rho_vu: names.
        heads: h and d of e'_k.
        v_width: channels of v'.
    """

    phi_e: Callable[..., Tensor]
    phi_v: Callable[..., Tensor]
    phi_u: Callable[..., Any]
    heads: tuple[int, int]
    v_width: int
    rho_ev: str = "sum"
    rho_eu: str = "sum"
    rho_vu: str = "sum"

    def block(self, **other) -> Any:
        """The block, its nodes normalized before phi_e, its edges e' and not e."""

        def phi_v(ebar, graph):
            v, u = graph.v, graph.u
            if u is not None:
                u = graph.broadcast_to_nodes(u).expand(*v.shape[:-1], -1)
            return self.phi_v(ebar, v, u)

        settings: dict[str, Any] = {
            "phi_e": OfEachEdge(self.phi_e, *self.heads),
            "rho_ev": self.rho_ev,
            "join": nn.Identity(),
            "edges": lambda messages, _: messages.per_edge().flatten(-2),
            "phi_v": phi_v,
            "rho_eu": self.rho_eu,
            "rho_vu": self.rho_vu,
            "phi_u": self.phi_u,
        }
        return double(GraphNetBlock(**{"node_dim": NODE_DIM, "num_heads": 2, **settings, **other}))

    def functions(self, net) -> Functions:
        """The same for `algorithm_1`: the norm of the nodes and of u, if there is one, is part of phi_e."""
        width = self.heads[0] * self.heads[1]

        def normed(layer, x):
            return x if x is None or layer is None else layer(x)

        def phi_e(e, v_r, v_s, u):
            return self.phi_e(e, normed(net.norm_v, v_r), normed(net.norm_v, v_s), normed(net.norm_u, u))

        return Functions(
            phi_e,
            self.phi_v,
            self.phi_u,
            reduced(self.rho_ev, width),
            reduced(self.rho_eu, width),
            reduced(self.rho_vu, self.v_width),
        )
