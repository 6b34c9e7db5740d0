"""The many SMILES of one molecule, and short molecules to spell."""

from pathlib import Path

from rdkit import Chem, RDConfig

from molattn.chem.parse import canonical_smiles, read_smiles
from molattn.errors import SmilesError

# RDKit reads seed 0 as "no seed", and takes 32 bits.
_SEEDS = 2**31 - 1


def random_smiles(mol: Chem.Mol, seed: int) -> str:
    """One of the SMILES of a molecule: a random first atom, and random turns at the branches.

    Args:
        mol: As `read_smiles` returns it.
        seed: From 0; the same seed spells the same molecule alike.

    Errors: ValueError for a seed outside of [0, 2^31 - 1).

    Source: RDKit's `MolToRandomSmilesVect`.
    """
    if not 0 <= seed < _SEEDS:
        raise ValueError(f"a seed is from 0 to {_SEEDS - 1}, got {seed}")
    (spelling,) = Chem.MolToRandomSmilesVect(mol, 1, randomSeed=seed + 1)
    return spelling


def stable_smiles(text: str, max_length: int) -> str | None:
    """The canonical SMILES of a molecule in one piece, if it is short and stays what it is when read again.

    None for all else: no molecule, several fragments, more than `max_length` characters, or one of the few whose
    canonical SMILES, read again, is written otherwise.
    """
    try:
        canonical = canonical_smiles(read_smiles(text))
        if len(canonical) > max_length or "." in canonical:
            return None
        return canonical if canonical_smiles(read_smiles(canonical)) == canonical else None
    except SmilesError:
        return None


def nci_molecules(max_length: int) -> list[str]:
    """The short molecules among the 4,999 of the NCI that come with RDKit: `stable_smiles`, each once, sorted.

    Errors: FileNotFoundError where RDKit came without its data.
    """
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    found = {stable_smiles(line.split("\t")[0], max_length) for line in lines if line.strip()}
    return sorted(smiles for smiles in found if smiles is not None)
