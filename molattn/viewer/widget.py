"""The interactive page as a Jupyter widget, whose selection Python can read and set."""

from collections.abc import Sequence
from typing import Any

from molattn.errors import MissingExtra, UsageError, check_type
from molattn.explain import AttentionMap, Attribution
from molattn.viewer.palette import css_variables
from molattn.viewer.web.document import script, source
from molattn.viewer.web.outcomes import MeasuredValues
from molattn.viewer.web.payload import payload

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise MissingExtra("anywidget", "widget", "a widget in a notebook") from error


# The theme of JupyterLab takes precedence over the color scheme of the system.
_THEMES = """
[data-jp-theme-light="true"] .molattn { color-scheme: light; }
[data-jp-theme-light="false"] .molattn { color-scheme: dark; }
"""


class AttentionWidget(anywidget.AnyWidget):
    """The interactive page of a map as a Jupyter widget, whose selection can be read and set in Python.

    Args:
        attention: the attention map of a molecule.
        attributions: attributions of the same molecule, shown in a second tab.
        truth: the measured values by target name, shown next to the predictions; None if there are none.
        selection: initial values of `pinned`, `layer` and `head`.

    Attributes:
        pinned: index of the selected atom, token or virtual node; None for none.
        layer: from 0; initially the last.
        head: from 0, or "mean" or "max" over the heads; initially "mean".
        content: the data of the page; not meant to be set.

    Raises:
        TypeError: `attention` is not an AttentionMap.
        UsageError: unknown atom, layer or head, here or when an attribute is set.
        InputError: the atoms of the map are not those of its SMILES, weights are negative or not finite, or an
            attribution is not finite or of another molecule.
        MissingExtra: anywidget is not installed; raised by the import.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer import AttentionWidget
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> widget = AttentionWidget(attention, pinned=2)  # the oxygen
    >>> widget.layer, widget.head, attention.labels[widget.pinned]
    (1, 'mean', 'O2')
    >>> widget.head = 3
    """

    _esm = script("drawing.js", "page.js")
    _css = css_variables(".molattn") + _THEMES + source("page.css")
    content = traitlets.Dict().tag(sync=True)
    pinned = traitlets.Int(None, allow_none=True).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Union([traitlets.Int(), traitlets.Unicode()], default_value="mean").tag(sync=True)

    def __init__(
        self,
        attention: AttentionMap,
        attributions: Sequence[Attribution] = (),
        truth: MeasuredValues | None = None,
        **selection: Any,
    ):
        check_type(attention, AttentionMap, "AttentionWidget")
        self._attention = attention
        selection.setdefault("layer", attention.num_layers - 1)
        super().__init__(content=payload([attention], list(attributions), [truth]), **selection)

    @traitlets.validate("pinned", "layer", "head")
    def _validate(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        a = self._attention
        count = {"pinned": len(a.labels), "layer": a.num_layers, "head": a.num_heads}[name]
        if name == "pinned" and value is None:
            return value
        if name == "head" and value in ("mean", "max"):
            return value
        if isinstance(value, str) or not 0 <= value < count:
            also = ", 'mean' or 'max'" if name == "head" else ", or None" if name == "pinned" else ""
            raise UsageError(f"{name} is from 0 to {count - 1}{also}, not {value!r}")
        return value
