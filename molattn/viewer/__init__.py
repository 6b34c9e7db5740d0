"""Pictures of attention, attributions, alignments and training results, and interactive pages.

Importing this package imports neither matplotlib nor RDKit: each name is imported at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn.viewer.cells import alignment, matrices, matrix
    from molattn.viewer.class_plots import class_plot, confusion_plot
    from molattn.viewer.figures import curves
    from molattn.viewer.head_figure import heads_plot
    from molattn.viewer.picture import Picture
    from molattn.viewer.pictures import draw_atom_values, draw_atoms, draw_attribution, heat_map
    from molattn.viewer.plots import learning_curve, parity_plot
    from molattn.viewer.run_plots import write_plots
    from molattn.viewer.thumbnails import head_grid
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

_NAMES = {
    "cells": ("alignment", "matrices", "matrix"),
    "class_plots": ("class_plot", "confusion_plot"),
    "figures": ("curves",),
    "thumbnails": ("head_grid",),
    "head_figure": ("heads_plot",),
    "picture": ("Picture",),
    "pictures": ("draw_atom_values", "draw_atoms", "draw_attribution", "heat_map"),
    "plots": ("learning_curve", "parity_plot"),
    "run_plots": ("write_plots",),
    "web": ("page", "write_page"),
    "widget": ("AttentionWidget",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import the names of `__all__` at their first use (PEP 562)."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
