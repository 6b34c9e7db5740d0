"""SMILES enumeration: random SMILES of a molecule, and a source of short molecules."""

from pathlib import Path

from rdkit import Chem, RDConfig

from molattn.chem.parse import canonical_smiles, read_smiles
from molattn.errors import SmilesError

# RDKit treats seed 0 as "no seed", and accepts 32 bits.
_SEEDS = 2**31 - 1


def random_smiles(mol: Chem.Mol, seed: int) -> str:
    """A random SMILES of a molecule: with a random first atom and random order of branches.

    Args:
        mol: As `read_smiles` returns it.
        seed: From 0; the same seed gives the same SMILES of the same molecule.

    Raises ValueError for a seed outside of [0, 2^31 - 1).

    Source: RDKit's `MolToRandomSmilesVect`.
    """
    if not 0 <= seed < _SEEDS:
        raise ValueError(f"a seed is from 0 to {_SEEDS - 1}, got {seed}")
    (smiles,) = Chem.MolToRandomSmilesVect(mol, 1, randomSeed=seed + 1)
    return smiles


def round_trip_smiles(text: str, max_length: int) -> str | None:
    """The canonical SMILES of a molecule, if it is short, has one fragment and survives parsing and writing.

    None for anything else: no molecule, several fragments, more than `max_length` characters, or one of the few
    canonical SMILES that RDKit parses and then writes differently.
    """
    try:
        canonical = canonical_smiles(read_smiles(text))
        if len(canonical) > max_length or "." in canonical:
            return None
        return canonical if canonical_smiles(read_smiles(canonical)) == canonical else None
    except SmilesError:
        return None


def nci_molecules(max_length: int) -> list[str]:
    """The short molecules among the 4,999 of the NCI in RDKit's data: distinct `round_trip_smiles`, sorted.

    Raises FileNotFoundError if RDKit was installed without its data.
    """
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    found = {round_trip_smiles(line.split("\t")[0], max_length) for line in lines if line.strip()}
    return sorted(smiles for smiles in found if smiles is not None)
