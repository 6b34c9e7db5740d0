"""Pictures of attention over atoms and tokens, of attributions, of alignments and of training results.

Importing this package imports neither matplotlib nor RDKit: each name is imported at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn.viewer.alignments import alignment
    from molattn.viewer.attributions import draw_attribution
    from molattn.viewer.cells import matrices, matrix
    from molattn.viewer.class_plots import class_plot, confusion_plot
    from molattn.viewer.grids import head_grid
    from molattn.viewer.head_plots import heads_plot
    from molattn.viewer.lines import curves
    from molattn.viewer.picture import Picture
    from molattn.viewer.pictures import draw_atom_values, draw_atoms, heat_map
    from molattn.viewer.plots import learning_curve, parity_plot, write_plots
    from molattn.viewer.web import page, write_page
    from molattn.viewer.widget import AttentionWidget

__all__ = [
    "AttentionWidget",
    "Picture",
    "alignment",
    "class_plot",
    "confusion_plot",
    "curves",
    "draw_atom_values",
    "draw_atoms",
    "draw_attribution",
    "head_grid",
    "heads_plot",
    "heat_map",
    "learning_curve",
    "matrices",
    "matrix",
    "page",
    "parity_plot",
    "write_page",
    "write_plots",
]

_MODULES = {
    "AttentionWidget": "widget",
    "Picture": "picture",
    "alignment": "alignments",
    "class_plot": "class_plots",
    "confusion_plot": "class_plots",
    "curves": "lines",
    "draw_atom_values": "pictures",
    "draw_atoms": "pictures",
    "draw_attribution": "attributions",
    "head_grid": "grids",
    "heads_plot": "head_plots",
    "heat_map": "pictures",
    "learning_curve": "plots",
    "matrices": "cells",
    "matrix": "cells",
    "page": "web",
    "parity_plot": "plots",
    "write_page": "web",
    "write_plots": "plots",
}


def __getattr__(name: str) -> object:
    """Import the names of `__all__` at their first use (PEP 562)."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
