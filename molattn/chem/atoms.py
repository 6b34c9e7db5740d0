"""Atoms as small integers: one table of features, and the getters that fill an (n, F) matrix from it.

To add a feature, add one line to `ATOM_FEATURES`: how it is called, what its codes mean, which fact of an atom it looks
at and what label that fact has. A new fact is one more field of `AtomFacts`; `molattn.chem.binary` must know how to
find it as well, or every molecule is read by these getters, which takes several times longer. Isotopes and atom maps
have no feature; an isotope is reported among the warnings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.features import UNKNOWN, Feature
from molattn.chem.parts import atoms_of
from molattn.chem.stereo import StereoLabels, stereo_labels


class AtomFacts(NamedTuple):
    """What is known of an atom of a sanitised molecule, as RDKit says it."""

    symbol: str
    """Of its element; `*` or a label for a dummy atom."""

    degree: int
    """Neighbours that are atoms of the graph: hydrogens count only where they are written out or were added."""

    hydrogens: int
    """All of them, implicit or in the graph."""

    charge: int
    """In elementary charges."""

    hybridisation: str
    """Its name in RDKit."""

    aromatic: bool
    """Whether it is so."""

    rings: frozenset[int]
    """Sizes of the rings it is in; 8 stands for 8 and more."""

    radicals: int
    """Unpaired electrons."""

    cip: str
    """Its CIP label, or none."""


@dataclass(frozen=True)
class AtomFeature(Feature):
    """A feature of atoms; a label that is not in the table becomes unknown, with a warning."""

    fact: str
    """The field of `AtomFacts` that it looks at."""

    read: Callable[[Any], str]
    """The label of that fact."""


_NO_YES = ("no", "yes")
_CHARGES = tuple(f"{charge:+d}" if charge else "0" for charge in range(-4, 5))
SYMBOLS = ("*", *(Chem.GetPeriodicTable().GetElementSymbol(z) for z in range(1, 119)))
"""Of the elements, by their numbers; the first is that of the dummy atom."""


def _up_to(name: str, most: int) -> AtomFeature:
    """A fact of the same name that is counted: labels "0", "1", ... "most+"."""
    labels = (*map(str, range(most)), f"{most}+")
    return AtomFeature(name, labels, name, lambda number: labels[min(number, most)])


def _hybridisation(name: str) -> str:
    # RDKit gives most metals none, which is not worth a warning.
    return UNKNOWN if name in ("UNSPECIFIED", "OTHER") else name


def _ring(size: int) -> AtomFeature:
    name = f"ring{size}" if size < 8 else "ring8plus"
    return AtomFeature(name, _NO_YES, "rings", lambda sizes: _NO_YES[size in sizes])


ATOM_FEATURES: tuple[AtomFeature, ...] = (
    AtomFeature("element", (UNKNOWN, *SYMBOLS[1:]), "symbol", str),
    _up_to("degree", 6),
    _up_to("hydrogens", 4),
    AtomFeature("charge", (UNKNOWN, *_CHARGES), "charge", lambda charge: f"{charge:+d}" if charge else "0"),
    AtomFeature(
        "hybridisation",
        (UNKNOWN, "S", "SP", "SP2", "SP3", "SP2D", "SP3D", "SP3D2"),
        "hybridisation",
        _hybridisation,
    ),
    AtomFeature("aromatic", _NO_YES, "aromatic", lambda aromatic: _NO_YES[aromatic]),
    *(_ring(size) for size in range(3, 9)),
    _up_to("radicals", 3),
    AtomFeature("cip", ("none", "R", "S", "r", "s", UNKNOWN), "cip", str),
)
"""All features of an atom, in the order of the columns of `atom_codes`."""

_READERS = tuple((AtomFacts._fields.index(f.fact), f.read, f.index) for f in ATOM_FEATURES)
_NO_RINGS: frozenset[int] = frozenset()
_HYBRIDISATIONS = {value: value.name for value in Chem.HybridizationType.values.values()}


def _ring_sizes(mol: Chem.Mol) -> list[frozenset[int]]:
    """The ring sizes of every atom.

    Sanitisation leaves the symmetrised smallest set of smallest rings, in which all rings that are as good as
    one another are kept; any one smallest set would depend on the order of the atoms (cubane has 6
    rings, not 5).
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
def _row(facts: AtomFacts) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The codes of an atom, and what is unknown of it, in words; atoms are alike more often than not."""
    labels = [read(facts[place]) for place, read, _ in _READERS]
    unknown = [
        f"{feature.name} {label} is coded as unknown"
        for feature, label in zip(ATOM_FEATURES, labels, strict=True)
        if label not in feature.index
    ]
    codes = (f.index[label if label in f.index else UNKNOWN] for f, label in zip(ATOM_FEATURES, labels, strict=True))
    return tuple(codes), tuple(unknown)


def atom_codes(mol: Chem.Mol, stereo: StereoLabels | None = None) -> tuple[npt.NDArray[np.uint8], tuple[str, ...]]:
    """The code of every feature of every atom, and a warning for each atom that the tables do not cover.

    Args:
        mol: A sanitised molecule.
        stereo: Its CIP labels, if they are known already.

    Returns:
        (n, F) uint8, columns as in `ATOM_FEATURES`; and the warnings, one sentence each.
    """
    stereo = stereo_labels(mol) if stereo is None else stereo
    rings = _ring_sizes(mol)
    rows, warnings = [], []
    for i, atom in enumerate(atoms_of(mol)):
        facts = AtomFacts(
            symbol=atom.GetSymbol(),
            degree=atom.GetDegree(),
            hydrogens=atom.GetTotalNumHs(True),  # those in the graph, too
            charge=atom.GetFormalCharge(),
            hybridisation=_HYBRIDISATIONS[atom.GetHybridization()],
            aromatic=atom.GetIsAromatic(),
            rings=rings[i],
            radicals=atom.GetNumRadicalElectrons(),
            cip=stereo.atoms.get(i, "none"),
        )
        codes, unknown = _row(facts)
        rows.append(codes)
        warnings += [f"atom {i} ({facts.symbol}): {what}" for what in unknown]
        if atom.GetIsotope():
            warnings.append(f"atom {i} ({facts.symbol}): isotope {atom.GetIsotope()} is not coded")
    return np.array(rows, dtype=np.uint8).reshape(len(rows), len(ATOM_FEATURES)), tuple(warnings)


def symbols_of(atom_codes: npt.NDArray[np.uint8]) -> tuple[str, ...]:
    """The element symbols that follow from the codes, `*` where the element is unknown; (n, F) to n."""
    return tuple(map(SYMBOLS.__getitem__, atom_codes[:, 0].tolist()))
