"""Feature vectors of molecules: count fingerprints and descriptors, for models that do not read graphs."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
from rdkit import Chem, DataStructs, rdBase
from rdkit.Chem import rdFingerprintGenerator, rdReducedGraphs

from molattn.chem.descriptors import FAST_DESCRIPTORS, descriptor_values
from molattn.chem.molecule import Progress, map_rows
from molattn.chem.morgan import MORGAN_COLUMNS, MORGAN_FEATURIZER, count_fingerprint, morgan_generator
from molattn.chem.parse import NO_ATOM_LIMIT, convert_rdkit_errors, read_smiles
from molattn.errors import SmilesError, UsageError, as_list, unknown_choice

AVALON_BITS = 1024
ERG_LENGTH = 315

FEATURE_LENGTHS: dict[str, int] = {
    MORGAN_FEATURIZER: MORGAN_COLUMNS,
    "avalon_count": AVALON_BITS,
    "erg": ERG_LENGTH,
    "rdkit_fast": len(FAST_DESCRIPTORS),
}
"""The number of features of each featurizer of `feature_vectors`."""


def feature_vectors(
    smiles: Sequence[str],
    featurizers: Sequence[str] = tuple(FEATURE_LENGTHS),
    num_workers: int = 0,
    progress: Progress | None = None,
    *,
    max_atoms: int = NO_ATOM_LIMIT,
) -> np.ndarray:
    """The features of molecules, (n, F) float32: those of all featurizers, concatenated; see `FEATURE_LENGTHS`.

    "morgan_count" and "avalon_count" are count fingerprints, folded to 1,024 columns each, of Morgan substructures of
    radius 0 to 2 and of Avalon's; "erg" is ErG, pairs of pharmacophores by distance; "rdkit_fast" is
    `FAST_DESCRIPTORS`. A descriptor that is not defined for a molecule is 0.

    Args:
        smiles: n SMILES.
        featurizers: names of `FEATURE_LENGTHS`.
        num_workers, progress: as for `molattn.chem.featurize`.
        max_atoms: largest number of atoms of a molecule.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.
        UsageError: there is no such featurizer; or worker processes die as they start.
        TypeError: `smiles` or `featurizers` is a single string.

    Sources: Morgan, Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742 (https://doi.org/10.1021/ci100050t); Avalon,
    Gedeck, Rohde and Bartels, J. Chem. Inf. Model. 2006, 46, 1924 (https://doi.org/10.1021/ci050413p); ErG, Stiefl et
    al., J. Chem. Inf. Model. 2006, 46, 208 (https://doi.org/10.1021/ci050457y).

    >>> from molattn.chem import feature_vectors
    >>> feature_vectors(["CCO", "c1ccccc1"], ["rdkit_fast"]).shape
    (2, 67)
    """
    _check_names(featurizers)
    function = partial(_features, featurizers=tuple(featurizers), max_atoms=max_atoms)
    rows: list[np.ndarray] = []
    for row in map_rows(smiles, function, num_workers, progress=progress):
        if isinstance(row, SmilesError):
            raise row
        rows.append(row)
    return np.array(rows, dtype=np.float32).reshape(len(rows), sum(FEATURE_LENGTHS[f] for f in featurizers))


def _check_names(featurizers: Sequence[str]) -> None:
    if unknown := [name for name in as_list(featurizers, "featurizers", "erg") if name not in FEATURE_LENGTHS]:
        raise UsageError(unknown_choice("featurizer", unknown[0], FEATURE_LENGTHS))


def feature_columns(featurizers: Sequence[str]) -> dict[str, slice]:
    """The columns of each featurizer in the result of `feature_vectors`, as slices.

    Args:
        featurizers: names of `FEATURE_LENGTHS`, each once, in the order passed to `feature_vectors`.

    Raises:
        UsageError: there is no such featurizer, or one is named twice.
        TypeError: `featurizers` is a single string.

    >>> from molattn.chem import feature_columns
    >>> columns = feature_columns(["morgan_count", "rdkit_fast"])
    >>> columns["rdkit_fast"].start, columns["rdkit_fast"].stop
    (1024, 1091)
    """
    _check_names(featurizers)
    if len(set(featurizers)) < len(featurizers):
        raise UsageError(f"a featurizer is named twice: {', '.join(featurizers)}")
    ends = accumulate((FEATURE_LENGTHS[f] for f in featurizers), initial=0)
    return {f: slice(*pair) for f, pair in zip(featurizers, pairwise(ends), strict=True)}


def morgan_environments(smiles: str, *, max_atoms: int = NO_ATOM_LIMIT) -> dict[int, list[tuple[int, ...]]]:
    """The substructures that each column of "morgan_count" counts, as indices of their atoms.

    Args:
        smiles: one SMILES, as `read_smiles` takes it.
        max_atoms: largest number of atoms of the molecule.

    Returns:
        A dict from column to the atoms of each substructure, as indices in the SMILES, from 0. Columns whose count is 0
        are absent.

    Raises:
        SmilesError: the SMILES cannot be read, or RDKit fails to compute its fingerprint.

    >>> from molattn.chem import feature_vectors, morgan_environments
    >>> found = morgan_environments("CCO")
    >>> sorted(found.values())
    [[(0,)], [(0, 1)], [(0, 1, 2)], [(1,)], [(1, 2)], [(2,)]]
    >>> counts = feature_vectors(["CCO"], ["morgan_count"])[0]
    >>> all(counts[column] == len(atoms) for column, atoms in found.items())
    True
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateBitInfoMap()
    with convert_rdkit_errors(smiles, "compute its fingerprint"):
        morgan_generator().GetCountFingerprint(mol, additionalOutput=output)
        found = output.GetBitInfoMap()
        return {bit: [_environment(mol, atom, radius) for atom, radius in places] for bit, places in found.items()}


def _environment(mol: Chem.Mol, atom: int, radius: int) -> tuple[int, ...]:
    bonds = Chem.FindAtomEnvironmentOfRadiusN(mol, radius, atom) if radius else ()
    atoms = {atom}
    for bond in bonds:
        atoms |= {mol.GetBondWithIdx(bond).GetBeginAtomIdx(), mol.GetBondWithIdx(bond).GetEndAtomIdx()}
    return tuple(sorted(atoms))


def _features(smiles: object, featurizers: tuple[str, ...], max_atoms: int) -> np.ndarray:
    mol = read_smiles(smiles, max_atoms=max_atoms)
    with rdBase.BlockLogs(), convert_rdkit_errors(smiles, "compute its features"):
        parts = [np.asarray(_FUNCTIONS[name](mol), dtype=np.float64) for name in featurizers]
    limit = float(np.finfo(np.float32).max)
    return np.clip(np.nan_to_num(np.concatenate(parts)), -limit, limit).astype(np.float32)


def _avalon_count(mol: Chem.Mol) -> np.ndarray:
    from rdkit.Avalon.pyAvalonTools import GetAvalonCountFP  # here, because few models need it

    counts = np.zeros(AVALON_BITS)
    DataStructs.ConvertToNumpyArray(GetAvalonCountFP(mol, nBits=AVALON_BITS), counts)
    return counts


_FUNCTIONS: dict[str, Callable[[Chem.Mol], np.ndarray]] = {
    MORGAN_FEATURIZER: count_fingerprint,
    "avalon_count": _avalon_count,
    "erg": rdReducedGraphs.GetErGFingerprint,
    "rdkit_fast": lambda mol: descriptor_values(mol, FAST_DESCRIPTORS),
}
