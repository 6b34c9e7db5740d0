"""The 2D layout of a molecule: RDKit's, or CoordGen's if that has fewer clashes."""

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdCoordGen, rdDepictor

BOND_LENGTH = 1.5
"""The bond length of RDKit's layouts, to which those of CoordGen are scaled."""

_CLASH_DISTANCE = 0.57  # in bond lengths: the labels of nearer atoms would overlap
_MAX_ATOMS = 250  # CoordGen takes seconds for more


def lay_out(mol: Chem.Mol) -> None:
    """Compute 2D coordinates, in place, with bonds of about 1.5: RDKit's, or CoordGen's if these have fewer clashes.

    Args:
        mol: the molecule; its coordinates are replaced. For one of more than 250 atoms CoordGen is not tried.

    >>> from molattn.chem import read_smiles
    >>> mol = read_smiles("CCO")
    >>> lay_out(mol)
    >>> count_clashes(mol)
    0
    """
    rdDepictor.Compute2DCoords(mol)
    clashes = count_clashes(mol)
    if not clashes or mol.GetNumAtoms() > _MAX_ATOMS:
        return
    coordgen = Chem.Mol(mol)
    rdCoordGen.AddCoords(coordgen)
    positions = coordgen.GetConformer().GetPositions()
    if not np.isfinite(positions).all() or count_clashes(coordgen) >= clashes:
        return
    lengths = np.linalg.norm(np.diff(positions[_bonds(coordgen)], axis=1), axis=-1)
    conformer = mol.GetConformer()
    for i, (x, y, _) in enumerate((positions * BOND_LENGTH / float(np.median(lengths))).tolist()):
        conformer.SetAtomPosition(i, (x, y, 0.0))


def count_clashes(mol: Chem.Mol) -> int:
    """The number of pairs of atoms without a bond that are nearer than 0.57 bond lengths, and of bonds that cross.

    Args:
        mol: a molecule with 2D coordinates; one without bonds has no bond length, and its count is 0.
    """
    positions, bonds = mol.GetConformer().GetPositions()[:, :2], _bonds(mol)
    if not len(bonds):
        return 0
    distances = np.linalg.norm(positions[:, None] - positions, axis=-1)
    length = float(np.median(distances[bonds[:, 0], bonds[:, 1]]))
    overlap = np.triu(distances < _CLASH_DISTANCE * length, 1)
    overlap[bonds.min(1), bonds.max(1)] = False
    a, b = positions[bonds[:, 0]], positions[bonds[:, 1]]

    def sides(start: np.ndarray, end: np.ndarray, point: np.ndarray) -> np.ndarray:
        """On which side of each line from start to end each point is: -1, 0 or 1, (lines, points)."""
        x, y = np.moveaxis(point[None] - start[:, None], -1, 0)
        along = (end - start)[:, None]
        return np.sign(along[..., 0] * y - along[..., 1] * x)

    # [k, l]: the ends of bond l are on different sides of the line through bond k. If [l, k] as well, the two cross.
    separated = sides(a, b, a) * sides(a, b, b) < 0
    share_atom = (bonds[:, None, :, None] == bonds[None, :, None, :]).any((2, 3))
    return int(overlap.sum()) + int(np.triu(separated & separated.T & ~share_atom, 1).sum())


def _bonds(mol: Chem.Mol) -> np.ndarray:
    """The two atoms of each bond, (m, 2)."""
    return np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], dtype=int).reshape(-1, 2)
