"""InChIKeys, and their first blocks, which identify molecules regardless of charges and stereochemistry."""

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, convert_rdkit_errors, read_smiles

_BLOCK = 14


def inchi_key(smiles: object, max_atoms: int = MAX_ATOMS) -> str:
    """The InChIKey of a molecule; empty if InChI has none, as for too many atoms.

    >>> inchi_key("OCC")
    'LFQSCWFLJHTTHZ-UHFFFAOYSA-N'

    Raises SmilesError for text that is not a molecule within the limits.

    Source: Heller et al., J. Cheminform. 2015, 7, 23 (https://doi.org/10.1186/s13321-015-0068-4).
    """
    return _key(read_smiles(smiles, max_atoms=max_atoms), smiles)


def inchikey_skeletons(smiles: object, max_atoms: int = MAX_ATOMS) -> tuple[str, ...]:
    """The first blocks of the InChIKeys of a molecule and, if it has several, of each of its fragments.

    Stereoisomers, isotopes, and an acid and its anion share a block; a salt also has that of its acid.

    >>> inchikey_skeletons("[Na+].CC(=O)[O-]")
    ('VMHLLURERBWHNL', 'FKNQFGJONOIPTF', 'QTBSBXVTEAMEQO')
    >>> inchikey_skeletons("CC(=O)O")
    ('QTBSBXVTEAMEQO',)

    Returns: distinct blocks, that of the whole molecule first; empty if InChI has no key for it or for a fragment.

    Raises SmilesError for text that is not a molecule within the limits.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    fragments = Chem.GetMolFrags(mol, asMols=True)
    parts = (mol, *fragments) if len(fragments) > 1 else (mol,)
    keys = [_key(part, smiles)[:_BLOCK] for part in parts]
    return tuple(dict.fromkeys(keys)) if all(keys) else ()


def _key(mol: Chem.Mol, smiles: object) -> str:
    with convert_rdkit_errors(smiles, "make its InChIKey"), rdBase.BlockLogs():
        return Chem.MolToInchiKey(mol)
