"""The data of the page as JSON: weights as bytes, molecules as drawings, names as plain text.

A weight is stored as a byte, which is multiplied by the scale of its row:

    w_ij ~ b_ij s_i,    b_ij = round(w_ij / s_i) in 0..255,    s_i = max_j w_ij / 255

so that the error on the page is at most s_i / 2: 0.2% of the largest weight of the row. `weights` are the bytes,
(layers, heads, n, n), and `scales` the upper three bytes of each little-endian float32, (layers, heads, n), both in
base64. The page computes the mean and the maximum over the heads from these, with an error of at most half of the
largest s_i of the heads.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from molattn.chem import MAX_ATOMS
from molattn.chem.substructures import atom_groups
from molattn.errors import InputError, UsageError, short_repr
from molattn.explain import AttentionMap, Attribution
from molattn.viewer.discs import drawable_molecule
from molattn.viewer.glyphs import Glyphs
from molattn.viewer.web.drawing import draw_molecule, draw_tokens
from molattn.viewer.web.json_values import json_number, visible_text
from molattn.viewer.web.outcomes import MeasuredValues, outcomes

_MOLECULE_KEYS = ("values", "prediction", "probability", "constant", "other_terms")
"""The keys of an attribution that depend on the molecule; the others are the same for all molecules."""


def payload(
    maps: Sequence[AttentionMap],
    attributions: Sequence[Attribution] = (),
    truth: Sequence[MeasuredValues | None] = (),
    names: Sequence[str] = (),
    classes: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """The data of the page, ready for JSON; see `page` for the arguments.

    Raises:
        UsageError, InputError: as for `page`.
    """
    if not maps and not attributions:
        raise UsageError("a page needs at least one attention map or attribution")
    if truth and len(truth) != len(maps):
        raise UsageError(f"{len(truth)} true values for {len(maps)} attention maps: give one for each")
    if names and len(names) != len(maps):
        raise UsageError(f"{len(names)} names for {len(maps)} attention maps: give one for each")
    glyphs = Glyphs()
    molecules = [_from_map(m, t, classes or {}, glyphs) for m, t in zip(maps, truth or [None] * len(maps), strict=True)]
    for molecule, name in zip(molecules, names, strict=False):
        molecule["name"] = visible_text(name)
    index: dict[tuple[Any, ...], int] = {}
    for k, m in enumerate(maps):
        index.setdefault((m.smiles, m.symbols, m.add_hs), k)
    for a in attributions:
        key = (a.smiles, a.symbols, a.add_hs)
        if key not in index:
            if maps:
                raise InputError(f"the attribution of {short_repr(a.smiles)} belongs to none of the attention maps")
            index[key] = len(molecules)
            molecules.append(_from_attribution(a, glyphs))
        molecules[index[key]]["attributions"].append(_attribution(a))
    with_maps = [m["attention"] for m in molecules if m["attention"]]
    texts = list(dict.fromkeys(a["faithfulness"] for a in with_maps))
    for a in with_maps:
        a["faithfulness"] = texts.index(a["faithfulness"])
    return {"molecules": molecules, "methods": _move_common(molecules), "faithfulness": texts, "glyphs": glyphs.paths}


def _move_common(molecules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace what attributions by one method have in common by its index, `of`, in the list that is returned."""
    shared: list[dict[str, Any]] = []
    for molecule in molecules:
        for k, a in enumerate(molecule["attributions"]):
            common = {name: value for name, value in a.items() if name not in _MOLECULE_KEYS}
            if common not in shared:
                shared.append(common)
            own = {name: value for name, value in a.items() if name in _MOLECULE_KEYS and value not in (None, [])}
            molecule["attributions"][k] = {"of": shared.index(common), **own}
    return shared


