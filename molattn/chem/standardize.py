"""One form for the many that tables give a molecule in: without its salt, neutral, groups written alike."""

from collections.abc import Callable

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, canonical_smiles, convert_rdkit_errors, read_smiles


def parent(mol: Chem.Mol) -> Chem.Mol:
    """The molecule that was meant: functional groups normalised, the largest fragment, neutral where it can be.

    Metals bound to oxygen, nitrogen or fluorine part from them first, so that a salt is one however it is drawn.
    Charges that nothing can lift stay, as in a quaternary ammonium.

    Source: RDKit's MolStandardize.
    """
    from rdkit.Chem.MolStandardize import rdMolStandardize  # here, because few models ask for it

    mol = rdMolStandardize.MetalDisconnector().Disconnect(mol)
    mol = rdMolStandardize.Normalizer().normalize(mol)
    mol = rdMolStandardize.LargestFragmentChooser().choose(mol)
    return rdMolStandardize.Uncharger(True).uncharge(mol)


def tautomer(mol: Chem.Mol) -> Chem.Mol:
    """`parent`, as RDKit's canonical tautomer: slower, and not always the form that a chemist would draw."""
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.TautomerEnumerator().Canonicalize(parent(mol))


STANDARDIZE: dict[str, Callable[[Chem.Mol], Chem.Mol]] = {"parent": parent, "tautomer": tautomer}
"""What `data.standardize` can be, beside empty for nothing."""


def standardized_smiles(smiles: object, how: str, max_atoms: int = MAX_ATOMS) -> str:
    """The SMILES of the standard form, or `smiles` as it is where that is the same molecule.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        how: a key of `STANDARDIZE`; empty changes nothing.
        max_atoms: The most atoms that the molecule may have, its salt included.

    Errors: SmilesError, for whatever is not a molecule within the limits, and for what RDKit fails to standardise.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    if not how:
        return str(smiles)
    with convert_rdkit_errors(smiles, f"standardise it ({how})"), rdBase.BlockLogs():
        before = canonical_smiles(mol, max_atoms=max_atoms)
        # Of the canonical SMILES, so that every spelling has the same standard form.
        after = canonical_smiles(STANDARDIZE[how](read_smiles(before, max_atoms=max_atoms)), max_atoms=max_atoms)
        # What is read again must be what was written.
        after = canonical_smiles(read_smiles(after, max_atoms=max_atoms), max_atoms=max_atoms)
    return str(smiles) if after == before else after
