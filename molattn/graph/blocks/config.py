"""The sizes and settings of a block, which every function in `BLOCKS` takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from molattn.attention import Normalizer, Softmax, make_join, make_normalizer
from molattn.attention.arguments import check_dropout, check_sizes
from molattn.attention.heads import KEEPS_HEAD_DIM

LAMBDAS = (1 / 3, 1 / 3, 1 / 3)
"""MAT's weights of attention, distance and adjacency."""

TENSOR_DOT_SETTINGS = ("score", "normalizer", "join", "temperature")
ATTENTION_SETTINGS = (*TENSOR_DOT_SETTINGS, "lambdas")
"""The attention settings: each block reads those of tensor-dot attention, MAT's lambdas, or none of them."""


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
            `SCORES_WITH_WEIGHTS`, in `NORMALIZERS` and in `JOINS`. The other blocks raise a ValueError for values other
            than the defaults.
        temperature: of the softmax, for the same two.
        lambdas: for "mat" only, see `MixedEdgeUpdate`; the other blocks raise a ValueError for others than the default.

    Raises:
        ValueError: a size below 1, or below 0 for edge_dim and global_dim; dropout is not in [0, 1).

    >>> from molattn.graph.blocks import BLOCKS, BlockConfig
    >>> block = BLOCKS["rmat"](BlockConfig(node_dim=16, num_heads=4, edge_dim=5))
    >>> type(block.phi_e).__name__
    'RelativeEdgeUpdate'
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

    def __post_init__(self) -> None:
        check_sizes(node_dim=self.node_dim, num_heads=self.num_heads, hidden_dim=self.hidden_dim)
        check_sizes(0, edge_dim=self.edge_dim, global_dim=self.global_dim)
        check_dropout(self.dropout)

    def check_ignored(self, name: str, ignored: Sequence[str] = ATTENTION_SETTINGS) -> None:
        """Raise a ValueError if a setting in `ignored`, which the layer `name` does not read, is not its default."""
        defaults = type(self)(self.node_dim, self.num_heads)
        for setting in ignored:
            if (value := getattr(self, setting)) != getattr(defaults, setting):
                raise ValueError(f"{name} has no setting {setting}: leave out {setting}={value!r}")

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
    def block_args(self) -> dict[str, Any]:
        """The sizes and settings that `GraphNetBlock` takes."""
        names = ("node_dim", "num_heads", "edge_dim", "global_dim", "hidden_dim", "global_aggr", "dropout")
        return {name: getattr(self, name) for name in names}

    @property
    def edge_update_args(self) -> dict[str, Any]:
        """The sizes and the dropout that `AttentionEdgeUpdate` takes."""
        names = ("node_dim", "num_heads", "head_dim", "edge_dim", "global_dim", "dropout")
        return {name: getattr(self, name) for name in names}

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

        A join in `KEEPS_HEAD_DIM`, whose output has the channels of a head, is followed by a linear layer to node_dim.

        Raises:
            ValueError: an unknown name.
        """
        if self.join == "concat":
            return None
        if self.join not in KEEPS_HEAD_DIM:
            return make_join(self.join, self.num_heads, self.head_dim, self.node_dim)
        join = make_join(self.join, self.num_heads, self.head_dim, self.head_dim)
        return nn.Sequential(join, nn.Linear(self.head_dim, self.node_dim))