def encode(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encode weights as bytes and scales; `codes * scales[..., None]` differs from the weights by at most half a scale.

    Args:
        weights: (..., n, n).

    Returns:
        The codes, (..., n, n) uint8, and the scales, (..., n) float32, whose lowest byte is 0.

    Raises:
        InputError: weights that are negative or not finite.
    """
    w = np.asarray(weights, dtype=np.float64)
    if not (np.isfinite(w).all() and (w >= 0).all()):
        raise InputError("attention weights must be finite and not negative")
    bits = (w.max(-1) / 255).astype("<f4").view("<u4")
    scales = (bits.astype(np.uint64) + 0x80 & 0xFFFFFF00).astype("<u4").view("<f4")
    steps = np.where(scales > 0, scales, 1).astype(np.float64)
    return np.clip(np.rint(w / steps[..., None]), 0, 255).astype(np.uint8), scales


def _from_map(
    attention: AttentionMap, truth: MeasuredValues | None, classes: Mapping[str, Sequence[str]], glyphs: Glyphs
) -> dict[str, Any]:
    layers, heads, n, columns = attention.weights.shape
    if n != columns or n != len(attention.labels):
        raise InputError(
            f"the weights of {short_repr(attention.smiles)} are {n} x {columns}, "
            f"and it has {len(attention.labels)} nodes"
        )
    weights, scales = encode(attention.weights)
    names: list[str] = list(dict.fromkeys([*attention.prediction, *(truth or {})]))
    return {
        **_molecule(
            attention, attention.labels, attention.position_type, attention.virtual, "the attention map", glyphs
        ),
        "attention": {
            "layers": layers,
            "heads": heads,
            "weights": _base64(weights),
            "scales": _base64(scales[..., None].view(np.uint8)[..., 1:]),
            "rows_sum_to_one": attention.rows_sum_to_one,
            "faithfulness": visible_text(attention.faithfulness),
        },
        "predictions": [
            {
                "target": visible_text(name),
                "predicted": json_number(attention.prediction.get(name)),
                "of": visible_text(classes[name][1]) if len(classes.get(name, ())) == 2 else "",
                "true": _true_value((truth or {}).get(name)),
                "unit": visible_text(attention.units.get(name, "")),
            }
            for name in names
        ],
        "outcomes": outcomes(attention.prediction, attention.units, truth or {}, classes),
    }


def _from_attribution(a: Attribution, glyphs: Glyphs) -> dict[str, Any]:
    # For a class, its probability, as in the predictions of attention maps.
    predicted, unit = (a.prediction, a.unit) if a.probability is None else (_probability(a), "")
    prediction = {
        "target": visible_text(a.target),
        "predicted": json_number(predicted),
        "of": "",
        "true": None,
        "unit": visible_text(unit),
    }
    molecule = _molecule(a, a.labels, "atoms", (), "the attribution", glyphs)
    return {
        **molecule,
        "attention": None,
        "predictions": [prediction],
        "outcomes": outcomes({a.target: math.nan if predicted is None else predicted}, {a.target: unit}, {}, {}),
    }


def _molecule(
    source: AttentionMap | Attribution,
    labels: Sequence[str],
    position_type: str,
    virtual: Sequence[str],
    owner: str,
    glyphs: Glyphs,
) -> dict[str, Any]:
    """The data of a molecule: SMILES, labels, functional groups, and the drawing of its atoms or tokens.

    Args:
        source: a map or an attribution of the molecule.
        labels: labels of its nodes.
        position_type: "atoms" or "tokens".
        virtual: names of virtual nodes.
        owner: what `source` is called in errors.
        glyphs: the letters of the drawing are added to these.
    """
    symbols = [visible_text(symbol) for symbol in (*source.symbols, *virtual)]
    n = len(source.symbols)
    groups: list[tuple[str, list[int]]] = []
    if position_type == "tokens":
        drawing = draw_tokens(symbols[:n], symbols[n:])
    else:
        groups = atom_groups(source.smiles, add_hs=source.add_hs, max_atoms=max(MAX_ATOMS, n))
        mol = drawable_molecule(source.smiles, source.symbols, source.add_hs, owner)
        drawing = draw_molecule(mol, symbols[n:], glyphs)
    return {
        "smiles": visible_text(source.smiles),
        "node_type": position_type.removesuffix("s"),
        "labels": [visible_text(label) for label in labels],
        "symbols": symbols,
        "num_atoms": n,
        "drawing": drawing,
        "groups": groups,
        "attributions": [],
    }


def _attribution(a: Attribution) -> dict[str, Any]:
    values = np.asarray(a.values, dtype=np.float64)
    if values.shape != (len(a.symbols),) or not np.isfinite(values).all():
        raise InputError(
            f"the attribution of {short_repr(a.smiles)} by {a.method} is not one finite number for each atom"
        )
    return {
        "method": visible_text(a.method),
        "target": visible_text(a.target),
        "unit": visible_text(a.unit),
        "values": [float(f"{v:.5g}") for v in values],
        "signed": a.signed,
        "has_unit": a.has_unit,
        "prediction": json_number(a.prediction),
        "quantity": visible_text(a.quantity),
        "part": a.part,
        "probability": json_number(_probability(a)),
        "constant": json_number(a.constant),
        "other_terms": [[visible_text(name), json_number(value)] for name, value in a.other_terms.items()],
        "adds_up": a.adds_up,
        "faithfulness": visible_text(a.faithfulness),
    }


def _probability(a: Attribution) -> float | None:
    """The calibrated probability if there is one, as in predictions; otherwise the probability; None for regression."""
    return a.probability if a.calibrated_probability is None else a.calibrated_probability


def _true_value(value: float | str | None) -> float | str | None:
    return visible_text(value) if isinstance(value, str) else json_number(value)


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
