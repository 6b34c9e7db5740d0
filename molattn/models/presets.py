"""Presets: published models, and those of molattn, as settings of the graph model; without torch."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A named set of settings.

    Attributes:
        title: a one-line description.
        citation: the paper or book that it comes from.
        url: the address of the paper or book; empty for none.
        settings: the settings that differ from the defaults, by section.
    """

    title: str
    citation: str
    url: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def needs_3d(self) -> bool:
        """Whether molecules need conformers."""
        return bool(self.settings.get("data", {}).get("conformers", False))


def _graph_only(title: str, citation: str, url: str, model: dict[str, Any], conformers: bool = False) -> Preset:
    """A preset whose model reads no descriptors and has no auxiliary targets."""
    data: dict[str, Any] = {"conformers": True} if conformers else {}
    settings = {"model": model, "data": data | {"molecule_featurizers": []}, "training": {"auxiliary": 0.0}}
    return Preset(title, citation, url, settings)


# Path lengths up to 20 are distinguished, not only up to 6 as by default in training from scratch.
_LONG_PATHS: dict[str, Any] = {"max_path": 20}

PRESETS: dict[str, Preset] = {
    "molattn": Preset(
        "tensor-dot attention; bonds and path lengths in keys, values and a bias",
        "molattn's default",
        "",
        {"model": {}},
    ),
    "additive": _graph_only(
        "a sum of one term for each atom, after two layers over bonds: its predictions are explained by their terms",
        "molattn's own",
        "",
        {"num_layers": 2, "neighbours": "bonded", "readout": "additive"} | _LONG_PATHS,
    ),
    "tensor-dot": _graph_only(
        "the book's plain tensor-dot attention; bonds and path lengths in keys and values",
        "White 2022, Deep Learning for Molecules and Materials, chapters 13 and 14",
        "https://dmol.pub",
        {"attention": "tensor-dot"} | _LONG_PATHS,
    ),
    "gaan": _graph_only(
        "gated heads; bonds and path lengths as a bias",
        "Zhang et al. 2018, GaAN: Gated Attention Networks",
        "https://arxiv.org/abs/1803.07294",
        {"attention": "gaan"} | _LONG_PATHS,
    ),
    "mat": _graph_only(
        "attention averaged with distances in 3D and adjacency; a dummy node",
        "Maziarka et al. 2020, Molecule Attention Transformer",
        "https://arxiv.org/abs/2002.08264",
        {
            "attention": "mat",
            "edges": ["distance-kernel", "adjacency"],
            "join_edges": "concat",
            "virtual_node": True,
        },
        conformers=True,
    ),
    "rmat": _graph_only(
        "relative attention to bonds, path lengths and distances in 3D; a dummy node",
        "Maziarka et al. 2021, Relative Molecule Self-Attention Transformer",
        "https://arxiv.org/abs/2110.05841",
        {
            "attention": "rmat",
            "edges": ["bond-one-hot", "neighbourhood", "distance"],
            "join_edges": "concat",
            "radial_bases": "bessel",
            "virtual_node": True,
            "readout": "attention",
        }
        | _LONG_PATHS,
        conformers=True,
    ),
    "graphormer": _graph_only(
        "biases of path lengths and of the bonds along the paths; centrality; a graph token",
        "Ying et al. 2021, Do Transformers Really Perform Bad for Graph Representation?",
        "https://arxiv.org/abs/2106.05234",
        {
            "attention": "graphormer",
            "edges": ["path", "path-edges"],
            "edge_dim": 8,
            "nodes": ["degree"],
            "virtual_node": True,
            "readout": "virtual-node",
        }
        | _LONG_PATHS,
    ),
    "grit": _graph_only(
        "edges updated by attention; random walks of bonds; degrees",
        "Ma et al. 2023, Graph Inductive Biases in Transformers without Message Passing",
        "https://arxiv.org/abs/2305.17589",
        {
            "attention": "grit",
            "edges": ["bond", "random-walks"],
            "nodes": ["random-walks"],
        },
    ),
}
