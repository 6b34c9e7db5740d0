"""Bond features of pairs of atoms, packed into one byte each.

A byte holds four features in mixed radix, packed = ((bond_type * 2 + in_ring) * 2 + conjugated) * 4 + stereo, so
that the bonds of a molecule are an (n, n) matrix of bytes. 0 is a pair without a bond.
"""

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.features import UNKNOWN, Feature, get_bonds
from molattn.chem.stereo import StereoLabels, stereo_labels

_BOND_ORDERS = ("single", "double", "triple", "quadruple", "aromatic")
BOND_FEATURES: tuple[Feature, ...] = (
    # "dative to": the receiver i is the donor and the sender j the acceptor; "dative from": the reverse.
    Feature("bond_type", ("none", "self", *_BOND_ORDERS, "dative to", "dative from", UNKNOWN)),
    Feature("in_ring", ("no", "yes")),
    Feature("conjugated", ("no", "yes")),
    Feature("stereo", ("none", "E", "Z", UNKNOWN)),
)
"""All features of a pair, from the most significant to the least."""

BOND_SIZE = math.prod(feature.size for feature in BOND_FEATURES)
"""Number of values of a packed byte."""

_RADIX = tuple(feature.size for feature in BOND_FEATURES)
_BOND_TYPE, _, _, _STEREO = BOND_FEATURES
# The labels of a bond with its begin atom as the receiver, and with its end atom as the receiver.
_TYPE_LABELS = {Chem.BondType.names[name.upper()]: (name, name) for name in _BOND_ORDERS}
_TYPE_LABELS[Chem.BondType.DATIVE] = ("dative to", "dative from")
BOND_TYPES = frozenset(_TYPE_LABELS)
"""The bond types that the table covers."""


def pack_bond(codes: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Pack four codes into one byte.

    packed = ((bond_type * 2 + in_ring) * 2 + conjugated) * 4 + stereo

    Args:
        codes: (..., 4) integers, in the order of `BOND_FEATURES`.

    Returns:
        (...) uint8, below `BOND_SIZE`.

    Raises:
        ValueError: a last axis that does not hold four codes, or a code outside its table.

    >>> from molattn.chem import BOND_FEATURES, pack_bond
    >>> labels = ("double", "no", "yes", "E")
    >>> codes = [feature.index[label] for feature, label in zip(BOND_FEATURES, labels, strict=True)]
    >>> codes, int(pack_bond(codes))
    ([3, 0, 1, 1], 53)
    """
    codes = np.asarray(codes)
    if codes.shape[-1:] != (len(_RADIX),):
        raise ValueError(f"the last axis must hold {len(_RADIX)} codes, not shape {codes.shape}")
    if (codes < 0).any() or (codes >= np.array(_RADIX)).any():
        raise ValueError(f"a code is outside its table; the sizes are {_RADIX}")
    packed = np.zeros(codes.shape[:-1], dtype=np.int64)
    for position, size in enumerate(_RADIX):
        packed = packed * size + codes[..., position]
    # Arithmetic turns a 0-d array into a scalar.
    return np.asarray(packed, dtype=np.uint8)


def unpack_bond(packed: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """The four codes of each packed bond: the inverse of `pack_bond`.

    Args:
        packed: (...) integers, such as `MoleculeGraph.bond_codes`.

    Returns:
        (..., 4) uint8, in the order of `BOND_FEATURES`.

    Raises:
        ValueError: a value that is negative or not below `BOND_SIZE`.

    >>> from molattn.chem import BOND_FEATURES, molecule_graph, unpack_bond
    >>> codes = unpack_bond(molecule_graph("C=O").bond_codes)
    >>> codes.shape
    (2, 2, 4)
    >>> [feature.labels[code] for feature, code in zip(BOND_FEATURES, codes[0, 1], strict=True)]
    ['double', 'no', 'no', 'none']
    """
    packed = np.asarray(packed)
    if (packed < 0).any() or (packed >= BOND_SIZE).any():
        raise ValueError(f"a packed bond is 0 to {BOND_SIZE - 1}")
    return _UNPACKED[packed]


SELF = int(pack_bond([_BOND_TYPE.index["self"], 0, 0, 0]))
"""The byte of the pair of an atom and itself, on the diagonal."""

_UNPACKED = np.stack(np.unravel_index(np.arange(BOND_SIZE), _RADIX), axis=-1).astype(np.uint8)


def bond_codes(mol: Chem.Mol, stereo: StereoLabels | None = None) -> tuple[npt.NDArray[np.uint8], tuple[str, ...]]:
    """The codes of all pairs of atoms, and a warning for each bond that the table does not cover.

    Args:
        mol: a sanitized molecule of n atoms.
        stereo: its CIP labels, if already computed.

    Returns:
        (n, n) uint8, `codes[i, j]` for receiver i and sender j, packed as by `pack_bond`: "self" on the diagonal, 0
        without a bond, symmetric except for dative bonds; and the warnings, one sentence each.

    >>> from molattn.chem import bond_codes, read_smiles
    >>> codes, warnings = bond_codes(read_smiles("CCO"))
    >>> codes.tolist(), warnings
    ([[16, 32, 0], [32, 16, 32], [0, 32, 16]], ())
    """
    stereo = stereo_labels(mol) if stereo is None else stereo
    n = mol.GetNumAtoms()
    codes = np.zeros((n, n), dtype=np.uint8)
    np.fill_diagonal(codes, SELF)
    warnings = []
    for bond in get_bonds(mol):
        i, j, bond_type = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondType()
        if bond_type not in BOND_TYPES:
            ends = f"bond {i}-{j} ({bond.GetBeginAtom().GetSymbol()}, {bond.GetEndAtom().GetSymbol()})"
            warnings.append(f"{ends}: bond type {bond_type.name} is coded as unknown")
        label = stereo.bonds.get(bond.GetIdx(), "none")
        codes[i, j], codes[j, i] = pair_codes(bond_type, bond.IsInRing(), bond.GetIsConjugated(), label)
    return codes, tuple(warnings)


@cache
def pair_codes(bond_type: Chem.BondType, in_ring: bool, conjugated: bool, stereo: str = "none") -> tuple[int, int]:
    """The byte of a bond with its begin atom as the receiver, and with its end atom as the receiver."""
    forward, backward = _TYPE_LABELS.get(bond_type, (UNKNOWN, UNKNOWN))
    # Atropisomers have labels other than E and Z.
    label = _STEREO.index.get(stereo, _STEREO.index[UNKNOWN])
    rest = [int(in_ring), int(conjugated), label]
    return int(pack_bond([_BOND_TYPE.index[forward], *rest])), int(pack_bond([_BOND_TYPE.index[backward], *rest]))


def with_stereo(packed: npt.NDArray[np.uint8], stereo: str) -> npt.NDArray[np.uint8]:
    """Packed bonds with their stereo feature set."""
    codes = unpack_bond(packed)
    codes[..., -1] = _STEREO.index.get(stereo, _STEREO.index[UNKNOWN])
    return pack_bond(codes)
