"""Pictures of attention as a heat map or on the molecule, and of attributions and other values of atoms."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.errors import InputError, check_type, short_repr
from molattn.explain import AttentionMap, Attribution
from molattn.explain.attention_map import resolve_index
from molattn.viewer.cells import draw_cells, resolve_vmax
from molattn.viewer.discs import (
    Scale,
    draw_discs,
    drawable_molecule,
    format_values,
    molecule_from_map,
    prepare_for_drawing,
)
from molattn.viewer.figures import footer_text, shorten
from molattn.viewer.palette import ABOVE, ATTENTION
from molattn.viewer.picture import Picture

Head = int | Literal["mean", "max"]
Layer = int | Literal["rollout"]
LABEL_LENGTH = 14
"""Largest number of characters of the label of a node in a text."""


def heat_map(
    attention: AttentionMap, layer: Layer = -1, head: Head = "mean", vmax: int | float | None = None
) -> Picture:
    """Draw the weights of one layer as n x n cells: row i shows what atom, or token, i attends to.

    Virtual nodes are the last rows and columns.

    Args:
        attention: the attention map of a molecule.
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; ignored for rollout.
        vmax: the weight of the darkest cell, above 0; by default the largest weight.

    Raises:
        TypeError: `attention` is not an AttentionMap.
        UsageError: unknown layer or head, or a `vmax` that is no number above 0.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer import heat_map
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> picture = heat_map(attention, layer=0, head=1)  # 3 x 3 cells
    >>> picture.svg.count("</svg>")
    1
    """
    check_type(attention, AttentionMap, "heat_map")
    weights, description = layer_weights(attention, layer, head)
    node = attention.position_type[:-1]
    return draw_cells(
        {"": weights},
        attention.labels,
        attention.labels,
        title=[attention.smiles, description],
        row_axis=f"{node} that attends (receiver)",
        column_axis=f"{node} attended to (sender)",
        label="attention weight",
        vmax=vmax,
        faithfulness=attention.faithfulness,
    )


def draw_atoms(
    attention: AttentionMap,
    atom: int | None = None,
    layer: Layer = -1,
    head: Head = "mean",
    size: tuple[int, int] | None = None,
    vmax: int | float | None = None,
) -> Picture:
    """Draw the molecule with a disc under each atom, darker for more attention to it.

    The numbers at the atoms are their indices, as in `heat_map`. White is 0, and the darkest color is the largest
    weight of this picture, the end of its scale: compare numbers, not colors, between pictures. Attention to virtual
    nodes is written as text. Atoms with NaN have no disc.

    Args:
        attention: the attention map of a molecule.
        atom: index of the receiver, marked by a ring; indices after the atoms are virtual nodes. None for the attention
            that each atom receives, the mean over all receivers.
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; ignored for rollout.
        size: width and height of the SVG in pixels, at least 260 and 188; by default fitted to the molecule. Those of
            the PNG are doubled.
        vmax: the weight of the darkest disc, above 0; by default the largest weight. With one vmax, the colors of
            several pictures can be compared.

    Raises:
        TypeError: `attention` is not an AttentionMap.
        UsageError: unknown atom, layer or head, the size is too small or not two integers, `vmax` is no number above 0,
            or the nodes of the map are tokens.
        InputError: the atoms of the map are not those of its SMILES.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer import draw_atoms
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> picture = draw_atoms(attention, atom=2)
    >>> picture.svg.partition("<title>")[2].partition("</title>")[0]
    'CCO: what O2 (ringed) attends to; layer 1 (the last), mean of 4 heads; darkest = 0.33'
    """
    check_type(attention, AttentionMap, "draw_atoms")
    matrix, description = layer_weights(attention, layer, head)
    if atom is not None:
        atom = resolve_index(atom, len(matrix), "atom")
    weights, subject = matrix.mean(0) if atom is None else matrix[atom], describe_receiver(attention, atom)
    if attention.virtual:
        virtual = zip(attention.virtual, weights[attention.num_atoms :], strict=True)
        subject += "; " + ", ".join(f"{shorten(name, LABEL_LENGTH)} {weight:.2g}" for name, weight in virtual)
        weights = weights[: attention.num_atoms]
    vmax = resolve_vmax(weights, vmax)
    title = f"{shorten(attention.smiles, 200)}: {subject}; {description}; darkest = {vmax:.2g}"
    return draw_discs(
        molecule_from_map(attention),
        weights,
        Scale(0.0, vmax, "attention weight 0", f"{vmax:.2g}"),
        (subject, description),
        title,
        ring_atom=atom if atom is not None and atom < attention.num_atoms else None,
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

    The darkest color is the largest absolute value, the end of the scale. Atoms with NaN have no disc.
    `draw_atom_values(smiles, molattn.load(run).predict(smiles))` draws the predictions of an atom-level model.

    Args:
        smiles: SMILES of the molecule.
        values: n numbers, in the order of its atoms.
        name, unit: name and unit of the values, for the caption and the scale.
        add_hs: whether hydrogens have values too, after those of the other atoms.
        size: as for `draw_atoms`.

    Raises:
        SmilesError: the SMILES cannot be read.
        InputError: another number of values than of atoms.
        UsageError: the size is too small, or not two integers.

    >>> from molattn.viewer import draw_atom_values
    >>> picture = draw_atom_values("CCO", [-0.04, 0.04, -0.40], name="partial charge", unit="e")
    >>> picture.svg.partition("<title>")[2].partition("</title>")[0]
    'CCO: partial charge of each atom; darkest = 0.4 e'
    """
    numbers = np.asarray(values, dtype=np.float64)
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max(MAX_ATOMS, numbers.size))
    if numbers.shape != (mol.GetNumAtoms(),):
        raise InputError(
            f"values have shape {numbers.shape}, and {short_repr(smiles)} has {mol.GetNumAtoms()} atoms: "
            "give one value for each"
        )
    vmax = resolve_vmax(numbers, None)
    low = -vmax if (numbers < 0).any() else 0.0
    in_unit = f" {shorten(unit, 20)}" if unit else ""
    scale = Scale(low, vmax, f"{low:.2g}", f"{vmax:.2g}{in_unit}", positive=ABOVE)
    caption = (f"{shorten(name, 40)} of each atom", shorten(smiles, 60))
    title = f"{shorten(smiles, 200)}: {caption[0]}; darkest = {vmax:.2g}{in_unit}"
    return draw_discs(prepare_for_drawing(mol), numbers, scale, caption, title, size=size)


