"""The structures of the molecules of a report: drawings, scaffolds, canonical SMILES and substructures."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from molattn.chem import FUNCTIONAL_GROUPS, MAX_ATOMS, canonical_smiles, murcko_scaffold, read_smiles
from molattn.chem.substructures import RINGS_AND_ATOMS, substructure_matches
from molattn.errors import SmilesError
from molattn.viewer.discs import prepare_for_drawing
from molattn.viewer.glyphs import Glyphs
from molattn.viewer.palette import ELEMENTS
from molattn.viewer.web.drawing import draw_at_fixed_scale

SUBSTRUCTURES: dict[str, str] = FUNCTIONAL_GROUPS | RINGS_AND_ATOMS
"""SMARTS by name that the molecules of every report can be filtered by."""

NO_RINGS = "no rings"
"""The scaffold of molecules without rings."""

_PATH = re.compile(r"<path( class='(?:atom-(\d+))?[^']*')? d='([^']*)' (?:style|fill)='([^']*)'")


def compact_drawing(
    smiles: str, glyphs: Glyphs, max_atoms: int = MAX_ATOMS, *, with_atoms: bool = False
) -> dict[str, Any]:
    """The drawing of a molecule for report.js, in pixels, in which a bond is about 45 long.

    Args:
        smiles: SMILES of the molecule.
        glyphs: the letters are added to these.
        max_atoms: largest number of atoms.
        with_atoms: whether to add the positions of the atoms.

    Returns:
        `size`, [width, height]; the SVG paths `lines`, `dashed` and `solid`; `letters`, the [index of the glyph, x, y]
        of each, and the symbol of its element if that is in `ELEMENTS`; and with `with_atoms` `atoms`, [x, y] of each.
        What a molecule does not have is left out.

    Raises:
        SmilesError: the SMILES cannot be read.
    """
    mol = prepare_for_drawing(read_smiles(smiles, max_atoms=max_atoms))
    drawer = draw_at_fixed_scale(mol)
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
    drawing: dict[str, Any] = {"size": [drawer.Width(), drawer.Height()]}
    drawing |= {name: "".join(parts) for name, parts in paths.items() if parts}
    if letters:
        drawing["letters"] = letters
    if with_atoms:
        points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
        drawing["atoms"] = [[round(p.x, 1), round(p.y, 1)] for p in points]
    return drawing


def scaffolds(smiles: Sequence[str], max_atoms: int = MAX_ATOMS) -> list[str]:
    """The Bemis-Murcko scaffold of each molecule; `NO_RINGS` if it has no rings, "" if RDKit cannot compute it."""
    found = []
    for text in smiles:
        try:
            found.append(murcko_scaffold(text, max_atoms=max_atoms) or NO_RINGS)
        except SmilesError:
            found.append("")
    return found


def canonical(smiles: Sequence[str], max_atoms: int = MAX_ATOMS) -> list[str]:
    """The canonical SMILES of each molecule; SmilesError if one cannot be read."""
    return [canonical_smiles(read_smiles(text, max_atoms=max_atoms), max_atoms=max_atoms) for text in smiles]


def present_substructures(
    smiles: Sequence[str], smarts: Mapping[str, str], max_atoms: int = MAX_ATOMS
) -> tuple[list[str], np.ndarray]:
    """The substructures that occur in the molecules.

    Args:
        smiles: n SMILES.
        smarts: the SMARTS of the user by name. They come before `SUBSTRUCTURES`, replace those of the same name, and
            are included even if no molecule has them.
        max_atoms: largest number of atoms of a molecule.

    Returns:
        The names of p substructures, and whether each molecule has each, (n, p).

    Raises:
        SmilesError: a SMILES cannot be read.
        UsageError: a SMARTS cannot be read.
    """
    patterns = {**smarts} | {name: pattern for name, pattern in SUBSTRUCTURES.items() if name not in smarts}
    matches = substructure_matches(smiles, patterns, max_atoms=max_atoms)
    present = [k for k, name in enumerate(patterns) if name in smarts or matches[:, k].any()]
    names = [*patterns]
    return [names[k] for k in present], matches[:, present]
