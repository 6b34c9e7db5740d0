"""Where the atoms of a molecule are in space: one conformer, and the distances in it.

The geometry is that of ETKDG and MMFF94 for a molecule on its own: likely, neither measured nor the only one. It is
made from the canonical form of each fragment, so that every spelling of a molecule has the same distances.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from molattn.chem.parse import MAX_ATOMS, convert_rdkit_errors, read_smiles
from molattn.chem.paths import DISCONNECTED
from molattn.errors import ConformerError

ON_FAILURE = ("paths", "reject", "stop")
"""What can be done about a molecule without a geometry: see `Conformers.on_failure`."""

BOND_LENGTH = 1.4
"""Angstrom for each bond of a path, where path lengths stand in for distances: between C-C and C=C."""

MAX_EMBEDDED = 400
"""Atoms of a fragment, hydrogens included. So many take about 20 s, most of it for MMFF94; in larger ones RDKit looks
at its clock too rarely, and takes minutes."""

NO_GEOMETRY = f"distances are path lengths times {BOND_LENGTH} angstrom: "
"""How the warning begins of a molecule whose distances are path lengths."""

NOT_OPTIMISED = "3D geometry not optimised: "
"""How the warning begins of a molecule whose geometry MMFF94 did not bring to a minimum."""

_STEPS = 2_000
_MAX_SEED = 2**31 - 2
_TIMEOUT = int(rdDistGeom.EmbedFailureCauses.EXCEEDED_TIMEOUT)


@dataclass(frozen=True)
class Conformers:
    """How molecules get their distances.

    Errors: ValueError for a setting out of range.
    """

    seed: int = 0
    """Of the random start; the same seed gives the same geometry to the bit, in whatever process."""

    timeout: int = 10
    """Whole seconds for each of the two attempts at a fragment. Where it is met, the machine's speed decides."""

    on_failure: str = "paths"
    """Without a geometry: "paths" takes path lengths times `BOND_LENGTH` and warns; "reject" makes the row an error;
    "stop" ends the work with that error."""

    def __post_init__(self):
        if not 0 <= self.seed <= _MAX_SEED:
            raise ValueError(f"the seed of conformers is 0 to {_MAX_SEED}, not {self.seed}")
        if self.timeout < 1:
            raise ValueError(f"the timeout of conformers is 1 second or more, not {self.timeout}")
        if self.on_failure not in ON_FAILURE:
            raise ValueError(f"unknown policy {self.on_failure!r}: choose one of {', '.join(ON_FAILURE)}")


class Conformer(NamedTuple):
    """One geometry of a molecule."""

    coordinates: npt.NDArray[np.float64]
    """(n, 3) in angstrom, atoms as in the graph. Each fragment stands at an origin of its own: nothing is known of
    where one fragment is to another."""

    warnings: tuple[str, ...]
    """What MMFF94 did not optimise, a sentence each."""


def conformer(
    smiles: object,
    *,
    add_hs: bool = False,
    max_atoms: int = MAX_ATOMS,
    seed: int = 0,
    timeout: int = Conformers.timeout,
) -> Conformer:
    """The coordinates of one SMILES: ETKDGv3 with all hydrogens, then MMFF94.

    Hydrogens are left out again unless `add_hs`. Where MMFF94 has no parameters for a fragment or does not converge,
    its geometry is what ETKDG or the last step left, and a warning says so.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        add_hs: Whether hydrogens are atoms of the graph; they then follow the others.
        max_atoms: The most atoms there may be.
        seed: Of the random start.
        timeout: Whole seconds for each of the two attempts at a fragment.

    Errors: SmilesError, for whatever is not a molecule within the limits; ConformerError, one of them, where RDKit
    finds no geometry.
    """
    return embed(read_smiles(smiles, max_atoms=max_atoms, add_hs=add_hs), smiles, Conformers(seed, timeout))


