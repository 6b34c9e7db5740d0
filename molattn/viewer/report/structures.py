"""The data of each molecule of a report: its drawing, scaffold, substructures and name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rdkit.Chem.Draw import rdMolDraw2D

from molattn.chem import FUNCTIONAL_GROUPS, MAX_ATOMS, canonical_smiles, murcko_scaffold, read_smiles
from molattn.chem.substructures import RING_SYSTEMS, substructure_matches
from molattn.errors import SmilesError
from molattn.viewer.discs import drawing_options, prepare_for_drawing
from molattn.viewer.glyphs import Glyphs
from molattn.viewer.palette import ELEMENTS

SUBSTRUCTURES: dict[str, str] = FUNCTIONAL_GROUPS | RING_SYSTEMS
"""SMARTS by name that every report can be searched for."""

NO_RINGS = "no rings"
"""The scaffold of molecules without rings."""

_PATH = re.compile(r"<path( class='(?:atom-(\d+))?[^']*')? d='([^']*)' (?:style|fill)='([^']*)'")


def compact_drawing(
    smiles: str, glyphs: Glyphs, max_atoms: int = MAX_ATOMS, *, with_atoms: bool = False
) -> dict[str, Any]:
    """The drawing of a molecule: `size`, [width, height]; `lines`, `dashed` and `solid`, paths; `letters`.

    Of each letter that is [i, x, y], with the symbol of its element where that has a color.

    Args:
        smiles: the molecule.
        glyphs: receives its letters.
        max_atoms: largest number of atoms.
        with_atoms: whether to add `atoms`, the [x, y] of each.

    Raises:
        SmilesError: it cannot be read.
    """
    drawer = rdMolDraw2D.MolDraw2DSVG(-1, -1)
    options = drawing_options(drawer)
    options.scalingFactor = 30
    options.fixedFontSize = 15
    options.padding = 0.0
    mol = prepare_for_drawing(read_smiles(smiles, max_atoms=max_atoms))
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    paths: dict[str, list[str]] = {"lines": [], "dashed": [], "solid": []}
    letters: list[list[float | str]] = []
    for kind, atom, d, style in _PATH.findall(drawer.GetDrawingText()):
        if "bond" not in kind and "fill:none" not in style:
            index, x, y = glyphs.add(d)
            symbol = mol.GetAtomWithIdx(int(atom)).GetSymbol() if atom else ""
            letters.append([index, x, y, *[symbol] * (symbol in ELEMENTS)])
            continue
        name = "dashed" if "dasharray" in style else "lines" if "fill:none" in style else "solid"
        paths[name].append(re.sub(r" ?([MLQCZ]) ?", r"\1", d.replace(",", " ")).strip())
    found: dict[str, Any] = {"size": [drawer.Width(), drawer.Height()]}
    found |= {name: "".join(parts) for name, parts in paths.items() if parts}
    if letters:
        found["letters"] = letters
    if with_atoms:
        points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
        found["atoms"] = [[round(p.x, 1), round(p.y, 1)] for p in points]
    return found


def scaffolds(smiles: Sequence[str], max_atoms: int = MAX_ATOMS) -> list[str]:
    """The Bemis-Murcko scaffold of each molecule; `NO_RINGS` without rings, "" where RDKit finds none."""
    found = []
    for text in smiles:
        try:
            found.append(murcko_scaffold(text, max_atoms=max_atoms) or NO_RINGS)
        except SmilesError:
            found.append("")
    return found


def canonical(smiles: Sequence[str], max_atoms: int = MAX_ATOMS) -> list[str]:
    """The canonical SMILES of each molecule."""
    return [canonical_smiles(read_smiles(text, max_atoms=max_atoms), max_atoms=max_atoms) for text in smiles]


def present_substructures(
    smiles: Sequence[str], own: Mapping[str, str], max_atoms: int = MAX_ATOMS
) -> tuple[list[str], np.ndarray]:
    """The names of all substructures, and whether each molecule has each, (n, p); without those of no molecule.

    Args:
        smiles: n SMILES.
        own: SMARTS by name of the user; they come first, and are kept if no molecule has them.
        max_atoms: largest number of atoms of a molecule.
    """
    patterns = {**own, **{name: smarts for name, smarts in SUBSTRUCTURES.items() if name not in own}}
    found = substructure_matches(smiles, patterns, max_atoms=max_atoms)
    kept = [k for k, name in enumerate(patterns) if name in own or found[:, k].any()]
    names = [*patterns]
    return [names[k] for k in kept], found[:, kept]
