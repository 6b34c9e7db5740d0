"""Atom features as integer codes: the table of features, and the (n, F) matrix of a molecule.

To add a feature, add an `AtomFeature` to `ATOM_FEATURES`: its name, the labels of its codes, the field of
`AtomProperties` that it encodes and the function from that property to its label. A new property is a new field of
`AtomProperties`; `molattn.chem.binary` must read it as well, or every molecule goes through the slower functions of
this module. Isotopes and atom map numbers have no feature; an isotope is reported among the warnings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.features import ELEMENT_SYMBOLS, UNKNOWN, Feature, get_atoms
from molattn.chem.stereo import StereoLabels, stereo_labels


class AtomProperties(NamedTuple):
    """The properties of an atom of a sanitized molecule, from RDKit."""

    symbol: str
    """Element symbol; `*` or a label for a dummy atom."""

    degree: int
    """Number of neighbours in the graph: hydrogens count only if they are explicit atoms."""

    hydrogens: int
    """Number of hydrogens, implicit or in the graph."""

    charge: int
    """Formal charge."""

    hybridization: str
    """Name of RDKit's `HybridizationType`."""

    aromatic: bool
    """Whether RDKit perceives it as aromatic."""

    rings: frozenset[int]
    """Sizes of its rings; 8 means 8 or more."""

    radicals: int
    """Number of unpaired electrons."""

    cip: str
    """CIP label, or "none"."""


@dataclass(frozen=True)
class AtomFeature(Feature):
    """A feature of atoms; a label that is not in the table is coded as unknown, with a warning.

    Attributes:
        name: its name, also in tables and legends.
        labels: `labels[code]` is the label of a code.
        source: the property of an atom that it encodes, such as "charge" or "hybridization".
        to_label: from that property to a label.

    Raises:
        ValueError: `labels` are not 1 to 256 different strings.

    >>> from molattn.chem import ATOM_FEATURES
    >>> charge = next(feature for feature in ATOM_FEATURES if feature.name == "charge")
    >>> charge.to_label(-1), charge.index["-1"], charge.size
    ('-1', 4, 10)
    """

    source: str
    to_label: Callable[[Any], str]


_NO_YES = ("no", "yes")
_CHARGES = tuple(f"{charge:+d}" if charge else "0" for charge in range(-4, 5))


def _count_feature(name: str, maximum: int) -> AtomFeature:
    """A feature for the count of the same name: labels "0", "1", ... "maximum+"."""
    labels = (*map(str, range(maximum)), f"{maximum}+")
    return AtomFeature(name, labels, name, lambda number: labels[min(number, maximum)])


def _hybridization(name: str) -> str:
    # RDKit assigns no hybridization to most metals: they are coded as unknown without a warning.
    return UNKNOWN if name in ("UNSPECIFIED", "OTHER") else name


def _ring(size: int) -> AtomFeature:
    name = f"ring{size}" if size < 8 else "ring8plus"
    return AtomFeature(name, _NO_YES, "rings", lambda sizes: _NO_YES[size in sizes])


ATOM_FEATURES: tuple[AtomFeature, ...] = (
    AtomFeature("element", (UNKNOWN, *ELEMENT_SYMBOLS[1:]), "symbol", str),
    _count_feature("degree", 6),
    _count_feature("hydrogens", 4),
    AtomFeature("charge", (UNKNOWN, *_CHARGES), "charge", lambda charge: f"{charge:+d}" if charge else "0"),
    AtomFeature(
        "hybridization",
        (UNKNOWN, "S", "SP", "SP2", "SP3", "SP2D", "SP3D", "SP3D2"),
        "hybridization",
        _hybridization,
    ),
    AtomFeature("aromatic", _NO_YES, "aromatic", lambda aromatic: _NO_YES[aromatic]),
    *(_ring(size) for size in range(3, 9)),
    _count_feature("radicals", 3),
    AtomFeature("cip", ("none", "R", "S", "r", "s", UNKNOWN), "cip", str),
)
"""All features of an atom, in the order of the columns of `atom_codes`."""

