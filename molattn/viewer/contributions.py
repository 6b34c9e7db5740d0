"""Attributions as pictures: the molecule with what each of its atoms contributed."""

import math

import numpy as np

from molattn.explain import Attribution
from molattn.viewer.discs import ORANGE, Scale, draw_discs
from molattn.viewer.figures import short
from molattn.viewer.molecule import drawable
from molattn.viewer.picture import Picture


def draw_attribution(attribution: Attribution, size: tuple[int, int] | None = None) -> Picture:
    """The molecule, with a disc under every atom: orange where it raises the prediction, blue where it lowers it.

    The numbers at the atoms are their values. White is 0, and the deepest disc is the largest value of this picture,
    which its scale names. Below stand the prediction as the sum that it is, where the method promises one, the method,
    and what was measured of it for this model.

    Args:
        size: width and height of the SVG in pixels, by default what the molecule needs; the PNG has twice as many each
            way.

    Raises:
        UsageError: the size is too small.
        InputError: the atoms of the attribution are not those of its SMILES.
    """
    values = np.asarray(attribution.values, dtype=np.float64)
    top = float(np.abs(values).max(initial=0.0)) or 1.0
    signed = bool((values < 0).any())
    ends = (f"{-top:.2g}", f"{top:+.2g}") if signed else ("0", f"{top:.2g}")
    unit = f", in {short(attribution.unit, 40)}" if attribution.unit and attribution.in_units else ""
    words = (short(attribution.equation, 120), f"{attribution.method}, value of each atom{unit}")
    foot = f"faithfulness: {short(attribution.faithfulness, 200)}"
    return draw_discs(
        drawable(attribution.smiles, attribution.symbols, attribution.add_hs, "the attribution"),
        values,
        Scale(-top if signed else 0.0, top, *ends, above=ORANGE),
        words,
        "; ".join((short(attribution.smiles, 200), *words, foot)),
        notes=number_texts(values),
        foot=foot,
        size=size,
    )


def number_texts(values: np.ndarray) -> list[str]:
    """Signed numbers, all with as many decimals as the largest of them needs for two digits, or three from 1 on.

    >>> number_texts(np.array([1.234, -0.05, 0.0]))
    ['+1.23', '-0.05', '0.00']
    """
    power = math.floor(math.log10(float(np.abs(values).max(initial=0.0)) or 1.0))
    decimals = min(max(1 - power if power < 0 else 2 - power, 0), 9)
    # Adding 0.0 takes the sign from -0.0.
    rounded = np.round(values, decimals) + 0.0
    return [f"{x:+.{decimals}f}" if x else f"{0:.{decimals}f}" for x in rounded]
