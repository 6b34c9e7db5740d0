"""Bemis-Murcko scaffolds, for splitting data sets."""

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, canonical_smiles, convert_rdkit_errors, read_smiles


def murcko_scaffold(molecule: Chem.Mol | str, *, max_atoms: int = MAX_ATOMS) -> str:
    """The rings and their linkers, as canonical SMILES without stereochemistry; '' without rings.

    RDKit's variant: atoms joined to a ring or a linker by a double bond (C=O, say) belong to the scaffold.

    Args:
        molecule: A sanitised molecule, or SMILES.
        max_atoms: Largest number of atoms.

    Raises SmilesError for SMILES that cannot be read; InputError for a molecule that is too large.

    Source: Bemis and Murcko, J. Med. Chem. 1996, 39, 2887 (https://doi.org/10.1021/jm9602928).
    """
    from rdkit.Chem.Scaffolds import MurckoScaffold  # here, because it imports most of RDKit

    mol = molecule if isinstance(molecule, Chem.Mol) else read_smiles(molecule, max_atoms=max_atoms)
    with convert_rdkit_errors(molecule, "find its scaffold"), rdBase.BlockLogs():
        flat = Chem.Mol(mol)
        Chem.RemoveStereochemistry(flat)
        for atom in flat.GetAtoms():
            atom.SetIsotope(0)
            atom.SetAtomMapNum(0)
        scaffold = MurckoScaffold.GetScaffoldForMol(flat)
    return canonical_smiles(scaffold, max_atoms=max_atoms)
