"""Morgan fingerprints: which molecules are alike."""

from collections.abc import Sequence

import numpy as np
from rdkit import DataStructs
from rdkit.Chem import rdFingerprintGenerator

from molattn.chem.parse import MAX_ATOMS, read_smiles

RADIUS, BITS = 2, 2048


class Fingerprints:
    """The Morgan fingerprints of n molecules: radius 2, 2,048 bits, as of ECFP4.

    Args:
        smiles: n SMILES.
        max_atoms: the most atoms that one may have.

    Errors: SmilesError for one that cannot be read.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742 (https://doi.org/10.1021/ci100050t).
    """

    def __init__(self, smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS):
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
        self._bits = [generator.GetFingerprint(read_smiles(text, max_atoms=max_atoms)) for text in smiles]

    def __len__(self) -> int:
        return len(self._bits)

    def alike(self, row: int) -> np.ndarray:
        """Tanimoto similarity of molecule `row` with every one, (n,) from 0 to 1.

        s_j = |bits_row and bits_j| / |bits_row or bits_j|; two molecules without any bit are alike.
        """
        if not self._bits[row].GetNumOnBits():
            return np.array([1.0 - (bits.GetNumOnBits() > 0) for bits in self._bits])
        return np.array(DataStructs.BulkTanimotoSimilarity(self._bits[row], self._bits))


def morgan_bits(smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS) -> np.ndarray:
    """The bits of the same fingerprints, (n, 256) uint8, eight in a byte as `numpy.packbits` has them.

    Errors: SmilesError for one that cannot be read.
    """
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    molecules = (read_smiles(text, max_atoms=max_atoms) for text in smiles)
    rows = [np.packbits(generator.GetFingerprintAsNumPy(molecule)) for molecule in molecules]
    return np.array(rows, dtype=np.uint8).reshape(len(rows), BITS // 8)
