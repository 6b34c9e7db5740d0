"""The sizes and settings of a block, which every function in `BLOCKS` takes."""

from dataclasses import dataclass

from torch import nn

from molattn.attention import Normalizer, Softmax, make_join, make_normalizer

LAMBDAS = (1 / 3, 1 / 3, 1 / 3)
"""MAT's weights of attention, distance and adjacency."""


def require_edge_features(edge_dim: int) -> None:
    """Raise a ValueError if `edge_dim` is 0, for attention that is computed from edge features."""
    if edge_dim < 1:
        raise ValueError(f"this attention needs edge features: edge_dim must be at least 1, not {edge_dim}")


@dataclass(frozen=True)
class BlockConfig:
    """The sizes and settings of a block.

    Attributes:
        node_dim, edge_dim, global_dim: d_v, d_e, d_u; 0 for graphs without edge or graph features.
        num_heads: h.
        hidden_dim: channels inside the feed-forward steps; 2 * node_dim by default.
        global_aggr: rho_eu and rho_vu, a name in `EDGES_TO_GRAPH` and `NODES_TO_GRAPH`.
        dropout: dropout probability, in training.
        score, normalizer, join: for "molattn" and "tensor-dot" only: names in `molattn.attention.SCORES` or
            `SCORES_WITH_WEIGHTS`, in `NORMALIZERS` and in `JOINS`.
        temperature: of the softmax, for the same two.
        lambdas: for "mat" only, see `MixedEdgeUpdate`.

    The values are validated when a block is made with them.

    >>> from molattn.graph.blocks import BLOCKS, BlockConfig
    >>> config = BlockConfig(node_dim=16, num_heads=4, edge_dim=3)
    >>> config.head_dim
    4
    >>> blocks = {name: BLOCKS[name](config) for name in ("molattn", "gaan", "rmat")}
    >>> {name: type(block.phi_e).__name__ for name, block in blocks.items()}
    {'molattn': 'AttentionEdgeUpdate', 'gaan': 'AttentionEdgeUpdate', 'rmat': 'RelativeEdgeUpdate'}
    """

    node_dim: int
    num_heads: int
    edge_dim: int = 0
    global_dim: int = 0
    hidden_dim: int | None = None
    global_aggr: str = "sum"
    dropout: float = 0.0
    score: str = "scaled_dot"
    normalizer: str = "softmax"
    join: str = "concat"
    temperature: float = 1.0
    lambdas: tuple[float, ...] = LAMBDAS

    @property
    def head_dim(self) -> int:
        """d, the channels of a head.

        Raises:
            ValueError: num_heads does not divide node_dim.
        """
        if self.node_dim % self.num_heads:
            raise ValueError(f"{self.num_heads} heads do not divide {self.node_dim} node channels")
        return self.node_dim // self.num_heads

    @property
    def block_args(self) -> tuple[int, int, int, int, int | None, str, float]:
        """The first arguments of `GraphNetBlock`."""
        return (
            self.node_dim,
            self.num_heads,
            self.edge_dim,
            self.global_dim,
            self.hidden_dim,
            self.global_aggr,
            self.dropout,
        )

    @property
    def edge_update_args(self) -> tuple[int, int, int, int, int, float]:
        """The first arguments of `AttentionEdgeUpdate`."""
        return self.node_dim, self.num_heads, self.head_dim, self.edge_dim, self.global_dim, self.dropout

    @property
    def normalizer_fn(self) -> Normalizer:
        """The normalizer, with its temperature.

        Raises:
            ValueError: an unknown name; a temperature with a normalizer other than the softmax.
        """
        if self.temperature == 1:
            return make_normalizer(self.normalizer)
        if self.normalizer != "softmax":
            raise ValueError(f"a temperature needs the softmax normalizer, not {self.normalizer}")
        return Softmax(self.temperature)

    @property
    def join_module(self) -> nn.Module | None:
        """The layer that maps the heads to node_dim channels; None for "concat", the block's default.

        A join whose output has the channels of one head is followed by a linear layer to node_dim.

        Raises:
            ValueError: an unknown name.
        """
        if self.join == "concat":
            return None
        if self.join == "w_jhl":
            return make_join(self.join, self.num_heads, self.head_dim, self.node_dim)
        join = make_join(self.join, self.num_heads, self.head_dim, self.head_dim)
        return nn.Sequential(join, nn.Linear(self.head_dim, self.node_dim))