def distances(
    mol: Chem.Mol, smiles: object, paths: npt.NDArray[np.uint8], settings: Conformers
) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """d_ij = |x_i - x_j| within a fragment and inf between two, and the warnings.

    Args:
        mol: A sanitised molecule.
        smiles: What an error calls it.
        paths: Its path lengths, (n, n).
        settings: How the geometry is made, and what becomes of a molecule without one.

    Returns:
        (n, n) float32 in angstrom, symmetric, 0 on the diagonal; computed in float64.

    Errors: ConformerError, unless `settings.on_failure` is "paths".
    """
    try:
        x, warnings = embed(mol, smiles, settings)
    except ConformerError as error:
        if settings.on_failure != "paths":
            raise
        d = BOND_LENGTH * paths.astype(np.float64)
        warnings = (NO_GEOMETRY + error.reason,)
    else:
        d = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    return np.where(paths == DISCONNECTED, np.inf, d).astype(np.float32), warnings


def embed(mol: Chem.Mol, smiles: object, settings: Conformers) -> Conformer:
    """The coordinates of the atoms of `mol`, fragment by fragment; `mol` itself is not changed.

    Errors: ConformerError, in which the molecule is called `smiles`.
    """
    places: list[tuple[int, ...]] = []
    warnings: list[str] = []
    with convert_rdkit_errors(smiles, "find a 3D geometry", ConformerError), rdBase.BlockLogs():
        full = Chem.AddHs(mol)
        fragments = Chem.GetMolFrags(full, asMols=True, fragsMolAtomMapping=places)
        x = np.zeros((full.GetNumAtoms(), 3))
        for fragment, place in zip(fragments, places, strict=True):
            # A lone atom has no geometry.
            if len(place) > 1:
                x[list(place)], found = _embedded(fragment, smiles, settings)
                warnings += found
    # All added hydrogens follow the atoms of the graph.
    return Conformer(x[: mol.GetNumAtoms()], tuple(dict.fromkeys(warnings)))


def _embedded(fragment: Chem.Mol, smiles: object, settings: Conformers) -> tuple[npt.NDArray[np.float64], list[str]]:
    """The coordinates of one fragment with all its hydrogens, and what was not optimised."""
    n = fragment.GetNumAtoms()
    if n > MAX_EMBEDDED:
        raise ConformerError(
            smiles, f"a fragment of {n:,} atoms, hydrogens included, is over the limit of {MAX_EMBEDDED} for 3D"
        )
    mol, order = _canonical(fragment)
    for random in (False, True):
        # The first attempt, from the eigenvectors of a matrix of distances, fails for long chains.
        parameters = rdDistGeom.ETKDGv3()
        # RDKit takes 0 and 1 for the same seed.
        parameters.randomSeed = settings.seed + 1
        parameters.timeout = settings.timeout
        parameters.useRandomCoords = random
        parameters.trackFailures = True
        if rdDistGeom.EmbedMolecule(mol, parameters) == 0:
            break
        if parameters.GetFailureCounts()[_TIMEOUT]:
            raise ConformerError(smiles, f"RDKit finds no 3D geometry within {settings.timeout} s")
    else:
        raise ConformerError(smiles, "RDKit finds no 3D geometry that fits its rings, bonds and stereochemistry")
    warnings = _optimised(mol)
    x = np.empty((n, 3))
    x[order] = mol.GetConformer().GetPositions()
    if not np.isfinite(x).all():
        raise ConformerError(smiles, "RDKit finds only a 3D geometry whose coordinates are not finite")
    return x, warnings


def _canonical(fragment: Chem.Mol) -> tuple[Chem.Mol, list[int]]:
    """The fragment as its canonical SMILES spells it, and which of its atoms each atom of that is.

    Geometry depends on the order of atoms and of bonds.
    """
    text = Chem.MolToSmiles(fragment)
    order = list(fragment.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"])
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    parameters.allowCXSMILES = False
    parameters.parseName = False
    spelled = Chem.MolFromSmiles(text, parameters)
    if spelled is None or spelled.GetNumAtoms() != len(order):
        return fragment, list(range(fragment.GetNumAtoms()))
    return spelled, order


def _optimised(mol: Chem.Mol) -> list[str]:
    """Move the atoms to a minimum of MMFF94 in place; say what stood in the way."""
    if not rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        return [f"{NOT_OPTIMISED}MMFF94 has no parameters for it"]
    if rdForceFieldHelpers.MMFFOptimizeMolecule(mol, maxIters=_STEPS):
        return [f"{NOT_OPTIMISED}MMFF94 finds no minimum in {_STEPS:,} steps"]
    return []
