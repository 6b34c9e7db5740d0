"""Parsing of SMILES: a molecule, or an error with the reason.

The text is validated before RDKit parses it. RDKit treats the text from a space or an unknown letter on as a name, so
that it reads a Cyrillic look-alike of `CC` as another molecule. It needs minutes for some texts of 20 kB and crashes on
others. And numbers in brackets overflow: see `brackets`.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
from rdkit import Chem, rdBase

from molattn.chem.brackets import RDKIT_ERRORS, UNSANITIZED, bracket_error
from molattn.chem.features import output_order
from molattn.errors import InputError, SmilesError

MAX_LENGTH = 10_000
"""Largest number of characters in a SMILES."""

NO_ATOM_LIMIT = sys.maxsize
"""The value of `max_atoms` for molecules that are known to be within the limit."""

MAX_ATOMS = 1_000
"""Largest number of atoms in a molecule, by default."""

MAX_RINGS = 500
"""Largest number of ring closures in a SMILES: C720 needs 361; 500 take under a second in the worst case."""

_PRINTABLE = re.compile(r"[!-~]*")
# Bracket atoms; atoms of the organic subset; ring closures. Bonds, branches and dots are skipped.
_TOKENS = re.compile(r"(\[[^\[\]]*\])|(Cl|Br|[BCNOPSFIbcnops*])|(%\(\d+\)|%\d\d|\d)")
# Parsing makes this hydrogen implicit wherever it can, so it is not counted.
_HYDROGEN = re.compile(r"\[H(:\d+)?\]")
# Explicit hydrogen atoms, with or without an isotope, by symbol or by number.
_HYDROGENS = re.compile(r"\[\d*[H#]")


def read_smiles(text: object, *, max_atoms: int = MAX_ATOMS, add_hs: bool = False) -> Chem.Mol:
    """Parse a SMILES into a sanitized molecule, its atoms in the order of the text.

    Explicit hydrogens become implicit, as in RDKit, except H2, free ions, isotopes such as deuterium, those bonded to
    a dummy atom and those that define the stereochemistry of an imine. `[HH]` is read as `[H][H]`. White space at both
    ends is dropped, such as the end of a line.

    Args:
        text: SMILES alone: printable ASCII, no name after it, no ChemAxon extensions.
        max_atoms: largest number of atoms, including the hydrogens that `add_hs` adds.
        add_hs: whether to add all hydrogens as atoms, after the others.

    Raises:
        SmilesError: text that is not a molecule within the limits. Atom indices in its reason are those of the text,
            from 0.

    >>> from molattn.chem import read_smiles
    >>> read_smiles("OCC").GetNumAtoms(), read_smiles("OCC", add_hs=True).GetNumAtoms()
    (3, 9)
    >>> from molattn.errors import SmilesError
    >>> try:
    ...     read_smiles("CF(C)C")
    ... except SmilesError as error:
    ...     print(error)
    'CF(C)C': atom 1 (F) has a valence of 3, more than it can have
    """
    smiles = _validated(text, max_atoms)
    block_logs = rdBase.BlockLogs()  # until `del`; `with` takes twice as long
    try:
        mol = Chem.MolFromSmiles(smiles, _SANITIZED)
    except RDKIT_ERRORS as error:
        raise SmilesError(text, "RDKit fails on it") from error
    finally:
        del block_logs
    if mol is None:
        raise SmilesError(text, _parse_error(smiles))
    if mol.GetNumAtoms() == 0:
        raise SmilesError(text, "it has no atoms")
    _check_atoms(text, mol.GetNumAtoms(), max_atoms)
    if "HH" in smiles:
        # [HH] and [H][H] must give the same graph.
        hydrogens = [a.GetIdx() for a in mol.GetAtoms() if a.GetAtomicNum() == 1 and a.GetTotalNumHs()]
        if hydrogens:
            mol = _add_hydrogens(mol, text, hydrogens)
            _check_atoms(text, mol.GetNumAtoms(), max_atoms)
    return add_hydrogens(mol, text, max_atoms) if add_hs else mol


def read_for_codes(text: object, *, max_atoms: int = MAX_ATOMS) -> Chem.Mol:
    """A faster `read_smiles` for callers that need only the codes of the molecule.

    For a SMILES without stereochemistry and explicit hydrogens, it skips RDKit's perception of stereochemistry and its
    removal of hydrogens, a quarter of the parsing time. The properties that they set are then absent.
    """
    mol = None if has_stereo(text) else read_without_stereo_perception(text, max_atoms=max_atoms)
    return read_smiles(text, max_atoms=max_atoms) if mol is None else mol  # raises an error with the reason


def read_without_stereo_perception(text: object, *, max_atoms: int = MAX_ATOMS) -> Chem.Mol | None:
    """The sanitized molecule of a SMILES, without RDKit's perception of stereochemistry.

    None for a SMILES with explicit hydrogens, and for text that is not a molecule within the limits. The chiral tags
    and the directions of bonds are as in the SMILES.
    """
    if type(text) is not str or ("[" in text and _HYDROGENS.search(text) is not None):
        return None
    smiles = _validated(text, max_atoms)
    block_logs = rdBase.BlockLogs()
    try:
        mol = Chem.MolFromSmiles(smiles, UNSANITIZED)
        if mol is not None:
            Chem.SanitizeMol(mol)
    except RDKIT_ERRORS:
        mol = None
    finally:
        del block_logs
    return mol if mol is not None and 0 < mol.GetNumAtoms() <= max_atoms else None


def has_stereo(text: object) -> bool:
    """Whether a SMILES has marks of stereochemistry."""
    # `in`, since a regular expression would take a tenth of the whole parsing time.
    return isinstance(text, str) and ("@" in text or "/" in text or "\\" in text)


def add_hydrogens(mol: Chem.Mol, text: object, max_atoms: int = MAX_ATOMS) -> Chem.Mol:
    """The molecule parsed from `text` with all its hydrogens as atoms, after the others.

    Raises SmilesError if it then has more than `max_atoms` atoms.
    """
    _check_atoms(text, mol.GetNumAtoms() + sum(a.GetTotalNumHs() for a in mol.GetAtoms()), max_atoms)
    return _add_hydrogens(mol, text)


def canonical_smiles(mol: Chem.Mol, *, max_atoms: int = MAX_ATOMS) -> str:
    """RDKit's canonical SMILES of a molecule.

    Args:
        mol: an RDKit molecule.
        max_atoms: largest number of atoms.

    Raises:
        InputError: RDKit fails; or more than `max_atoms` atoms, since RDKit crashes on very long chains.

    >>> from molattn.chem import canonical_smiles, read_smiles
    >>> canonical_smiles(read_smiles("OCC"))
    'CCO'
    """
    check_num_atoms(mol, max_atoms)
    try:
        return Chem.MolToSmiles(mol)
    except RDKIT_ERRORS as error:
        raise InputError("RDKit fails to write the molecule as SMILES") from error


def check_num_atoms(mol: Chem.Mol, max_atoms: int) -> None:
    """Raise an InputError for a molecule of more than `max_atoms` atoms."""
    if mol.GetNumAtoms() > max_atoms:
        raise InputError(f"the molecule has {mol.GetNumAtoms():,} atoms, over the limit of {max_atoms:,}")


def is_mol(value: object) -> TypeGuard[Chem.Mol]:
    """Whether a value is an RDKit molecule; type checkers then treat it as one.

    Args:
        value: any object.

    >>> from molattn.chem import is_mol, read_smiles
    >>> is_mol(read_smiles("CCO")), is_mol("CCO")
    (True, False)
    """
    return isinstance(value, Chem.Mol)


def smiles_from_mol(mol: Chem.Mol) -> tuple[str, bool]:
    """A SMILES of an RDKit molecule, and whether its atoms are in the order of the molecule.

    It is written from the first atom on, without canonicalization, so that it has that order if a SMILES can have it.
    Explicit hydrogens become implicit, as in `read_smiles`; the order is the same only if they follow the other atoms.
    Coordinates, atom names and other properties are not part of a SMILES.

    Args:
        mol: an RDKit molecule.

    Raises:
        SmilesError: RDKit fails; or more than `MAX_LENGTH` atoms, since RDKit crashes on very long chains.

    >>> from rdkit import Chem
    >>> from molattn.chem import smiles_from_mol
    >>> smiles_from_mol(Chem.MolFromSmiles("OCC"))
    ('OCC', True)
    """
    if mol.GetNumAtoms() > MAX_LENGTH:
        raise SmilesError(
            mol, f"it has {mol.GetNumAtoms():,} atoms, and a SMILES has at most {MAX_LENGTH:,} characters"
        )
    with convert_rdkit_errors(mol, "write the molecule as SMILES"):
        without_hs = Chem.RemoveHs(mol, sanitize=False)
        smiles = Chem.MolToSmiles(without_hs, canonical=False)
        order = output_order(without_hs)
    pairs = zip(without_hs.GetAtoms(), mol.GetAtoms(), strict=False)
    return smiles, order == sorted(order) and all(a.GetAtomicNum() == b.GetAtomicNum() for a, b in pairs)


def _validated(text: object, max_atoms: int) -> str:
    """The SMILES without surrounding white space, if its text is valid, brackets included."""
    if type(text) is str and 0 < len(text) <= min(max_atoms, 2 * MAX_RINGS):
        # Each atom and each ring closure takes at least one character: so short a text cannot exceed the limits.
        if text.isascii() and text.isprintable() and " " not in text:
            return _check_brackets(text, text)
    elif not isinstance(text, str):
        raise SmilesError(text, _not_text(text))
    if len(text) > MAX_LENGTH:
        # The start identifies the text; the whole could be megabytes.
        raise SmilesError(text[:100], f"it is {len(text):,} characters long, over the limit of {MAX_LENGTH:,}")
    smiles = str(text).strip()
    if not smiles:
        raise SmilesError(text, "it is empty")
    legal = _PRINTABLE.match(smiles)
    assert legal is not None  # it matches the empty string
    if legal.end() < len(smiles):
        position = text.index(smiles) + legal.end()
        raise SmilesError(text, _not_printable(text[position], position))
    atoms = rings = 0
    for bracket, organic, ring in _TOKENS.findall(smiles):
        atoms += bool(organic) or (bool(bracket) and not _HYDROGEN.fullmatch(bracket))
        rings += bool(ring)
    _check_atoms(text, atoms, max_atoms)
    if rings > 2 * MAX_RINGS:
        raise SmilesError(text, f"it closes {(rings + 1) // 2:,} rings, over the limit of {MAX_RINGS:,}")
    return _check_brackets(smiles, text)


def _check_brackets(smiles: str, text: object) -> str:
    if "[" in smiles and (reason := bracket_error(smiles)):
        raise SmilesError(text, reason)
    return smiles


def _check_atoms(text: object, atoms: int, max_atoms: int) -> None:
    if atoms > max_atoms:
        raise SmilesError(text, f"it has {atoms:,} atoms, over the limit of {max_atoms:,}")


def is_missing(value: object) -> bool:
    """Whether a cell is empty: None, NaN, or pandas' NA or NaT."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _not_text(value: object) -> str:
    if is_missing(value):
        return "the value is missing"
    if is_mol(value):
        return "it is an RDKit molecule where a SMILES is needed: pass Chem.MolToSmiles(mol)"
    return f"it is of type {type(value).__name__}, and a SMILES is text"


