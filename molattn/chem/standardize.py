"""Standardization of molecules, and the InChIKeys that identify them."""

from collections.abc import Callable

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, canonical_smiles, convert_rdkit_errors, read_smiles
from molattn.errors import InputError, SmilesError, UsageError, unknown_choice


def parent_molecule(mol: Chem.Mol) -> Chem.Mol:
    """The parent molecule: the largest fragment, with functional groups normalized, neutralized if possible.

    Metals bound to oxygen, nitrogen or fluorine are disconnected first, so that a salt is recognized however it is
    drawn. Charges that cannot be neutralized stay, as in quaternary ammonium.

    Source: RDKit's MolStandardize.
    """
    from rdkit.Chem.MolStandardize import rdMolStandardize  # here, because few models need it

    mol = rdMolStandardize.MetalDisconnector().Disconnect(mol)
    mol = rdMolStandardize.Normalizer().normalize(mol)
    mol = rdMolStandardize.LargestFragmentChooser().choose(mol)
    return rdMolStandardize.Uncharger(True).uncharge(mol)


def canonical_tautomer(mol: Chem.Mol) -> Chem.Mol:
    """RDKit's canonical tautomer of the parent molecule: slower, and not always the form that a chemist would draw."""
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.TautomerEnumerator().Canonicalize(parent_molecule(mol))


STANDARDIZE: dict[str, Callable[[Chem.Mol], Chem.Mol]] = {"parent": parent_molecule, "tautomer": canonical_tautomer}
"""Standardizations by name, the values of the argument `standardize`; an empty string is none."""


def standardized_smiles(smiles: object, standardize: str, max_atoms: int = MAX_ATOMS) -> str:
    """The SMILES of the standard form, or `smiles` itself if it is the same molecule.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        standardize: a key of `STANDARDIZE`; empty changes nothing.
        max_atoms: largest number of atoms, counterions included.

    Raises:
        SmilesError: text that is not a molecule within the limits, or a molecule that RDKit fails to standardize or
            to write as SMILES.
        UsageError: an unknown `standardize`.

    >>> from molattn.chem import standardized_smiles
    >>> standardized_smiles("CC(=O)[O-].[Na+]", "parent")
    'CC(=O)O'
    >>> standardized_smiles("OCC", "parent")  # already in its standard form
    'OCC'
    """
    if standardize and standardize not in STANDARDIZE:
        raise UsageError(unknown_choice("standardize", standardize, STANDARDIZE))
    mol = read_smiles(smiles, max_atoms=max_atoms)
    if not standardize:
        return str(smiles)
    try:
        with convert_rdkit_errors(smiles, f"standardize it ({standardize})"), rdBase.BlockLogs():
            before = canonical_smiles(mol, max_atoms=max_atoms)
            # From the canonical SMILES, so that all SMILES of a molecule have the same standard form.
            form = STANDARDIZE[standardize](read_smiles(before, max_atoms=max_atoms))
            # Parsed and written once more, because the result must be canonical.
            after = canonical_smiles(
                read_smiles(canonical_smiles(form, max_atoms=max_atoms), max_atoms=max_atoms), max_atoms=max_atoms
            )
    except SmilesError:
        raise
    except InputError as error:  # from `canonical_smiles`, without the SMILES
        raise SmilesError(smiles, f"its standard form ({standardize}): {error}") from error
    return str(smiles) if after == before else after


_SKELETON_LENGTH = 14  # of the first block of an InChIKey


def inchi_key(smiles: object, max_atoms: int = MAX_ATOMS) -> str:
    """The InChIKey of a molecule; empty if InChI has none, as for too many atoms.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        max_atoms: largest number of atoms.

    Raises:
        SmilesError: text that is not a molecule within the limits.

    Source: Heller et al., J. Cheminform. 2015, 7, 23 (https://doi.org/10.1186/s13321-015-0068-4).

    >>> from molattn.chem import inchi_key
    >>> inchi_key("OCC")
    'LFQSCWFLJHTTHZ-UHFFFAOYSA-N'
    """
    return _key(read_smiles(smiles, max_atoms=max_atoms), smiles)


def inchikey_skeletons(smiles: object, max_atoms: int = MAX_ATOMS) -> tuple[str, ...]:
    """The first blocks of the InChIKeys of a molecule and, if it has several, of each of its fragments.

    Stereoisomers and isotopologues share a block, and so do an acid and its anion; a salt also has that of its acid.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        max_atoms: largest number of atoms.

    Returns:
        Distinct blocks, that of the whole molecule first; empty if InChI has no key for it or for a fragment.

    Raises:
        SmilesError: text that is not a molecule within the limits.

    >>> from molattn.chem import inchikey_skeletons
    >>> inchikey_skeletons("[Na+].CC(=O)[O-]")
    ('VMHLLURERBWHNL', 'FKNQFGJONOIPTF', 'QTBSBXVTEAMEQO')
    >>> inchikey_skeletons("CC(=O)O")
    ('QTBSBXVTEAMEQO',)
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    fragments = Chem.GetMolFrags(mol, asMols=True)
    parts = (mol, *fragments) if len(fragments) > 1 else (mol,)
    keys = [_key(part, smiles)[:_SKELETON_LENGTH] for part in parts]
    return tuple(dict.fromkeys(keys)) if all(keys) else ()


def _key(mol: Chem.Mol, smiles: object) -> str:
    with convert_rdkit_errors(smiles, "compute its InChIKey"), rdBase.BlockLogs():
        return Chem.MolToInchiKey(mol)
