"""Sizes and dropout probabilities of layers of graphs, checked when a layer is made."""

import pytest

from molattn.graph import AttentionEdgeUpdate, GlobalUpdate, GraphNetBlock, NodeUpdate
from molattn.graph.blocks import BlockConfig, GritEdgeUpdate

SIZED = {
    "block": lambda **s: GraphNetBlock(**{"node_dim": 8, "num_heads": 2, "edge_dim": 3, "global_dim": 5, **s}),
    "config": lambda **s: BlockConfig(**{"node_dim": 8, "num_heads": 2, "edge_dim": 3, "global_dim": 5, **s}),
    "attention": lambda **s: AttentionEdgeUpdate(
        **{"node_dim": 8, "num_heads": 2, "head_dim": 4, "edge_dim": 3, "global_dim": 5, **s}
    ),
    "grit": lambda **s: GritEdgeUpdate(**{"node_dim": 8, "num_heads": 2, "head_dim": 4, "edge_dim": 3, **s}),
    "nodes": lambda **s: NodeUpdate(**{"node_dim": 8, "global_dim": 5, "hidden_dim": 6, **s}),
    "block of given parts": lambda **s: GraphNetBlock(
        **{"node_dim": 8, "num_heads": 2, "edge_dim": 3, "global_dim": 5, **s},
        **{"phi_e": SIZED["attention"](), "phi_v": SIZED["nodes"](), "phi_u": SIZED["graph"]()},
    ),
    "graph": lambda **s: GlobalUpdate(**{"node_dim": 8, "global_dim": 5, "hidden_dim": 6, **s}),
}


@pytest.mark.parametrize(
    ("made", "setting", "message"),
    [
        *((made, {"node_dim": 0}, "node_dim must be at least 1, not 0") for made in SIZED),
        *(
            (made, {"num_heads": -4}, "num_heads must be at least 1")
            for made in ("block", "config", "attention", "grit")
        ),
        *((made, {"edge_dim": -1}, "edge_dim must be at least") for made in ("block", "config", "attention", "grit")),
        *((made, {"global_dim": -1}, "global_dim must be at least") for made in ("block", "config", "nodes", "graph")),
        *((made, {"hidden_dim": 0}, "hidden_dim must be at least 1") for made in ("block", "config", "nodes", "graph")),
        *(
            (made, {"dropout": p}, f"dropout probability must be from 0 to below 1, not {p}")
            for made in SIZED
            if made != "graph"
            for p in (-0.5, 1.0)
        ),
        # Refused although the parts that have these sizes are given, and do not use them.
        *(
            ("block of given parts", {name: size}, f"{name} must be at least")
            for name, size in (("num_heads", 0), ("edge_dim", -1), ("global_dim", -1), ("hidden_dim", 0))
        ),
    ],
)
def test_sizes_and_dropouts_are_checked_when_layers_are_made(made, setting, message):
    SIZED[made]()
    with pytest.raises(ValueError, match=message):
        SIZED[made](**setting)
