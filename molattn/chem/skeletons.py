"""What a molecule is beyond its spelling, charges and stereochemistry: the first block of its InChIKey."""

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, convert_rdkit_errors, read_smiles

_BLOCK = 14


def inchi_key(smiles: object, max_atoms: int = MAX_ATOMS) -> str:
    """The InChIKey of a molecule; empty where InChI has none, as for more atoms than it takes.

    >>> inchi_key("OCC")
    'LFQSCWFLJHTTHZ-UHFFFAOYSA-N'

    Errors: SmilesError, for whatever is not a molecule within the limits.

    Source: Heller et al., J. Cheminform. 2015, 7, 23 (https://doi.org/10.1186/s13321-015-0068-4).
    """
    return _key(read_smiles(smiles, max_atoms=max_atoms), smiles)


def skeletons(smiles: object, max_atoms: int = MAX_ATOMS) -> tuple[str, ...]:
    """The first blocks of the InChIKeys of a molecule and, if it has several, of each of its fragments.

    Stereoisomers, isotopes, and an acid and its anion have one block; a salt also has that of its acid.

    >>> skeletons("[Na+].CC(=O)[O-]")
    ('VMHLLURERBWHNL', 'FKNQFGJONOIPTF', 'QTBSBXVTEAMEQO')
    >>> skeletons("CC(=O)O")
    ('QTBSBXVTEAMEQO',)

    Returns: each once, that of the whole molecule first; empty where InChI has none for the whole or for a part.

    Errors: SmilesError, for whatever is not a molecule within the limits.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    parts = Chem.GetMolFrags(mol, asMols=True)
    keys = [_key(part, smiles)[:_BLOCK] for part in ((mol, *parts) if len(parts) > 1 else (mol,))]
    return tuple(dict.fromkeys(keys)) if all(keys) else ()


def _key(mol: Chem.Mol, smiles: object) -> str:
    with convert_rdkit_errors(smiles, "make its InChIKey"), rdBase.BlockLogs():
        return Chem.MolToInchiKey(mol)