def _not_printable(character: str, position: int) -> str:
    if character in " \t\n\r\v\f":
        return f"white space at character {position}; pass the SMILES alone, without a name"
    name = unicodedata.name(character, "a control character")
    return f"character {position} is U+{ord(character):04X} ({name}); a SMILES is printable ASCII"


def _add_hydrogens(mol: Chem.Mol, text: object, on_atoms: list[int] | None = None) -> Chem.Mol:
    with convert_rdkit_errors(text, "add its hydrogens"):
        mol = Chem.AddHs(mol, onlyOnAtoms=on_atoms)
        # RDKit sets the hybridization of parsed hydrogens, but not of added ones.
        Chem.SetHybridization(mol)
    return mol


@contextmanager
def convert_rdkit_errors(text: object, action: str, error_class: type[SmilesError] = SmilesError) -> Iterator[None]:
    """Convert exceptions of RDKit in the `with` block to `error_class`, with the reason "RDKit fails to `action`"."""
    try:
        yield
    except RDKIT_ERRORS as error:
        raise error_class(text, f"RDKit fails to {action}") from error


_SANITIZED = Chem.SmilesParserParams()
_SANITIZED.allowCXSMILES = _SANITIZED.parseName = False


def _parse_error(smiles: str) -> str:
    """Why RDKit rejects a SMILES.

    RDKit writes the reason only to a log of the whole process, so the molecule is checked a second time instead.
    """
    with rdBase.BlockLogs():
        try:
            mol = Chem.MolFromSmiles(smiles, UNSANITIZED)
            problems = () if mol is None else Chem.DetectChemistryProblems(mol)
        except RDKIT_ERRORS:
            return "RDKit fails on it"
        if mol is None:
            return "RDKit cannot read it as SMILES (a spelling, bracket, branch or ring closure is wrong)"
        if not problems:
            return "RDKit cannot make a molecule of it"
        # Any: RDKit's stubs lack the methods of the single problem types.
        problem: Any = problems[0]
        kind = problem.GetType()
        if kind == "KekulizeException":
            indices = problem.GetAtomIndices()
            atoms = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
            return f"no alternating double bonds fit the aromatic atoms {atoms}"
        if kind not in ("AtomValenceException", "AtomKekulizeException"):
            return f"RDKit reports: {problem.Message()}"
        atom = mol.GetAtomWithIdx(problem.GetAtomIdx())
        name = f"atom {atom.GetIdx()} ({atom.GetSymbol()})"
        if kind == "AtomKekulizeException":
            return f"{name} is written as aromatic but is in no ring"
        valence = sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds()) + atom.GetNumExplicitHs()
        return f"{name} has a valence of {valence:g}, more than it can have"
