"""Attention as pictures: the matrix, and the molecule with what its atoms look at; and a molecule with values."""

import operator
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.errors import InputError, UsageError, short_repr
from molattn.explain import AttentionMap
from molattn.viewer.discs import ORANGE, Scale, draw_discs
from molattn.viewer.figures import new_figure, rendered, short, styled
from molattn.viewer.molecule import molecule_of, ready
from molattn.viewer.picture import Picture

Head = int | Literal["mean", "max"]
Layer = int | Literal["rollout"]
_GREY = (0.35, 0.35, 0.35)
_VECTOR_CELLS = 40  # atoms up to which the cells of a heat map are drawn one by one
_LABEL = 14  # letters of a label
_FOOT = 7.5  # points of the letters at the foot of a figure


def heat_map(
    attention: AttentionMap, layer: Layer = -1, head: Head = "mean", top: int | float | None = None
) -> Picture:
    """The weights of one layer as a square of n x n cells: row i shows what atom, or token, i attends to.

    Virtual nodes are the last rows and columns.

    Args:
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; of no meaning for rollout.
        top: the weight of the darkest cell; the largest there is by default.

    Raises:
        UsageError: there is no such layer or head.
    """
    weights, where = chosen(attention, layer, head)
    n, top = len(weights), _top(weights, top)
    side = min(max(0.27 * n, 2.2), 7.5)  # inches
    cell = 72 * side / n  # points
    size = min(9.0, max(5.0, 0.85 * cell))
    ticks = np.arange(0, n, max(1, int(np.ceil(1.15 * size / cell))))
    labels = [short(attention.labels[i], _LABEL) for i in ticks]
    longest = max(map(len, labels)) * 0.7 * size  # points
    upright = longest > cell * (ticks[1] if n > 1 else 1)
    # Placed in inches: a layout engine crops the labels of axes that have to stay square.
    left = 0.4 + longest / 72
    width = left + side + 1.2
    bottom = 0.5 + foot_height(attention.faithfulness, width) + (longest if upright else size) / 72
    height = bottom + side + 0.6
    with styled():
        figure = new_figure(width, height)
        axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
        bar = figure.add_axes(((left + side + 0.2) / width, bottom / height, 0.14 / width, side / height))
        lines = "white" if n <= _VECTOR_CELLS else "none"
        mesh = axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=top, edgecolors=lines, linewidth=0.4)
        # A big SVG is slow to show: many cells go into it as one image.
        mesh.set_rasterized(n > _VECTOR_CELLS)
        axes.invert_yaxis()
        axes.set_xticks(ticks + 0.5, labels, fontsize=size, rotation=90 if upright else 0, parse_math=False)
        axes.set_yticks(ticks + 0.5, labels, fontsize=size, parse_math=False)
        axes.tick_params(length=0 if len(ticks) == n else 2)
        axes.spines[:].set_visible(False)
        place = attention.position_type[:-1]
        axes.set_xlabel(f"{place} attended to (sender)")
        axes.set_ylabel(f"{place} that attends (receiver)")
        smiles = short(attention.smiles, int(12 + 8 * side))
        figure.text(0.5, 1 - 0.1 / height, f"{smiles}\n{where}", ha="center", va="top", parse_math=False)
        write_foot(figure, attention.faithfulness)
        figure.colorbar(mesh, cax=bar, label="attention weight")
        return rendered(figure)


