"""The 2D layout of a molecule: RDKit's, or CoordGen's where atoms are less on top of each other."""

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdCoordGen, rdDepictor

BOND_LENGTH = 1.5
_NEAR = 0.57  # bond lengths: nearer atoms that share no bond hide each other's labels
_MAX_ATOMS = 250  # CoordGen takes seconds for more


def lay_out(mol: Chem.Mol) -> None:
    """Give a molecule 2D coordinates, with bonds of about 1.5: RDKit's, or CoordGen's if these have fewer clashes.

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
    other = Chem.Mol(mol)
    rdCoordGen.AddCoords(other)
    positions = other.GetConformer().GetPositions()
    if not np.isfinite(positions).all() or count_clashes(other) >= clashes:
        return
    lengths = np.linalg.norm(np.diff(positions[_bonds(other)], axis=1), axis=-1)
    conformer = mol.GetConformer()
    for i, (x, y, _) in enumerate((positions * BOND_LENGTH / float(np.median(lengths))).tolist()):
        conformer.SetAtomPosition(i, (x, y, 0.0))


def count_clashes(mol: Chem.Mol) -> int:
    """The number of pairs of atoms without a bond that are nearer than 0.57 bond lengths, and of bonds that cross."""
    positions, bonds = mol.GetConformer().GetPositions()[:, :2], _bonds(mol)
    if not len(bonds):
        return 0
    far = np.linalg.norm(positions[:, None] - positions, axis=-1)
    length = float(np.median(far[bonds[:, 0], bonds[:, 1]]))
    near = np.triu(far < _NEAR * length, 1)
    near[bonds.min(1), bonds.max(1)] = False
    a, b = positions[bonds[:, 0]], positions[bonds[:, 1]]

    def sides(start: np.ndarray, end: np.ndarray, point: np.ndarray) -> np.ndarray:
        """On which side of each line from start to end each point is, (lines, points)."""
        x, y = np.moveaxis(point[None] - start[:, None], -1, 0)
        along = (end - start)[:, None]
        return np.sign(along[..., 0] * y - along[..., 1] * x)

    apart = sides(a, b, a) * sides(a, b, b) < 0  # the ends of bond l are on both sides of the line of bond k
    shared = (bonds[:, None, :, None] == bonds[None, :, None, :]).any((2, 3))
    return int(near.sum()) + int(np.triu(apart & apart.T & ~shared, 1).sum())


def _bonds(mol: Chem.Mol) -> np.ndarray:
    """The two atoms of each bond, (m, 2)."""
    return np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], dtype=int).reshape(-1, 2)
