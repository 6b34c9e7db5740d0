"""The page of the variants of a molecule: data and drawings written by Python, shown by variants.js and page.css."""

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
    """What is painted on the atoms of one molecule for one property.

    Attributes:
        values: what each atom contributes, (n,); None if the model has no attributions.
        received: the attention that each atom receives in the last layer, mean over heads and receivers; None without.
        method: of the attributions.
        faithfulness: what was measured of it, in one line.
    """

    values: np.ndarray | None = None
    received: np.ndarray | None = None
    method: str = ""
    faithfulness: str = ""


def page_of_variants(found: Any, size: int, details: Sequence[Sequence[Details]]) -> str:
    """The page of the first `size` variants, as an HTML document that needs no network and no other file.

    Args:
        found: a `TradeOffs`, of one or several properties.
        size: how many variants are listed; the best and the worst change at each atom are of all.
        details: for each property, of the parent and then of each listed variant.
    """
    content = variants_payload(found, size, details)
    title = f"What if: {found.results[0].smiles}"
    code = script("drawing.js", "page.js", "variants.js")
    return html_document(title, style("page.css", "variants.css"), code + _START, content)


def variants_payload(found: Any, size: int, details: Sequence[Sequence[Details]]) -> dict[str, Any]:
    """The data of the page, ready for JSON."""
    parent_smiles = found.results[0].smiles
    parent = _prepared(parent_smiles)
    rows = list(zip(found.rows, found.front, strict=True))[:size]
    variants = []
    for k, (row, on_front) in enumerate(rows, start=1):
        variant = row[0].variant
        mol = _aligned(variant.smiles, parent, variant.parent_atoms)
        variants.append(
            {
                "molecule": _molecule(variant.smiles, mol),
                "name": visible_text(variant.name.replace(">>", " \u2192 ")),
                "kind": variant.kind,
                "atoms": list(variant.atoms),
                "parent_atoms": list(variant.parent_atoms),
                "front": on_front,
                "accessibility": json_number(row[0].accessibility),
                "alerts": [visible_text(name) for name in row[0].alerts],
                "new_alerts": [visible_text(name) for name in row[0].new_alerts],
                "properties": [_of_property(one, details[t][k], mol.GetNumAtoms()) for t, one in enumerate(row)],
            }
        )
    results = zip(found.names, found.results, details, strict=True)
    return {
        "parent": _molecule(parent_smiles, parent),
        "accessibility": json_number(found.results[0].accessibility),
        "alerts": [visible_text(name) for name in found.results[0].alerts],
        "total": len(found.rows),
        "properties": [_property(name, one, of_one[0], parent.GetNumAtoms()) for name, one, of_one in results],
        "variants": variants,
    }


def _property(name: str, result: Any, details: Details, n: int) -> dict[str, Any]:
    best, worst = ([json_number(x) for x in changes] + [None] * (n - len(changes)) for changes in result.atom_changes())
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
        "faithfulness": visible_text(details.faithfulness),
        **_painted(details, n),
    }


def _of_property(row: Any, details: Details, n: int) -> dict[str, Any]:
    effect = (
        None if row.effect is None else [row.effect.count, json_number(row.effect.mean), json_number(row.effect.std)]
    )
    return {
        "prediction": json_number(row.prediction),
        "change": json_number(row.change),
        "lower": json_number(row.lower),
        "upper": json_number(row.upper),
        "in_domain": row.in_domain,
        "similarity": json_number(row.similarity),
        "effect": effect,
        **_painted(details, n),
    }


def _painted(details: Details, n: int) -> dict[str, Any]:
    """The numbers of the n atoms; hydrogens and virtual nodes, which follow them, are left out."""
    values, received = details.values, details.received
    return {
        "values": None if values is None else [float(f"{v:.5g}") for v in values[:n]],
        "received": None if received is None else [float(f"{v:.5g}") for v in received[:n]],
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


def _prepared(smiles: str) -> Chem.Mol:
    return prepare_for_drawing(read_smiles(smiles, max_atoms=MAX_ATOMS))


def _aligned(smiles: str, parent: Chem.Mol, parent_atoms: Sequence[int]) -> Chem.Mol:
    """A variant for drawing, with the atoms that it shares with the parent at the same places."""
    mol = read_smiles(smiles, max_atoms=MAX_ATOMS)
    places = positions_2d(parent)
    shared = {i: Point2D(*map(float, places[p])) for i, p in enumerate(parent_atoms) if p >= 0}
    rdDepictor.Compute2DCoords(mol, coordMap=shared)
    return prepare_for_drawing(mol)