def draw_atoms(
    attention: AttentionMap,
    atom: int | None = None,
    layer: Layer = -1,
    head: Head = "mean",
    size: tuple[int, int] | None = None,
    top: int | float | None = None,
) -> Picture:
    """The molecule, with a disc under every atom that is the darker the more attention goes to it.

    The numbers at the atoms are their places in the SMILES, as in `heat_map`. White is 0, and the darkest disc is
    the largest weight of this picture, which its scale names: compare numbers, not colours, between pictures. What
    goes to virtual nodes is said in words.

    Args:
        atom: whose attention is shown, from 0; a ring marks it. None for the attention that each atom receives from
            all, on average. The numbers behind the atoms are those of virtual nodes.
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; of no meaning for rollout.
        size: width and height of the SVG in pixels, by default what the molecule needs; the PNG has twice as many each
            way.
        top: the weight of the darkest disc, to compare pictures; the largest in this one by default.

    Raises:
        UsageError: there is no such atom, layer or head, the size is too small, or the map is one of tokens.
        InputError: the atoms of the map are not those of its SMILES.
    """
    matrix, where = chosen(attention, layer, head)
    if atom is None:
        weights, what = matrix.mean(0), "attention each atom receives, mean of all atoms"
    else:
        atom = place_of(atom, len(matrix), "atom")
        ringed = " (ringed)" if atom < attention.num_atoms else ""
        weights, what = matrix[atom], f"what {short(attention.labels[atom], _LABEL)}{ringed} attends to"
    if attention.virtual:
        shares = zip(attention.virtual, weights[attention.num_atoms :], strict=True)
        what += "; " + ", ".join(f"{short(name, _LABEL)} {share:.2g}" for name, share in shares)
        weights = weights[: attention.num_atoms]
    top = _top(weights, top)
    title = f"{short(attention.smiles, 200)}: {what}; {where}; darkest = {top:.2g}"
    return draw_discs(
        molecule_of(attention),
        weights,
        Scale(0.0, top, "attention weight 0", f"{top:.2g}"),
        (what, where),
        title,
        ringed=atom if atom is not None and atom < attention.num_atoms else None,
        foot=foot_line(attention.faithfulness),
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
    """The molecule, with a disc under every atom for its value: orange above 0, blue below, white at 0.

    The darkest disc is the value furthest from 0 in this picture, which its scale names. An atom without a value, NaN,
    has no disc. `draw_atom_values(smiles, molattn.load(run).predict(smiles))` draws what a model of atoms answers.

    Args:
        smiles: of the molecule.
        values: n numbers, in the order of its atoms.
        name, unit: of the values.
        add_hs: whether hydrogens have values too, behind those of the other atoms.
        size: as for `draw_atoms`.

    Raises:
        SmilesError: the SMILES cannot be read.
        InputError: there are more or fewer values than atoms.
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
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    low = -top if (numbers < 0).any() else 0.0
    of_unit = f" {short(unit, 20)}" if unit else ""
    scale = Scale(low, top, f"{low:.2g}", f"{top:.2g}{of_unit}", above=ORANGE)
    words = (f"{short(name, 40)} of each atom", short(smiles, 60))
    title = f"{short(smiles, 200)}: {words[0]}; darkest = {top:.2g}{of_unit}"
    return draw_discs(ready(mol), numbers, scale, words, title, size=size)


def foot_line(measured: str) -> str:
    """What every picture of attention says at its foot: how far it is an explanation."""
    return f"as an explanation of the prediction: {short(measured, 200)}"


def foot_height(measured: str, width: float) -> float:
    """Inches that the foot takes of a figure that is so many inches wide."""
    return 1.25 * _FOOT / 72 * len(textwrap.wrap(foot_line(measured), _letters(width)))


def write_foot(figure: Any, measured: str) -> None:
    """Write that at the foot of a figure."""
    width, height = figure.get_size_inches()
    text = "\n".join(textwrap.wrap(foot_line(measured), _letters(width)))
    look = {"ha": "center", "va": "bottom", "fontsize": _FOOT, "color": _GREY, "parse_math": False}
    figure.text(0.5, 0.06 / height, text, **look)


def _letters(width: float) -> int:
    """Letters of the foot that fit into so many inches."""
    return int((width - 0.2) * 72 / (0.57 * _FOOT))


def chosen(attention: AttentionMap, layer: Layer, head: Head) -> tuple[np.ndarray, str]:
    """The (n, n) weights, and the words for their layer and head.

    Raises:
        UsageError: there is no such layer or head.
    """
    layers, heads = attention.num_layers, attention.num_heads
    if layer == "rollout":
        return attention.rollout(), f"rollout through {layers} layers, mean of {heads} heads"
    layer = place_of(layer, layers, "layer")
    if head in ("mean", "max"):
        of = {"mean": "mean", "max": "maximum"}[head]
        which = f"{of} of {heads} heads" if heads > 1 else "its only head"
    else:
        head = place_of(head, heads, "head", ", 'mean' or 'max'")
        which = f"head {head}"
    last = " (the last)" if layer == layers - 1 else ""
    sums = "" if attention.rows_sum_to_one else "; rows do not sum to 1"
    return np.asarray(attention.matrix(layer, head), dtype=np.float64), f"layer {layer}{last}, {which}{sums}"


def place_of(value: Any, count: int, name: str, also: str = "") -> int:
    """`value` as a place among `count` things, from 0, or the UsageError that says which there are."""
    try:
        index = operator.index(value)
    except TypeError:
        index = count
    if not -count <= index < count:
        valid = f"from 0 to {count - 1}" if count > 1 else "0"
        raise UsageError(f"{name} is {valid}{also}, not {short_repr(value)}; negative numbers count from the end")
    return index % count


def _top(weights: np.ndarray, top: int | float | None) -> float:
    """The weight of the darkest colour: what was asked for, else the largest, or 1 where all are 0."""
    if top is None:
        return float(weights.max()) or 1.0
    if not top > 0:
        raise UsageError(f"the darkest colour stands for a weight above 0, not for {short_repr(top)}")
    return float(top)