def describe_receiver(attention: AttentionMap, atom: int | None) -> str:
    """A description of the attention of one receiver, or, if `atom` is None, of the mean over all receivers."""
    if atom is None:
        return "attention each atom receives, mean of all atoms"
    ringed = " (ringed)" if atom < attention.num_atoms else ""
    return f"what {shorten(attention.labels[atom], LABEL_LENGTH)}{ringed} attends to"


def layer_weights(attention: AttentionMap, layer: Layer, head: Head) -> tuple[np.ndarray, str]:
    """The (n, n) weights of a layer and head, and their description.

    Raises:
        UsageError: unknown layer or head.
    """
    layers, heads = attention.num_layers, attention.num_heads
    if layer == "rollout":
        return attention.rollout(), f"rollout through {layers} layers, mean of {heads} heads"
    layer = resolve_index(layer, layers, "layer")
    if head in ("mean", "max"):
        reduction = {"mean": "mean", "max": "maximum"}[head]
        head_name = f"{reduction} of {heads} heads" if heads > 1 else "its only head"
    else:
        head = resolve_index(head, heads, "head", ", 'mean' or 'max'")
        head_name = f"head {head}"
    last = " (the last)" if layer == layers - 1 else ""
    sums = "" if attention.rows_sum_to_one else "; rows do not sum to 1"
    return np.asarray(attention.matrix(layer, head), dtype=np.float64), f"layer {layer}{last}, {head_name}{sums}"


def draw_attribution(attribution: Attribution, size: tuple[int, int] | None = None) -> Picture:
    """Draw the molecule with a disc under each atom: orange if it raises the prediction, blue if it lowers it.

    Values without a sign, such as attention weights, are green, darker for larger ones. The numbers at the atoms are
    the values; atoms with NaN have no disc. White is 0, and the darkest color is the largest absolute value of this
    picture, the end of its scale.
    Below the molecule are the prediction, as a sum if the attributions add up, the method, and its faithfulness for
    this model.

    Args:
        attribution: the value of each atom, as `molattn.Predictor.attributions` computes it.
        size: as for `draw_atoms`.

    Raises:
        TypeError: `attribution` is not an Attribution.
        UsageError: the size is too small, or not two integers.
        InputError: the atoms of the attribution are not those of its SMILES.

    >>> import numpy as np
    >>> from molattn.explain import Attribution
    >>> from molattn.viewer import draw_attribution
    >>> values = np.array([-0.5, -0.25, 1.75])
    >>> attribution = Attribution("CCO", ("C", "C", "O"), values, "additive", "logS", 1.0, constant=0.0, adds_up=True)
    >>> picture = draw_attribution(attribution)  # the oxygen is orange
    >>> "logS 1.000 = 0.000 (constant) + 1.000 (3 atoms)" in picture.svg
    True
    """
    check_type(attribution, Attribution, "draw_attribution")
    values = np.asarray(attribution.values, dtype=np.float64)
    top = resolve_vmax(values, None)
    two_sided = bool((values < 0).any())
    ends = (f"{-top:.2g}", f"{top:+.2g}") if two_sided else ("0", f"{top:.2g}")
    unit = f", in {shorten(attribution.unit, 40)}" if attribution.unit and attribution.has_unit else ""
    caption = (shorten(attribution.equation, 120), f"{attribution.method}, value of each atom{unit}")
    footer = f"faithfulness: {shorten(attribution.faithfulness, 200)}"
    return draw_discs(
        drawable_molecule(attribution.smiles, attribution.symbols, attribution.add_hs, "the attribution"),
        values,
        Scale(-top if two_sided else 0.0, top, *ends, positive=ABOVE if attribution.signed else ATTENTION),
        caption,
        "; ".join((shorten(attribution.smiles, 200), *caption, footer)),
        labels=format_values(values, plus=attribution.signed),
        footer=footer,
        size=size,
    )
