"""Atoms as small integers: one table of features, and the reader that fills an (n, F) matrix from it.

To add a feature, add one line to `ATOM_FEATURES`: how it is called, what its codes mean and how the label of
an atom is read. Isotopes and atom maps have no feature; an isotope is reported among the warnings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.features import UNKNOWN, Feature
from molattn.chem.parts import atoms_of
from molattn.chem.stereo import StereoLabels, stereo_labels


class AtomView(NamedTuple):
    """What a feature may look at."""

    atom: Chem.Atom
    """The atom, in a sanitised molecule."""

    rings: frozenset[int]
    """Sizes of the rings it is in; 8 stands for 8 and more."""

    cip: str
    """Its CIP label, or none."""


@dataclass(frozen=True)
class AtomFeature(Feature):
    """A feature of atoms; a label that is not in the table becomes unknown, with a warning."""

    read: Callable[[AtomView], str]
    """The label of one atom."""


_NO_YES = ("no", "yes")
_CHARGES = tuple(f"{charge:+d}" if charge else "0" for charge in range(-4, 5))
# Entry 0 of RDKit's periodic table is the dummy atom `*`.
_ELEMENTS = (UNKNOWN, *(Chem.GetPeriodicTable().GetElementSymbol(z) for z in range(1, 119)))


def _up_to(most: int) -> tuple[str, ...]:
    """Labels "0", "1", ... "most+"."""
    return (*map(str, range(most)), f"{most}+")


def _count(number: int, most: int) -> str:
    """The label of `number` among `_up_to(most)`."""
    return str(number) if number < most else f"{most}+"


def _charge(view: AtomView) -> str:
    charge = view.atom.GetFormalCharge()
    return f"{charge:+d}" if charge else "0"


def _hybridisation(view: AtomView) -> str:
    # RDKit gives most metals none, which is not worth a warning.
    label = view.atom.GetHybridization().name
    return UNKNOWN if label in ("UNSPECIFIED", "OTHER") else label


def _ring(size: int) -> AtomFeature:
    name = f"ring{size}" if size < 8 else "ring8plus"
    return AtomFeature(name, _NO_YES, lambda view: _NO_YES[size in view.rings])


ATOM_FEATURES: tuple[AtomFeature, ...] = (
    AtomFeature("element", _ELEMENTS, lambda view: view.atom.GetSymbol()),
    # Neighbours that are atoms of the graph: hydrogens count only where they are written out or were added.
    AtomFeature("degree", _up_to(6), lambda view: _count(view.atom.GetDegree(), 6)),
    # All of them, implicit or in the graph.
    AtomFeature("hydrogens", _up_to(4), lambda view: _count(view.atom.GetTotalNumHs(includeNeighbors=True), 4)),
    AtomFeature("charge", (UNKNOWN, *_CHARGES), _charge),
    AtomFeature(
        "hybridisation",
        (UNKNOWN, "S", "SP", "SP2", "SP3", "SP2D", "SP3D", "SP3D2"),
        _hybridisation,
    ),
    AtomFeature("aromatic", _NO_YES, lambda view: _NO_YES[view.atom.GetIsAromatic()]),
    *(_ring(size) for size in range(3, 9)),
    AtomFeature("radicals", _up_to(3), lambda view: _count(view.atom.GetNumRadicalElectrons(), 3)),
    AtomFeature("cip", ("none", "R", "S", "r", "s", UNKNOWN), lambda view: view.cip),
)
"""All features of an atom, in the order of the columns of `atom_codes`."""

_READERS = tuple((feature.read, feature.index) for feature in ATOM_FEATURES)


def _ring_sizes(mol: Chem.Mol) -> list[frozenset[int]]:
    """The ring sizes of every atom.

    Sanitisation leaves the symmetrised smallest set of smallest rings, in which all rings that are as good as
    one another are kept; any one smallest set would depend on the order of the atoms (cubane has 6
    rings, not 5).
    """
    sizes: list[set[int]] = [set() for _ in range(mol.GetNumAtoms())]
    for ring in mol.GetRingInfo().AtomRings():
        for i in ring:
            sizes[i].add(min(len(ring), 8))
    return [frozenset(s) for s in sizes]


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
    codes = np.zeros((mol.GetNumAtoms(), len(ATOM_FEATURES)), dtype=np.uint8)
    warnings = []
    for i, atom in enumerate(atoms_of(mol)):
        view = AtomView(atom, rings[i], stereo.atoms.get(i, "none"))
        row = [index.get(read(view), -1) for read, index in _READERS]
        if -1 in row:
            for k, feature in enumerate(ATOM_FEATURES):
                if row[k] < 0:
                    row[k] = feature.index[UNKNOWN]
                    label = feature.read(view)
                    warnings.append(f"atom {i} ({atom.GetSymbol()}): {feature.name} {label} is coded as unknown")
        codes[i] = row
        if atom.GetIsotope():
            warnings.append(f"atom {i} ({atom.GetSymbol()}): isotope {atom.GetIsotope()} is not coded")
    return codes, tuple(warnings)
