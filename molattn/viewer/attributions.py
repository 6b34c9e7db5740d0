"""Pictures of attributions: the molecule with a disc and a value for each atom."""

import math

import numpy as np

from molattn.explain import Attribution
from molattn.viewer.discs import ORANGE, Scale, draw_discs
from molattn.viewer.figures import shorten
from molattn.viewer.molecule import drawable_molecule
from molattn.viewer.picture import Picture


def draw_attribution(attribution: Attribution, size: tuple[int, int] | None = None) -> Picture:
    """Draw the molecule with a disc under each atom: orange if it raises the prediction, blue if it lowers it.

    The numbers at the atoms are their values. White is 0, and the darkest disc is the largest value of this picture,
    the end of its scale. Below it are the prediction, as a sum if the attributions add up, the method, and its
    faithfulness for this model.

    Args:
        size: width and height of the SVG in pixels, by default fitted to the molecule; those of the PNG are doubled.

    Raises:
        UsageError: the size is too small.
        InputError: the atoms of the attribution are not those of its SMILES.
    """
    values = np.asarray(attribution.values, dtype=np.float64)
    top = float(np.abs(values).max(initial=0.0)) or 1.0
    signed = bool((values < 0).any())
    ends = (f"{-top:.2g}", f"{top:+.2g}") if signed else ("0", f"{top:.2g}")
    unit = f", in {shorten(attribution.unit, 40)}" if attribution.unit and attribution.in_units else ""
    words = (shorten(attribution.equation, 120), f"{attribution.method}, value of each atom{unit}")
    footer = f"faithfulness: {shorten(attribution.faithfulness, 200)}"
    return draw_discs(
        drawable_molecule(attribution.smiles, attribution.symbols, attribution.add_hs, "the attribution"),
        values,
        Scale(-top if signed else 0.0, top, *ends, above=ORANGE),
        words,
        "; ".join((shorten(attribution.smiles, 200), *words, footer)),
        notes=format_values(values),
        footer=footer,
        size=size,
    )


def format_values(values: np.ndarray) -> list[str]:
    """Signed numbers with the decimals that the largest needs for two significant digits, or three from 1 on.

    >>> format_values(np.array([1.234, -0.05, 0.0]))
    ['+1.23', '-0.05', '0.00']
    """
    power = math.floor(math.log10(float(np.abs(values).max(initial=0.0)) or 1.0))
    decimals = min(max(1 - power if power < 0 else 2 - power, 0), 9)
    # Adding 0.0 takes the sign from -0.0.
    rounded = np.round(values, decimals) + 0.0
    return [f"{x:+.{decimals}f}" if x else f"{0:.{decimals}f}" for x in rounded]
