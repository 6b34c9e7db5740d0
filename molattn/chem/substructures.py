"""Substructures of a molecule: its Bemis-Murcko scaffold, and its functional groups."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import numpy as np
from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, canonical_smiles, check_num_atoms, convert_rdkit_errors, read_smiles
from molattn.errors import UsageError, as_list, short_repr


def murcko_scaffold(molecule: Chem.Mol | str, *, max_atoms: int = MAX_ATOMS) -> str:
    """The rings and their linkers, as canonical SMILES without stereochemistry; '' without rings.

    RDKit's variant: atoms with a double bond to a ring or linker, such as the O of C=O, belong to the scaffold.

    Args:
        molecule: a sanitized molecule, or SMILES.
        max_atoms: largest number of atoms.

    Raises:
        SmilesError: SMILES that cannot be read, or a molecule whose scaffold RDKit fails to find.
        InputError: a molecule of more than `max_atoms` atoms.

    Source: Bemis and Murcko, J. Med. Chem. 1996, 39, 2887 (https://doi.org/10.1021/jm9602928).

    >>> from molattn.chem import murcko_scaffold
    >>> murcko_scaffold("CC(=O)c1ccc(Cc2ccccn2)cc1")
    'c1ccc(Cc2ccccn2)cc1'
    >>> murcko_scaffold("CCO")
    ''
    """
    from rdkit.Chem.Scaffolds import MurckoScaffold  # here, because it imports most of RDKit

    mol = molecule if isinstance(molecule, Chem.Mol) else read_smiles(molecule, max_atoms=max_atoms)
    check_num_atoms(mol, max_atoms)
    with convert_rdkit_errors(molecule, "find its scaffold"), rdBase.BlockLogs():
        without_stereo = Chem.Mol(mol)
        Chem.RemoveStereochemistry(without_stereo)
        for atom in without_stereo.GetAtoms():
            atom.SetIsotope(0)
            atom.SetAtomMapNum(0)
        scaffold = MurckoScaffold.GetScaffoldForMol(without_stereo)
    return canonical_smiles(scaffold, max_atoms=max_atoms)


FUNCTIONAL_GROUPS: dict[str, str] = {
    "alcohol": "[OX2H;$(O[CX4])]",
    "phenol": "[OX2H;$(Oc)]",
    "ether": "[OX2H0;$(O([#6;!$(C=[O,S,N])])[#6;!$(C=[O,S,N])])]",
    "aldehyde": "[$([CX3H1][#6]),$([CX3H2])]=[OX1]",
    "ketone": "[$([CX3]([#6])[#6])]=[OX1]",
    "carboxylic acid": "[CX3](=[OX1])[$([OX2H]),$([OX1-])]",
    "ester": "[$([CX3][#6]),$([CX3H1])](=[OX1])[OX2H0;$(O([#6])[#6;!$(C=O)])]",
    "amide": "[$([CX3][#6]),$([CX3H1])](=[OX1])[NX3]",
    "urea or carbamate": "[NX3][CX3](=[OX1])[$([NX3]),$([OX2H0])]",
    "aliphatic amine": "[$([NX3]),$([NX4+]);!$(N=*);!$(N~[!#6;!#1]);!$(NC=[O,S,N]);!$(Nc);!$(NC#N)]",
    "aromatic amine": "[NX3;$(Nc);!$(N=*);!$(N~[!#6;!#1]);!$(NC=[O,S,N])]",
    "nitrile": "[CX2]#[NX1]",
    "nitro": "[$([NX3+](=O)[O-]),$([NX3](=O)=O)](~[OX1])~[OX1]",
    "halogen": "[F,Cl,Br,I;$(*[#6])]",
    "thiol or sulfide": "[SX2;$(S[#6])]",
    "sulfonyl": "[SX4](=[OX1])=[OX1]",
    "phosphoryl": "[PX4]=[OX1]",
    "alkene": "[CX3]=[CX3]",
    "alkyne": "[CX2]#[CX2]",
    "aromatic carbon": "c",
    "aromatic heteroatom": "[n,o,s]",
}
"""The SMARTS of functional groups by name. A group has all atoms that its pattern matches; groups may overlap."""


def functional_groups(smiles: object, *, add_hs: bool = False, max_atoms: int = MAX_ATOMS) -> dict[str, list[int]]:
    """The atoms of each functional group in a molecule, in the order of `FUNCTIONAL_GROUPS`, without absent groups.

    Args:
        smiles, add_hs, max_atoms: as for `read_smiles`.

    Raises:
        SmilesError: text that is not a molecule within the limits.

    >>> from molattn.chem import functional_groups
    >>> functional_groups("CC(=O)Nc1ccc(O)cc1")
    {'phenol': [8], 'amide': [1, 2, 3], 'aromatic carbon': [4, 5, 6, 7, 9, 10]}
    """
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max_atoms)
    found = {}
    for name in FUNCTIONAL_GROUPS:
        atoms = set().union(*_matches(mol, name))
        if atoms:
            found[name] = sorted(atoms)
    return found


# Not groups in `atom_groups`: their atoms are those of the group "aromatic ring".
_RING_ATOMS = ("aromatic carbon", "aromatic heteroatom")
_MAX_RING_SIZE = 8


def atom_groups(smiles: object, *, add_hs: bool = False, max_atoms: int = MAX_ATOMS) -> list[tuple[str, list[int]]]:
    """The functional groups and rings of a molecule: for each one, its name and its atoms.

    Two groups of the same name that share an atom are merged. Rings have up to 8 atoms and the name "ring" or "aromatic
    ring". An atom may belong to several groups.

    Args:
        smiles, add_hs, max_atoms: as for `read_smiles`.

    Raises:
        SmilesError: text that is not a molecule within the limits.

    >>> from molattn.chem.substructures import atom_groups
    >>> atom_groups("CC(=O)Oc1ccccc1C(=O)O")
    [('aromatic ring', [4, 5, 6, 7, 8, 9]), ('carboxylic acid', [10, 11, 12]), ('ester', [1, 2, 3])]
    """
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max_atoms)
    found = []
    for ring in mol.GetRingInfo().AtomRings():
        if len(ring) <= _MAX_RING_SIZE:
            aromatic = all(mol.GetAtomWithIdx(i).GetIsAromatic() for i in ring)
            found.append(("aromatic ring" if aromatic else "ring", sorted(ring)))
    found.sort(key=lambda group: group[1])
    for name in FUNCTIONAL_GROUPS:
        if name not in _RING_ATOMS:
            found += [(name, sorted(group)) for group in _merged(_matches(mol, name))]
    return found


def _matches(mol: Chem.Mol, name: str) -> list[set[int]]:
    """The atoms of each match of a functional group."""
    parameters = Chem.SubstructMatchParameters()
    parameters.maxMatches = max(1000, 10 * mol.GetNumAtoms())
    return [set(match) for match in mol.GetSubstructMatches(_pattern(name), parameters)]


def _merged(sets: Iterable[set[int]]) -> list[set[int]]:
    """The unions of sets that share elements, by their smallest element."""
    merged: list[set[int]] = []
    for new in sets:
        union = set(new).union(*(other for other in merged if other & new))
        merged = [other for other in merged if not other & new] + [union]
    return sorted(merged, key=min)


RINGS_AND_ATOMS: dict[str, str] = {
    "any ring": "[R]",
    "fused rings": "[R2]@[R2]",
    "spiro atom": "[x4;R2]",
    "benzene ring": "c1ccccc1",
    "pyridine ring": "n1ccccc1",
    "aromatic five-membered ring": "a1aaaa1",
    "saturated six-membered ring": "[AR]1@[AR]@[AR]@[AR]@[AR]@[AR]1",
    "small ring": "[r3,r4]",
    "fluorine": "F",
    "chlorine": "Cl",
    "bromine": "Br",
    "iodine": "I",
    "charged atom": "[!+0]",
}
"""The SMARTS of rings, halogens and charged atoms by name; reports search for them and `FUNCTIONAL_GROUPS`."""


def substructure_matches(
    smiles: Sequence[str], patterns: Mapping[str, str], *, max_atoms: int = MAX_ATOMS
) -> np.ndarray:
    """Whether each molecule has each substructure, (n, p) bool.

    Args:
        smiles: n SMILES.
        patterns: p SMARTS by name.
        max_atoms: largest number of atoms of a molecule.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.
        UsageError: a SMARTS that cannot be read.
        TypeError: `smiles` is a single string.

    >>> from molattn.chem.substructures import substructure_matches
    >>> substructure_matches(["CCO", "Oc1ccccc1"], {"hydroxyl": "[OX2H]", "aromatic": "a"}).tolist()
    [[True, False], [True, True]]
    """
    with rdBase.BlockLogs():
        queries = [Chem.MolFromSmarts(smarts) for smarts in patterns.values()]
    for (name, smarts), query in zip(patterns.items(), queries, strict=True):
        if query is None or not query.GetNumAtoms():
            raise UsageError(f"{short_repr(smarts)}, the SMARTS of {short_repr(name)}, cannot be read")
    molecules = as_list(smiles)
    found = np.zeros((len(molecules), len(queries)), dtype=bool)
    for i, text in enumerate(molecules):
        mol = read_smiles(text, max_atoms=max_atoms)
        found[i] = [mol.HasSubstructMatch(query) for query in queries]
    return found


@cache
def _pattern(name: str) -> Chem.Mol:
    return Chem.MolFromSmarts(FUNCTIONAL_GROUPS[name])
