"""Atoms in brackets: each part in its place and in range, and RDKit must read what is written.

RDKit keeps numbers of brackets in 8 or 16 bits and lets larger ones wrap: of `[CH260]` it makes methane, of `[C-255]` a
cation. So the parts are read here first, and what RDKit reads of the same bracket is held against them. How a bracket
is read depends on nothing outside of it, so each is looked at once, whatever the number of molecules that have it.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from rdkit import Chem, rdBase

MAX_ISOTOPE, MAX_HYDROGENS, MAX_CHARGE, MAX_CLASS = 65_535, 127, 127, 999_999_999
"""The largest numbers in a bracket; the charge is as far below 0. RDKit's own numbers wrap or fail beyond them."""

_ALL = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts "
    "Og"
)
_SYMBOLS = _ALL.split()
_NUMBERS = {symbol: number for number, symbol in enumerate(_SYMBOLS, 1)} | {"*": 0}
# What elements were called before they had names.
_NUMBERS |= {f"Uu{letter}": number for number, letter in enumerate("nubtqphso", 110)}
_AROMATIC = ("b", "c", "n", "o", "p", "s", "as", "se", "si", "te")

_LONGEST = 40
"""Characters: none within the ranges is longer."""
_PARTS = re.compile(
    r"\[(?P<isotope>0|[1-9][0-9]*)?"
    r"(?P<element>\*|#(?:0|[1-9][0-9]*)|[A-Z][a-z]{0,2}|[a-z]{1,2})"
    r"(?P<chirality>@(?:@|(?:TH|AL|SP|TB|OH)[0-9]*)?)?"
    r"(?P<hydrogens>H(?:0|[1-9][0-9]*)?)?"
    r"(?P<charge>\+\+|--|[+-](?:0|[1-9][0-9]*)?)?"
    r"(?::(?P<label>0|[1-9][0-9]*))?\]"
)
_SHAPES = {"TH": 2, "AL": 2, "SP": 3, "TB": 20, "OH": 30}
"""How many arrangements of its neighbours each shape has."""

Chirality = tuple[Chem.ChiralType, int]
"""As RDKit has it: the tag, and which arrangement of a shape, 0 where none is said or the tag says it."""

_Tag = Chem.ChiralType
_TAGS = {
    "": _Tag.CHI_UNSPECIFIED,
    "@": _Tag.CHI_TETRAHEDRAL_CCW,
    "@@": _Tag.CHI_TETRAHEDRAL_CW,
    "AL": _Tag.CHI_ALLENE,
    "SP": _Tag.CHI_SQUAREPLANAR,
    "TB": _Tag.CHI_TRIGONALBIPYRAMIDAL,
    "OH": _Tag.CHI_OCTAHEDRAL,
}

FAILURES = (RuntimeError, ValueError, ArithmeticError, LookupError)
"""What RDKit raises where it fails on a molecule."""

AS_WRITTEN = Chem.SmilesParserParams()
"""For RDKit to read a text as it stands: nothing added, taken away or made right."""

AS_WRITTEN.allowCXSMILES = AS_WRITTEN.parseName = AS_WRITTEN.sanitize = AS_WRITTEN.removeHs = False


class BracketAtom(NamedTuple):
    """What a bracket says of its atom."""

    isotope: int
    element: int
    """The atomic number; 0 for any element."""
    aromatic: bool
    chirality: Chirality
    hydrogens: int
    charge: int
    label: int
    """The class, which RDKit calls the map number; 0 for none."""


_RANGES = {
    "isotope": ("asks for isotope {:,}, over the limit of {:,}", MAX_ISOTOPE),
    "element": ("asks for element {:,}, and the last is {:,}", len(_SYMBOLS)),
    "hydrogens": ("asks for {:,} hydrogens, over the limit of {:,}", MAX_HYDROGENS),
    "charge": ("has a charge of {:+,}, over the limit of {:,}", MAX_CHARGE),
    "label": ("has the class {:,}, over the limit of {:,}", MAX_CLASS),
}


