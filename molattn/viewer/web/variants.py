"""The page of the variants of a molecule: Python computes its data, and variants.js shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDepictor
from rdkit.Geometry import Point2D

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.viewer.discs import positions_2d, prepare_for_drawing
from molattn.viewer.web.document import html_document, script, style
from molattn.viewer.web.drawing import draw_molecule
from molattn.viewer.web.json_values import json_number, visible_text

_START = "\nstartVariants(document);\n"


@dataclass(frozen=True, eq=False)
class Details:
    """The values of the atoms of one molecule for one property, by which its drawing is colored.

    Attributes:
        values: (n,) the attribution of each atom; None if there is none.
        received: (n,) the attention that each atom receives in the last layer, the mean over heads and receivers; None
            if there is none.
        rest: what the attributions do not give to atoms, the constant and other terms; None if they do not add up.
        part: the part of the model that they explain; see `Attribution.part`.
        method: the method of the attributions.
        faithfulness: the faithfulness of the method, in one line.
        computed: whether the attribution was computed, even if there is none.
    """

    values: np.ndarray | None = None
    received: np.ndarray | None = None
    rest: float | None = None
    part: str = ""
    method: str = ""
    faithfulness: str = ""
    computed: bool = True


def page_of_variants(trade_offs: Any, listed: Sequence[int], details: Sequence[Sequence[Details]]) -> str:
    """The page of some of the variants, as an HTML document that needs no network and no other file.

    Args:
        trade_offs: a `TradeOffs` of `molattn.inference`, with one or several properties.
        listed: the indices of the variants that are listed, of which each atom is painted the best and the worst
            change; those that `TradeOffs.listed` chooses include the best and the worst of all.
        details: for each property those of the parent, and then those of each listed variant.
    """
    content = variants_payload(trade_offs, listed, details)
    title = f"What if: {trade_offs.results[0].smiles}"
    code = script("drawing.js", "page.js", "variants.js")
    return html_document(title, style("page.css", "variants.css"), code + _START, content)


def variants_payload(trade_offs: Any, listed: Sequence[int], details: Sequence[Sequence[Details]]) -> dict[str, Any]:
    """The data of the page, ready for JSON; see `page_of_variants` for the arguments."""
    parent_smiles = trade_offs.results[0].smiles
    parent = prepare_for_drawing(read_smiles(parent_smiles, max_atoms=MAX_ATOMS))
    variants = []
    for k, index in enumerate(listed, start=1):
        row = trade_offs.rows[index]
        variant = row[0].variant
        mol = _aligned_molecule(variant.smiles, parent, variant.parent_atoms)
        variants.append(
            {
                "molecule": _molecule(variant.smiles, mol),
                "name": visible_text(variant.name.replace(">>", " \u2192 ")),
                "atoms": list(variant.atoms),
                "parent_atoms": list(variant.parent_atoms),
                "front": trade_offs.front[index],
                "accessibility": json_number(row[0].accessibility),
                "alerts": [visible_text(name) for name in row[0].alerts],
                "new_alerts": [visible_text(name) for name in row[0].new_alerts],
                "properties": [_variant_property(one, details[t][k], mol.GetNumAtoms()) for t, one in enumerate(row)],
            }
        )
    n = parent.GetNumAtoms()
    shown = [[trade_offs.rows[index][t] for index in listed] for t in range(len(trade_offs.results))]
    results = zip(trade_offs.names, trade_offs.results, shown, details, strict=True)
    return {
        "parent": _molecule(parent_smiles, parent),
        "total": len(trade_offs.rows),
        "properties": [_parent_property(name, one, rows, own[0], n) for name, one, rows, own in results],
        "variants": variants,
    }


def _parent_property(name: str, result: Any, rows: Sequence[Any], details: Details, n: int) -> dict[str, Any]:
    """A property of the parent of n atoms, from a `WhatIf` of `molattn.inference` and its listed rows."""
    at_atoms = [[row.change for row in rows if i in row.variant.atoms] for i in range(n)]
    best_of, worst_of = (max, min) if result.goal == "maximize" else (min, max)
    best, worst = ([json_number(f(x, default=None)) for x in at_atoms] for f in (best_of, worst_of))
    return {
        "name": visible_text(name),
        "unit": visible_text(result.unit),
        "goal": result.goal,
        "level": result.level,
        "prediction": json_number(result.prediction),
        "measured": json_number(result.measured),
        "known": result.known,
        "source": f"{result.source} of {result.molecules} held-out molecules",
        "agreement": visible_text(result.agreement_text),
        "best": best,
        "worst": worst,
        "method": visible_text(details.method),
        "part": details.part,
        "faithfulness": visible_text(details.faithfulness),
        **_atom_values(details, n),
    }


def _variant_property(row: Any, details: Details, n: int) -> dict[str, Any]:
    """A property of a variant of n atoms, from a `WhatIfRow` of `molattn.inference`."""
    effect = (
        None if row.effect is None else [row.effect.count, json_number(row.effect.mean), json_number(row.effect.std)]
    )
    return {
        "prediction": json_number(row.prediction),
        "change": json_number(row.change),
        "lower": json_number(row.lower),
        "upper": json_number(row.upper),
        "in_domain": row.in_domain,
        "effect": effect,
        "computed": details.computed,
        **_atom_values(details, n),
    }


def _atom_values(details: Details, n: int) -> dict[str, Any]:
    """The values of the first n atoms; hydrogens and virtual nodes, which follow them, are left out."""
    values, received, rest = details.values, details.received, details.rest
    if values is not None and rest is not None:
        rest += float(values[n:].sum())
    return {
        "values": None if values is None else [float(f"{v:.5g}") for v in values[:n]],
        "received": None if received is None else [float(f"{v:.5g}") for v in received[:n]],
        "rest": json_number(rest),
    }


def _molecule(smiles: str, mol: Chem.Mol) -> dict[str, Any]:
    symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
    return {
        "smiles": visible_text(smiles),
        "node_type": "atom",
        "labels": [f"{symbol}{i}" for i, symbol in enumerate(symbols)],
        "symbols": symbols,
        "num_atoms": len(symbols),
        "drawing": draw_molecule(mol),
    }


def _aligned_molecule(smiles: str, parent: Chem.Mol, parent_atoms: Sequence[int]) -> Chem.Mol:
    """A variant, prepared for drawing, with the atoms that it shares with the parent at the same positions."""
    mol = read_smiles(smiles, max_atoms=MAX_ATOMS)
    positions = positions_2d(parent)
    shared = {i: Point2D(*map(float, positions[p])) for i, p in enumerate(parent_atoms) if p >= 0}
    rdDepictor.Compute2DCoords(mol, coordMap=shared)
    return prepare_for_drawing(mol)
