"""3D conformers: coordinates of the atoms of a molecule, and the distances between them.

The geometry is computed by ETKDG and MMFF94 for an isolated molecule: a plausible one, neither measured nor unique.
Each fragment is embedded in its canonical form, so that all SMILES of a molecule give the same distances.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from molattn.chem.codes import DISCONNECTED
from molattn.chem.parse import MAX_ATOMS, convert_rdkit_errors, read_smiles
from molattn.chem.stereo import canonical_form
from molattn.errors import ConformerError, unknown_choice

ON_FAILURE = ("paths", "reject", "stop")
"""Policies for a molecule without a geometry: see `ConformerOptions.on_failure`."""

BOND_LENGTH = 1.4
"""Angstrom per bond if path lengths replace distances: between the lengths of C-C and C=C."""

MAX_EMBEDDED_ATOMS = 400
"""Largest number of atoms of a fragment, hydrogens included. 400 take about 20 s, mostly for MMFF94; for larger ones
RDKit checks its timeout too rarely, and takes minutes."""

NO_GEOMETRY = f"distances are path lengths times {BOND_LENGTH} angstrom: "
"""The prefix of the warning for a molecule whose distances are path lengths."""

NOT_OPTIMIZED = "3D geometry not optimized: "
"""The prefix of the warning for a molecule whose geometry MMFF94 did not minimize."""

_MAX_STEPS = 2_000
_MAX_SEED = 2**31 - 2
_TIMEOUT = int(rdDistGeom.EmbedFailureCauses.EXCEEDED_TIMEOUT)


@dataclass(frozen=True)
class ConformerOptions:
    """How the distances between atoms are computed.

    Attributes:
        seed: random seed of the embedding, 0 to 2^31 - 2; the same seed gives bitwise the same geometry in any process.
        timeout: whole seconds for each of the two attempts at a fragment, 1 or more. Whether it is exceeded depends on
            the machine's speed.
        on_failure: what to do with a molecule without a geometry: "paths" uses path lengths times `BOND_LENGTH`, with a
            warning; "reject" makes the row an error; "stop" raises that error.

    Raises:
        ValueError: a setting is out of range, or `on_failure` is not in `ON_FAILURE`.

    >>> from molattn.chem import ConformerOptions, molecule_graph
    >>> graph = molecule_graph("CCO", conformers=ConformerOptions(seed=1))
    >>> [round(float(d), 1) for d in graph.distances[0]]  # angstrom from the first carbon
    [0.0, 1.5, 2.4]
    """

    seed: int = 0
    timeout: int = 10
    on_failure: str = "paths"

    def __post_init__(self):
        if not 0 <= self.seed <= _MAX_SEED:
            raise ValueError(f"the seed of conformers must be from 0 to {_MAX_SEED}, not {self.seed}")
        if self.timeout < 1:
            raise ValueError(f"the timeout of conformers must be 1 second or more, not {self.timeout}")
        if self.on_failure not in ON_FAILURE:
            raise ValueError(unknown_choice("policy", self.on_failure, ON_FAILURE))


class Conformer(NamedTuple):
    """One geometry of a molecule.

    Attributes:
        coordinates: (n, 3) float64 in angstrom, atoms as in the graph. Each fragment has its own origin: positions of
            fragments relative to each other are unknown.
        warnings: one sentence for each reason why MMFF94 did not minimize a fragment.

    >>> from molattn.chem import conformer
    >>> coordinates, warnings = conformer("CCO")
    >>> coordinates.shape, warnings
    ((3, 3), ())
    """

    coordinates: npt.NDArray[np.float64]
    warnings: tuple[str, ...]


def conformer(
    smiles: object,
    *,
    add_hs: bool = False,
    max_atoms: int = MAX_ATOMS,
    seed: int = 0,
    timeout: int = ConformerOptions.timeout,
) -> Conformer:
    """The coordinates of the atoms of a molecule: ETKDGv3 with all hydrogens, then MMFF94.

    Hydrogens are removed again unless `add_hs`. If MMFF94 has no parameters for a fragment, its geometry is that of
    ETKDG; if it does not converge, that of the last step. A warning reports either.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        add_hs: whether hydrogens are atoms of the graph; they then follow the others.
        max_atoms: largest number of atoms.
        seed: random seed of the embedding, 0 to 2^31 - 2.
        timeout: whole seconds for each of the two attempts at a fragment, 1 or more.

    Raises:
        SmilesError: text that is not a molecule within the limits.
        ConformerError: RDKit finds no geometry, or a fragment has more than 400 atoms, hydrogens included. It is a
            subclass of SmilesError.
        ValueError: `seed` or `timeout` is out of range.

    Sources: ETKDG, Riniker and Landrum, J. Chem. Inf. Model. 2015, 55, 2562 (https://doi.org/10.1021/acs.jcim.5b00654);
    ETKDGv3, Wang et al., J. Chem. Inf. Model. 2020, 60, 2044 (https://doi.org/10.1021/acs.jcim.0c00025); MMFF94 in
    RDKit, Tosco, Stiefl and Landrum, J. Cheminform. 2014, 6, 37 (https://doi.org/10.1186/s13321-014-0037-3).

    >>> import numpy as np
    >>> from molattn.chem import conformer
    >>> x = conformer("CCO").coordinates
    >>> [round(float(np.linalg.norm(x[i] - x[i + 1])), 1) for i in (0, 1)]  # angstrom: C-C, C-O
    [1.5, 1.4]
    >>> conformer("O", add_hs=True).coordinates.shape
    (3, 3)
    """
    return embed(read_smiles(smiles, max_atoms=max_atoms, add_hs=add_hs), smiles, ConformerOptions(seed, timeout))


def distances(
    mol: Chem.Mol, smiles: object, paths: npt.NDArray[np.uint8], options: ConformerOptions
) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """d_ij = |x_i - x_j| within a fragment and inf between fragments, and the warnings.

    Args:
        mol: a sanitized molecule.
        smiles: the SMILES, for errors.
        paths: its path lengths, (n, n).
        options: how the geometry is computed, and the policy for a molecule without one.

    Returns:
        (n, n) float32 in angstrom, symmetric, 0 on the diagonal; computed in float64.

    Raises ConformerError, unless `options.on_failure` is "paths".
    """
    try:
        x, warnings = embed(mol, smiles, options)
    except ConformerError as error:
        if options.on_failure != "paths":
            raise
        d = BOND_LENGTH * paths.astype(np.float64)
        warnings = (NO_GEOMETRY + error.reason,)
    else:
        d = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    return np.where(paths == DISCONNECTED, np.inf, d).astype(np.float32), warnings


def embed(mol: Chem.Mol, smiles: object, options: ConformerOptions) -> Conformer:
    """The coordinates of the atoms of `mol`, fragment by fragment; `mol` itself is not changed.

    Raises ConformerError, which names the molecule `smiles`.
    """
    atom_indices: list[tuple[int, ...]] = []
    warnings: list[str] = []
    with convert_rdkit_errors(smiles, "find a 3D geometry", ConformerError), rdBase.BlockLogs():
        with_hs = Chem.AddHs(mol)
        fragments = Chem.GetMolFrags(with_hs, asMols=True, fragsMolAtomMapping=atom_indices)
        x = np.zeros((with_hs.GetNumAtoms(), 3))
        for fragment, indices in zip(fragments, atom_indices, strict=True):
            # A single atom stays at the origin.
            if len(indices) > 1:
                x[list(indices)], found = _embed_fragment(fragment, smiles, options)
                warnings += found
    # All added hydrogens follow the atoms of the graph.
    return Conformer(x[: mol.GetNumAtoms()], tuple(dict.fromkeys(warnings)))


def _embed_fragment(
    fragment: Chem.Mol, smiles: object, options: ConformerOptions
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """The coordinates of one fragment with all its hydrogens, and the warnings."""
    n = fragment.GetNumAtoms()
    if n > MAX_EMBEDDED_ATOMS:
        raise ConformerError(
            smiles, f"a fragment of {n:,} atoms, hydrogens included, is over the limit of {MAX_EMBEDDED_ATOMS} for 3D"
        )
    # The geometry depends on the order of atoms and of bonds.
    canonical, order = canonical_form(fragment)
    mol, order = (fragment, list(range(n))) if canonical is None else (canonical, order)
    for random_coordinates in (False, True):
        # The first attempt, from eigenvectors of the distance matrix, fails for long chains.
        parameters = rdDistGeom.ETKDGv3()
        # RDKit gives the same geometry for the seeds 0 and 1.
        parameters.randomSeed = options.seed + 1
        parameters.timeout = options.timeout
        parameters.useRandomCoords = random_coordinates
        parameters.trackFailures = True
        if rdDistGeom.EmbedMolecule(mol, parameters) == 0:
            break
        if parameters.GetFailureCounts()[_TIMEOUT]:
            raise ConformerError(smiles, f"RDKit finds no 3D geometry within {options.timeout} s")
    else:
        raise ConformerError(smiles, "RDKit finds no 3D geometry that fits its rings, bonds and stereochemistry")
    warnings = _optimize(mol)
    x = np.empty((n, 3))
    x[order] = mol.GetConformer().GetPositions()
    if not np.isfinite(x).all():
        raise ConformerError(smiles, "RDKit finds only a 3D geometry whose coordinates are not finite")
    return x, warnings


def _optimize(mol: Chem.Mol) -> list[str]:
    """Minimize the energy of MMFF94 in place; return the warnings."""
    if not rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        return [f"{NOT_OPTIMIZED}MMFF94 has no parameters for it"]
    status = rdForceFieldHelpers.MMFFOptimizeMolecule(mol, maxIters=_MAX_STEPS)
    if status < 0:
        return [f"{NOT_OPTIMIZED}MMFF94 cannot be set up for it"]
    return [f"{NOT_OPTIMIZED}MMFF94 finds no minimum in {_MAX_STEPS:,} steps"] if status else []