def what_is_wrong(smiles: str) -> str:
    """Why a bracket of this text is none, the first such; empty where all are right.

    >>> what_is_wrong("C[CH260]")
    'the bracket [CH260] at character 1 asks for 260 hydrogens, over the limit of 127'
    """
    place = smiles.find("[")
    # Where RDKit has just filled the processor's caches, a regular expression takes several times as long.
    for part in smiles.split("[")[1:]:
        inside, end, _ = part.partition("]")
        if not end:
            return f"the bracket [{_cut(inside)} at character {place} has no end"
        if len(inside) > _LONGEST:
            return f"the bracket [{_cut(inside)} at character {place} is {len(inside) + 2:,} characters long"
        if reason := _why_not(f"[{inside}]"):
            return f"the bracket [{inside}] at character {place} {reason}"
        place += 1 + len(part)
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@lru_cache(maxsize=1 << 14)
def _why_not(bracket: str) -> str:
    """What is wrong with one bracket, as the end of a sentence that begins with it; empty for nothing."""
    atom = written(bracket)
    if isinstance(atom, str):
        return atom
    silence = rdBase.BlockLogs()  # until it is deleted
    try:
        mol = Chem.MolFromSmiles(bracket, AS_WRITTEN)
    except FAILURES:
        mol = None
    finally:
        del silence
    if mol is None or mol.GetNumAtoms() != 1:
        return "is none that RDKit can read"
    found = _read(mol.GetAtomWithIdx(0))
    for name, ours, theirs in zip(BracketAtom._fields, atom, found, strict=True):
        if ours != theirs:
            return f"is read otherwise than it is written: its {name} as {theirs}, not {ours}"
    return ""


def written(bracket: str) -> BracketAtom | str:
    """What a bracket says, or what is wrong with it, as the end of a sentence that begins with it.

    Source: OpenSMILES 1.0, 3.1 (http://opensmiles.org/opensmiles.html), and `#6` for an element, as RDKit has it.
    """
    parts = _PARTS.fullmatch(bracket)
    if parts is None:
        return "is not an isotope, an element, chirality, hydrogens, a charge and a class, each or none, in this order"
    symbol = parts["element"]
    aromatic = symbol in _AROMATIC
    element = int(symbol[1:]) if symbol[0] == "#" else _NUMBERS.get(symbol.capitalize() if aromatic else symbol)
    if element is None:
        return f"names no element: {symbol}"
    chirality = _chirality(parts["chirality"] or "")
    if chirality is None:
        return f"has a chirality that is none: {parts['chirality']}"
    atom = BracketAtom(
        isotope=int(parts["isotope"] or 0),
        element=element,
        aromatic=aromatic,
        chirality=chirality,
        hydrogens=_number(parts["hydrogens"]),
        charge=_number(parts["charge"]),
        label=int(parts["label"] or 0),
    )
    for name, (says, limit) in _RANGES.items():
        if abs(value := getattr(atom, name)) > limit:
            return says.format(value, limit)
    return atom


def _number(part: str | None) -> int:
    """H or a sign, and how often: 1 where nothing says it; 0 for no part at all."""
    if not part:
        return 0
    times = 2 if part in ("++", "--") else int(part[1:] or 1)
    return -times if part[0] == "-" else times


def _chirality(part: str) -> Chirality | None:
    """None for an arrangement that its shape does not have."""
    shape = part[1:3]
    if shape not in _SHAPES:
        return _TAGS[part], 0
    number = int(part[3:] or 0)
    if number > _SHAPES[shape] or part[3:4] == "0":
        return None
    return (_TAGS["@@" if number == 2 else "@"], 0) if shape == "TH" else (_TAGS[shape], number)


def _read(atom: Chem.Atom) -> BracketAtom:
    """What RDKit has read of a bracket."""
    arrangement = atom.GetIntProp("_chiralPermutation") if atom.HasProp("_chiralPermutation") else 0
    return BracketAtom(
        isotope=atom.GetIsotope(),
        element=atom.GetAtomicNum(),
        aromatic=atom.GetIsAromatic(),
        chirality=(atom.GetChiralTag(), arrangement),
        hydrogens=atom.GetNumExplicitHs(),
        charge=atom.GetFormalCharge(),
        label=atom.GetAtomMapNum(),
    )