_ENCODERS = tuple((AtomProperties._fields.index(f.source), f.to_label) for f in ATOM_FEATURES)
_NO_RINGS: frozenset[int] = frozenset()


def _ring_sizes(mol: Chem.Mol) -> list[frozenset[int]]:
    """The ring sizes of every atom.

    From the symmetrized SSSR, which sanitization computes and which contains all equivalent rings. A plain SSSR would
    depend on the order of the atoms (cubane has 6 rings, not 5).
    """
    sizes = [_NO_RINGS] * mol.GetNumAtoms()
    for ring in mol.GetRingInfo().AtomRings():
        size = min(len(ring), 8)
        for i in ring:
            sizes[i] = _with_size(sizes[i], size)
    return sizes


@lru_cache
def _with_size(sizes: frozenset[int], size: int) -> frozenset[int]:
    return sizes | {size}


@lru_cache(4096)
def _row(properties: AtomProperties) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The codes of an atom, and a message for each unknown label; cached, since few combinations are common."""
    labels = [to_label(properties[field]) for field, to_label in _ENCODERS]
    unknown = [
        f"{feature.name} {label} is coded as unknown"
        for feature, label in zip(ATOM_FEATURES, labels, strict=True)
        if label not in feature.index
    ]
    codes = (f.index[label if label in f.index else UNKNOWN] for f, label in zip(ATOM_FEATURES, labels, strict=True))
    return tuple(codes), tuple(unknown)


def atom_codes(mol: Chem.Mol, stereo: StereoLabels | None = None) -> tuple[npt.NDArray[np.uint8], tuple[str, ...]]:
    """The codes of all features of all atoms, and a warning for each atom that the tables do not cover.

    Args:
        mol: a sanitized molecule of n atoms; hydrogens are rows only if they are explicit atoms.
        stereo: its CIP labels, if already computed.

    Returns:
        (n, F) uint8, columns as in `ATOM_FEATURES`; and the warnings, one sentence each.

    >>> from molattn.chem import ATOM_FEATURES, atom_codes, read_smiles
    >>> codes, warnings = atom_codes(read_smiles("[13CH3]O"))
    >>> codes.shape == (2, len(ATOM_FEATURES))
    True
    >>> [ATOM_FEATURES[0].labels[code] for code in codes[:, 0]]
    ['C', 'O']
    >>> warnings
    ('atom 0 (C): isotope 13 is not coded',)
    """
    stereo = stereo_labels(mol) if stereo is None else stereo
    rings = _ring_sizes(mol)
    rows, warnings = [], []
    for i, atom in enumerate(get_atoms(mol)):
        properties = AtomProperties(
            symbol=atom.GetSymbol(),
            degree=atom.GetDegree(),
            hydrogens=atom.GetTotalNumHs(True),  # True: explicit hydrogens count, too
            charge=atom.GetFormalCharge(),
            hybridization=atom.GetHybridization().name,
            aromatic=atom.GetIsAromatic(),
            rings=rings[i],
            radicals=atom.GetNumRadicalElectrons(),
            cip=stereo.atoms.get(i, "none"),
        )
        codes, unknown = _row(properties)
        rows.append(codes)
        warnings += [f"atom {i} ({properties.symbol}): {message}" for message in unknown]
        if atom.GetIsotope():
            warnings.append(f"atom {i} ({properties.symbol}): isotope {atom.GetIsotope()} is not coded")
    return np.array(rows, dtype=np.uint8).reshape(len(rows), len(ATOM_FEATURES)), tuple(warnings)


def symbols_from_codes(atom_codes: npt.NDArray[np.uint8]) -> tuple[str, ...]:
    """The element symbols of atom codes (n, F); `*` for an unknown element."""
    return tuple(map(ELEMENT_SYMBOLS.__getitem__, atom_codes[:, 0].tolist()))
