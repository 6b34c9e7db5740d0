"""Pictures of attention as a heat map or on the molecule, and of attributions and other values of atoms."""

import math
import operator
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.errors import InputError, UsageError, short_repr
from molattn.explain import AttentionMap, Attribution
from molattn.viewer.discs import ORANGE, Scale, draw_discs, drawable_molecule, molecule_of, prepare_for_drawing
from molattn.viewer.figures import default_style, new_figure, render, shorten
from molattn.viewer.picture import Picture

Head = int | Literal["mean", "max"]
Layer = int | Literal["rollout"]
_GREY = (0.35, 0.35, 0.35)
_VECTOR_CELLS = 40  # number of atoms up to which the cells of a heat map are drawn one by one
_LABEL = 14  # largest number of characters of a label
_FOOTER_SIZE = 7.5  # font size in points


def heat_map(
    attention: AttentionMap, layer: Layer = -1, head: Head = "mean", vmax: int | float | None = None
) -> Picture:
    """Draw the weights of one layer as n x n cells: row i shows what atom, or token, i attends to.

    Virtual nodes are the last rows and columns.

    Args:
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; ignored for rollout.
        vmax: the weight of the darkest cell; by default the largest weight.

    Raises:
        UsageError: unknown layer or head.
    """
    weights, where = select_weights(attention, layer, head)
    n, vmax = len(weights), _vmax(weights, vmax)
    side = min(max(0.27 * n, 2.2), 7.5)  # inches
    cell = 72 * side / n  # points
    size = min(9.0, max(5.0, 0.85 * cell))
    ticks = np.arange(0, n, max(1, int(np.ceil(1.15 * size / cell))))
    labels = [shorten(attention.labels[i], _LABEL) for i in ticks]
    longest = max(map(len, labels)) * 0.7 * size  # points
    upright = longest > cell * (ticks[1] if n > 1 else 1)
    # Positions in inches: a layout engine crops the labels of axes with a fixed aspect ratio.
    left = 0.4 + longest / 72
    width = left + side + 1.2
    bottom = 0.5 + footer_height(attention.faithfulness, width) + (longest if upright else size) / 72
    height = bottom + side + 0.6
    with default_style():
        figure = new_figure(width, height)
        axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
        bar = figure.add_axes(((left + side + 0.2) / width, bottom / height, 0.14 / width, side / height))
        lines = "white" if n <= _VECTOR_CELLS else "none"
        mesh = axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=vmax, edgecolors=lines, linewidth=0.4)
        # A large SVG is slow to display: many cells are drawn as one image.
        mesh.set_rasterized(n > _VECTOR_CELLS)
        axes.invert_yaxis()
        axes.set_xticks(ticks + 0.5, labels, fontsize=size, rotation=90 if upright else 0, parse_math=False)
        axes.set_yticks(ticks + 0.5, labels, fontsize=size, parse_math=False)
        axes.tick_params(length=0 if len(ticks) == n else 2)
        axes.spines[:].set_visible(False)
        node = attention.position_type[:-1]
        axes.set_xlabel(f"{node} attended to (sender)")
        axes.set_ylabel(f"{node} that attends (receiver)")
        smiles = shorten(attention.smiles, int(12 + 8 * side))
        figure.text(0.5, 1 - 0.1 / height, f"{smiles}\n{where}", ha="center", va="top", parse_math=False)
        write_footer(figure, attention.faithfulness)
        figure.colorbar(mesh, cax=bar, label="attention weight")
        return render(figure)


def draw_atoms(
    attention: AttentionMap,
    atom: int | None = None,
    layer: Layer = -1,
    head: Head = "mean",
    size: tuple[int, int] | None = None,
    vmax: int | float | None = None,
) -> Picture:
    """Draw the molecule with a disc under each atom, darker for more attention to it.

    The numbers at the atoms are their indices, as in `heat_map`. White is 0, and the darkest disc is the largest weight
    of this picture, the end of its scale: compare numbers, not colours, between pictures. Attention to virtual nodes is
    given as text.

    Args:
        atom: index of the receiver, marked by a ring; indices after the atoms are virtual nodes. None for the attention
            that each atom receives, the mean over all receivers.
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; ignored for rollout.
        size: width and height of the SVG in pixels, by default fitted to the molecule; those of the PNG are doubled.
        vmax: the weight of the darkest disc, to compare pictures; by default the largest weight.

    Raises:
        UsageError: unknown atom, layer or head, the size is too small, or the nodes of the map are tokens.
        InputError: the atoms of the map are not those of its SMILES.
    """
    matrix, where = select_weights(attention, layer, head)
    if atom is None:
        weights, what = matrix.mean(0), "attention each atom receives, mean of all atoms"
    else:
        atom = resolve_index(atom, len(matrix), "atom")
        ringed = " (ringed)" if atom < attention.num_atoms else ""
        weights, what = matrix[atom], f"what {shorten(attention.labels[atom], _LABEL)}{ringed} attends to"
    if attention.virtual:
        shares = zip(attention.virtual, weights[attention.num_atoms :], strict=True)
        what += "; " + ", ".join(f"{shorten(name, _LABEL)} {share:.2g}" for name, share in shares)
        weights = weights[: attention.num_atoms]
    vmax = _vmax(weights, vmax)
    title = f"{shorten(attention.smiles, 200)}: {what}; {where}; darkest = {vmax:.2g}"
    return draw_discs(
        molecule_of(attention),
        weights,
        Scale(0.0, vmax, "attention weight 0", f"{vmax:.2g}"),
        (what, where),
        title,
        ringed=atom if atom is not None and atom < attention.num_atoms else None,
        footer=footer_text(attention.faithfulness),
        size=size,
    )


