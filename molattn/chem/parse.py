"""The gate: text becomes a molecule, or an error that says why.

Limits are checked on the text, before RDKit sees it. RDKit takes what follows a blank or a letter that it
does not know for a name, so that a Cyrillic look-alike of `CC` is read as another molecule; it needs minutes
for some texts of 20 kB and crashes on others. Numbers in brackets wrap, see `brackets`. After this gate nothing of that
kind is left.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rdkit import Chem, rdBase

from molattn.chem.brackets import AS_WRITTEN, FAILURES, what_is_wrong
from molattn.errors import InputError, SmilesError

MAX_LENGTH = 10_000
"""Characters in a SMILES."""

MAX_ATOMS = 1_000
"""Atoms in a molecule, unless the caller says otherwise."""

MAX_RINGS = 500
"""Ring closures in a SMILES: C720 needs 361; 500 of them take under a second, as tangled as can be."""

_PRINTABLE = re.compile(r"[!-~]*")
# Atoms in brackets; atoms of the organic subset; ring closures. All else (bonds, branches, dots) is skipped.
_TOKENS = re.compile(r"(\[[^\[\]]*\])|(Cl|Br|[BCNOPSFIbcnops*])|(%\(\d+\)|%\d\d|\d)")
# Parsing makes this hydrogen implicit wherever it can, so it may not be counted.
_HYDROGEN = re.compile(r"\[H(:\d+)?\]")
# Hydrogens of the text, perhaps with their mass, perhaps by number.
_HYDROGENS = re.compile(r"\[\d*[H#]")


def read_smiles(text: object, *, max_atoms: int = MAX_ATOMS, add_hs: bool = False) -> Chem.Mol:
    """One SMILES as a sanitised molecule, its atoms in the order of the text.

    Hydrogens written as atoms of their own become implicit, as RDKit does it: H2, protons, deuterium and
    those that define the stereochemistry of an imine stay. `[HH]` is read as `[H][H]`. Blanks at both ends
    are dropped.

    Args:
        text: SMILES alone: printable ASCII, no name after it, no ChemAxon extensions.
        max_atoms: The most atoms the molecule may have, hydrogens included where `add_hs` adds them.
        add_hs: Whether to add all hydrogens as atoms, after the others.

    Errors: SmilesError, for whatever is not a molecule within the limits. Atoms in its reason count from 0,
    in the order of the text.
    """
    smiles = _checked(text, max_atoms)
    silence = rdBase.BlockLogs()  # until it is deleted; `with` takes as long again
    try:
        mol = Chem.MolFromSmiles(smiles, _SANITISED)
    except FAILURES as error:
        raise SmilesError(text, "RDKit fails on it") from error
    finally:
        del silence
    if mol is None:
        raise SmilesError(text, _why_not(smiles))
    if mol.GetNumAtoms() == 0:
        raise SmilesError(text, "it has no atoms")
    _check_atoms(text, mol.GetNumAtoms(), max_atoms)
    if "HH" in smiles:
        # Hydrogen molecules must be the same graph however they are written.
        hydrogens = [a.GetIdx() for a in mol.GetAtoms() if a.GetAtomicNum() == 1 and a.GetTotalNumHs()]
        if hydrogens:
            mol = _with_hydrogens(mol, text, hydrogens)
            _check_atoms(text, mol.GetNumAtoms(), max_atoms)
    return with_all_hydrogens(mol, text, max_atoms) if add_hs else mol


def read_for_codes(text: object, *, max_atoms: int = MAX_ATOMS) -> Chem.Mol:
    """`read_smiles` for those who want the codes of the molecule alone, and sooner.

    Where the text marks no stereochemistry and has no hydrogen of its own, nothing comes of RDKit's search for either,
    a quarter of its time. It is left out, and with it the notes in which RDKit keeps what it has searched.
    """
    if type(text) is str and not _is_searched(text):
        smiles = _checked(text, max_atoms)
        silence = rdBase.BlockLogs()
        try:
            mol = Chem.MolFromSmiles(smiles, AS_WRITTEN)
            if mol is not None:
                Chem.SanitizeMol(mol)
        except FAILURES:
            mol = None
        finally:
            del silence
        if mol is not None and 0 < mol.GetNumAtoms() <= max_atoms:
            return mol
    return read_smiles(text, max_atoms=max_atoms)  # which says what is wrong


def _is_searched(text: str) -> bool:
    # One character at a time: a regular expression for all of them takes a tenth of the time of the molecule.
    if "@" in text or "/" in text or "\\" in text:
        return True
    return "[" in text and _HYDROGENS.search(text) is not None


def with_all_hydrogens(mol: Chem.Mol, text: object, max_atoms: int = MAX_ATOMS) -> Chem.Mol:
    """The molecule that was read of `text`, with all its hydrogens as atoms, after the others.

    Errors: SmilesError, where these are more than `max_atoms` together.
    """
    _check_atoms(text, mol.GetNumAtoms() + sum(a.GetTotalNumHs() for a in mol.GetAtoms()), max_atoms)
    return _with_hydrogens(mol, text)


def canonical_smiles(mol: Chem.Mol, *, max_atoms: int = MAX_ATOMS) -> str:
    """RDKit's canonical SMILES of a molecule.

    Errors: InputError over `max_atoms` atoms, since RDKit crashes the process on very long chains; or where it fails.
    """
    if mol.GetNumAtoms() > max_atoms:
        raise InputError(f"the molecule has {mol.GetNumAtoms():,} atoms, over the limit of {max_atoms:,}")
    try:
        return Chem.MolToSmiles(mol)
    except FAILURES as error:
        raise InputError("RDKit fails to write the molecule as SMILES") from error


def _checked(text: object, max_atoms: int) -> str:
    """The SMILES without blanks around it, after all that can be checked without RDKit."""
    if type(text) is str and 0 < len(text) <= min(max_atoms, 2 * MAX_RINGS):
        # An atom and the end of a ring take a character each: of so few there cannot be too many.
        if text.isascii() and text.isprintable() and " " not in text:
            return _with_right_brackets(text, text)
    elif not isinstance(text, str):
        raise SmilesError(text, _not_text(text))
    if len(text) > MAX_LENGTH:
        # The error keeps what identifies the text, not a megabyte of it.
        raise SmilesError(text[:100], f"it is {len(text):,} characters long, over the limit of {MAX_LENGTH:,}")
    smiles = str(text).strip(" ")
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
    return _with_right_brackets(smiles, text)


def _with_right_brackets(smiles: str, text: object) -> str:
    if "[" in smiles and (reason := what_is_wrong(smiles)):
        raise SmilesError(text, reason)
    return smiles


def _check_atoms(text: object, atoms: int, max_atoms: int) -> None:
    if atoms > max_atoms:
        raise SmilesError(text, f"it has {atoms:,} atoms, over the limit of {max_atoms:,}")


def _not_text(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "the value is missing, a SMILES is text"
    return f"it is of type {type(value).__name__}, a SMILES is text"


def _not_printable(character: str, position: int) -> str:
    if character in " \t\n\r\v\f":
        return f"white space at character {position}; give the SMILES alone, without a name"
    name = unicodedata.name(character, "a control character")
    return f"character {position} is U+{ord(character):04X} ({name}); a SMILES is printable ASCII"


def _with_hydrogens(mol: Chem.Mol, text: object, on_atoms: list[int] | None = None) -> Chem.Mol:
    with failing(text, "add its hydrogens"):
        mol = Chem.AddHs(mol, onlyOnAtoms=on_atoms)
        # RDKit leaves it open on the new atoms, and sets it on hydrogens that were read.
        Chem.SetHybridization(mol)
    return mol


@contextmanager
def failing(text: object, to_do: str, kind: type[SmilesError] = SmilesError) -> Iterator[None]:
    """Make whatever RDKit raises over the molecule of `text` an error of this kind, which says what it fails to do."""
    try:
        yield
    except FAILURES as error:
        raise kind(text, f"RDKit fails to {to_do}") from error


_SANITISED = Chem.SmilesParserParams()
_SANITISED.allowCXSMILES = _SANITISED.parseName = False


def _why_not(smiles: str) -> str:
    """What is wrong with a SMILES that RDKit refuses.

    RDKit's own words go to a log of the whole process, so the chemistry is looked at a second time instead.
    """
    with rdBase.BlockLogs():
        try:
            mol = Chem.MolFromSmiles(smiles, AS_WRITTEN)
            problems = () if mol is None else Chem.DetectChemistryProblems(mol)
        except FAILURES:
            return "RDKit fails on it"
        if mol is None:
            return "RDKit cannot read it as SMILES (a spelling, bracket, branch or ring closure is wrong)"
        if not problems:
            return "RDKit cannot make a molecule of it"
        # Any: RDKit's stubs leave out what the kinds of problem have of their own.
        problem: Any = problems[0]
        kind = problem.GetType()
        if kind == "KekulizeException":
            indices = problem.GetAtomIndices()
            atoms = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
            return f"no alternating double bonds fit the aromatic atoms {atoms}"
        if kind not in ("AtomValenceException", "AtomKekulizeException"):
            return f"RDKit says: {problem.Message()}"
        atom = mol.GetAtomWithIdx(problem.GetAtomIdx())
        name = f"atom {atom.GetIdx()} ({atom.GetSymbol()})"
        if kind == "AtomKekulizeException":
            return f"{name} is written as aromatic but is in no ring"
        valence = sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds()) + atom.GetNumExplicitHs()
        return f"{name} has a valence of {valence:g}, more than it can have"