def draw_atom_values(
    smiles: str,
    values: Sequence[float] | np.ndarray,
    *,
    name: str = "value",
    unit: str = "",
    add_hs: bool = False,
    size: tuple[int, int] | None = None,
) -> Picture:
    """Draw the molecule with a disc under each atom for its value: orange above 0, blue below, white at 0.

    The darkest disc is the largest absolute value, the end of the scale. Atoms with NaN have no disc.
    `draw_atom_values(smiles, molattn.load(run).predict(smiles))` draws the predictions of a model of atoms.

    Args:
        smiles: SMILES of the molecule.
        values: n numbers, in the order of its atoms.
        name, unit: name and unit of the values.
        add_hs: whether hydrogens have values too, after those of the other atoms.
        size: as for `draw_atoms`.

    Raises:
        SmilesError: the SMILES cannot be read.
        InputError: another number of values than of atoms.
        UsageError: the size is too small.
    """
    numbers = np.asarray(values, dtype=np.float64)
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max(MAX_ATOMS, numbers.size))
    if numbers.shape != (mol.GetNumAtoms(),):
        raise InputError(
            f"values of shape {numbers.shape} for the {mol.GetNumAtoms()} atoms of {short_repr(smiles)}: "
            "give one for each"
        )
    finite = np.abs(numbers[np.isfinite(numbers)])
    vmax = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    low = -vmax if (numbers < 0).any() else 0.0
    of_unit = f" {shorten(unit, 20)}" if unit else ""
    scale = Scale(low, vmax, f"{low:.2g}", f"{vmax:.2g}{of_unit}", above=ORANGE)
    words = (f"{shorten(name, 40)} of each atom", shorten(smiles, 60))
    title = f"{shorten(smiles, 200)}: {words[0]}; darkest = {vmax:.2g}{of_unit}"
    return draw_discs(prepare_for_drawing(mol), numbers, scale, words, title, size=size)


def footer_text(faithfulness: str) -> str:
    """The footer of pictures of attention: how faithful the attention is as an explanation."""
    return f"as an explanation of the prediction: {shorten(faithfulness, 200)}"


def footer_height(faithfulness: str, width: float) -> float:
    """The height of the footer of a figure of that width, in inches."""
    return 1.25 * _FOOTER_SIZE / 72 * len(textwrap.wrap(footer_text(faithfulness), _letters(width)))


def write_footer(figure: Any, faithfulness: str) -> None:
    """Write the footer of a figure."""
    width, height = figure.get_size_inches()
    text = "\n".join(textwrap.wrap(footer_text(faithfulness), _letters(width)))
    style = {"ha": "center", "va": "bottom", "fontsize": _FOOTER_SIZE, "color": _GREY, "parse_math": False}
    figure.text(0.5, 0.06 / height, text, **style)


def _letters(width: float) -> int:
    """Number of characters per line of a footer of that width in inches."""
    return int((width - 0.2) * 72 / (0.57 * _FOOTER_SIZE))


def select_weights(attention: AttentionMap, layer: Layer, head: Head) -> tuple[np.ndarray, str]:
    """The (n, n) weights of a layer and head, and their description.

    Raises:
        UsageError: unknown layer or head.
    """
    layers, heads = attention.num_layers, attention.num_heads
    if layer == "rollout":
        return attention.rollout(), f"rollout through {layers} layers, mean of {heads} heads"
    layer = resolve_index(layer, layers, "layer")
    if head in ("mean", "max"):
        of = {"mean": "mean", "max": "maximum"}[head]
        which = f"{of} of {heads} heads" if heads > 1 else "its only head"
    else:
        head = resolve_index(head, heads, "head", ", 'mean' or 'max'")
        which = f"head {head}"
    last = " (the last)" if layer == layers - 1 else ""
    sums = "" if attention.rows_sum_to_one else "; rows do not sum to 1"
    return np.asarray(attention.matrix(layer, head), dtype=np.float64), f"layer {layer}{last}, {which}{sums}"


def resolve_index(value: Any, count: int, name: str, also: str = "") -> int:
    """`value` as an index from 0 to `count` - 1; UsageError if it is out of range."""
    try:
        index = operator.index(value)
    except TypeError:
        index = count
    if not -count <= index < count:
        valid = f"from 0 to {count - 1}" if count > 1 else "0"
        raise UsageError(f"{name} is {valid}{also}, not {short_repr(value)}; negative numbers count from the end")
    return index % count


def _vmax(weights: np.ndarray, vmax: int | float | None) -> float:
    """The weight of the darkest colour: `vmax`, by default the largest weight, or 1 if all are 0."""
    if vmax is None:
        return float(weights.max()) or 1.0
    if not vmax > 0:
        raise UsageError(f"the darkest colour stands for a weight above 0, not for {short_repr(vmax)}")
    return float(vmax)


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
    # Adding 0.0 turns -0.0 into 0.0.
    rounded = np.round(values, decimals) + 0.0
    return [f"{x:+.{decimals}f}" if x else f"{0:.{decimals}f}" for x in rounded]
