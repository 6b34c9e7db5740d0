"""Validation of bracket atoms: syntax, ranges, and that RDKit parses each bracket as it is written.

RDKit stores the numbers in brackets in 8 or 16 bits, and larger ones overflow: it reads `[CH260]` as methane and
`[C-255]` as a cation. So each bracket is parsed here first, and RDKit's result is compared with it. The meaning of a
bracket does not depend on the text around it, so results are cached per bracket.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from rdkit import Chem, rdBase

from molattn.chem.features import ELEMENT_SYMBOLS

MAX_ISOTOPE, MAX_HYDROGENS, MAX_CHARGE, MAX_CLASS = 65_535, 127, 127, 999_999_999
"""The largest numbers in a bracket, and the largest absolute charge; RDKit overflows or fails beyond them."""

_NUMBERS = {symbol: number for number, symbol in enumerate(ELEMENT_SYMBOLS)}
# Systematic symbols of elements before they were named.
_NUMBERS |= {f"Uu{letter}": number for number, letter in enumerate("nubtqphso", 110)}
_AROMATIC = ("b", "c", "n", "o", "p", "s", "as", "se", "si", "te")

_MAX_LENGTH = 40
"""Characters between the brackets: no valid bracket is longer."""
_PARTS = re.compile(
    r"\[(?P<isotope>0|[1-9][0-9]*)?"
    r"(?P<element>\*|#(?:0|[1-9][0-9]*)|[A-Z][a-z]{0,2}|[a-z]{1,2})"
    r"(?P<chirality>@(?:@|(?:TH|AL|SP|TB|OH)[0-9]*)?)?"
    r"(?P<hydrogens>H(?:0|[1-9][0-9]*)?)?"
    r"(?P<charge>\+\+|--|[+-](?:0|[1-9][0-9]*)?)?"
    r"(?::(?P<atom_class>0|[1-9][0-9]*))?\]"
)
_NUM_PERMUTATIONS = {"TH": 2, "AL": 2, "SP": 3, "TB": 20, "OH": 30}
"""The number of permutations of neighbours in each chirality class of OpenSMILES."""

Chirality = tuple[Chem.ChiralType, int]
"""As in RDKit: the chiral tag and the permutation number, 0 if it is not written or implied by the tag."""

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

RDKIT_ERRORS = (RuntimeError, ValueError, ArithmeticError, LookupError)
"""Exceptions that RDKit raises when it fails on a molecule."""

UNSANITIZED = Chem.SmilesParserParams()
"""Parser parameters without sanitization, removal of hydrogens, names or CXSMILES."""

UNSANITIZED.allowCXSMILES = UNSANITIZED.parseName = UNSANITIZED.sanitize = UNSANITIZED.removeHs = False


class BracketAtom(NamedTuple):
    """The contents of a bracket."""

    isotope: int
    element: int
    """The atomic number; 0 for `*`."""
    aromatic: bool
    chirality: Chirality
    hydrogens: int
    charge: int
    atom_class: int
    """The atom class, which RDKit calls the atom map number; 0 for none."""


_RANGES = {
    "isotope": ("has isotope {:,}, over the limit of {:,}", MAX_ISOTOPE),
    "element": ("has element {:,}, and the last is {:,}", len(ELEMENT_SYMBOLS) - 1),
    "hydrogens": ("has {:,} hydrogens, over the limit of {:,}", MAX_HYDROGENS),
    "charge": ("has a charge of {:+,}, over the limit of {:,}", MAX_CHARGE),
    "atom_class": ("has the class {:,}, over the limit of {:,}", MAX_CLASS),
}


def bracket_error(smiles: str) -> str:
    """What is wrong with the first invalid bracket of a SMILES; empty if all are valid.

    >>> bracket_error("C[CH260]")
    'the bracket [CH260] at character 1 has 260 hydrogens, over the limit of 127'
    """
    position = smiles.find("[")
    # Not a regular expression, which takes several times as long after a call of RDKit, with cold CPU caches.
    for part in smiles.split("[")[1:]:
        inside, end, _ = part.partition("]")
        if not end:
            return f"the bracket [{_truncated(inside)} at character {position} has no end"
        if len(inside) > _MAX_LENGTH:
            return f"the bracket [{_truncated(inside)} at character {position} is {len(inside) + 2:,} characters long"
        if reason := _check_bracket(f"[{inside}]"):
            return f"the bracket [{inside}] at character {position} {reason}"
        position += 1 + len(part)
    return ""


def _truncated(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}..."


@lru_cache(maxsize=1 << 14)
def _check_bracket(bracket: str) -> str:
    """What is wrong with one bracket, as a predicate such as "has an unknown element: X"; empty if it is valid."""
    atom = parse_bracket(bracket)
    if isinstance(atom, str):
        return atom
    block_logs = rdBase.BlockLogs()  # until `del`
    try:
        mol = Chem.MolFromSmiles(bracket, UNSANITIZED)
    except RDKIT_ERRORS:
        mol = None
    finally:
        del block_logs
    if mol is None or mol.GetNumAtoms() != 1:
        return "cannot be read by RDKit"
    parsed = _rdkit_atom(mol.GetAtomWithIdx(0))
    for name, value, rdkit_value in zip(BracketAtom._fields, atom, parsed, strict=True):
        if value != rdkit_value:
            return f"is misread by RDKit: its {name} as {rdkit_value}, not {value}"
    return ""


def parse_bracket(bracket: str) -> BracketAtom | str:
    """Parse a bracket; for an invalid one, return the reason as a predicate, as in `_check_bracket`.

    Source: OpenSMILES 1.0, 3.1 (http://opensmiles.org/opensmiles.html), and RDKit's `#6` for an element.
    """
    parts = _PARTS.fullmatch(bracket)
    if parts is None:
        return "must have an element, after an isotope and before chirality, hydrogens, charge and class, all optional"
    symbol = parts["element"]
    aromatic = symbol in _AROMATIC
    element = int(symbol[1:]) if symbol[0] == "#" else _NUMBERS.get(symbol.capitalize() if aromatic else symbol)
    if element is None:
        return f"has an unknown element: {symbol}"
    chirality = _chirality(parts["chirality"] or "")
    if chirality is None:
        return f"has an invalid chirality: {parts['chirality']}"
    atom = BracketAtom(
        isotope=int(parts["isotope"] or 0),
        element=element,
        aromatic=aromatic,
        chirality=chirality,
        hydrogens=_number(parts["hydrogens"]),
        charge=_number(parts["charge"]),
        atom_class=int(parts["atom_class"] or 0),
    )
    for name, (message, limit) in _RANGES.items():
        if abs(value := getattr(atom, name)) > limit:
            return message.format(value, limit)
    return atom


def _number(part: str | None) -> int:
    """The number of "H", "H3", "+", "++", "-2" ...: 1 without digits, 0 for an absent part."""
    if not part:
        return 0
    count = 2 if part in ("++", "--") else int(part[1:] or 1)
    return -count if part[0] == "-" else count


def _chirality(part: str) -> Chirality | None:
    """The chirality of "@", "@TB7" ...; None if the class has no such permutation."""
    chirality_class = part[1:3]
    if chirality_class not in _NUM_PERMUTATIONS:
        return _TAGS[part], 0
    number = int(part[3:] or 0)
    if number > _NUM_PERMUTATIONS[chirality_class] or part[3:4] == "0":
        return None
    if chirality_class == "TH":
        return _TAGS["@@" if number == 2 else "@"], 0
    return _TAGS[chirality_class], number


def _rdkit_atom(atom: Chem.Atom) -> BracketAtom:
    """The contents of a bracket as RDKit parsed it."""
    permutation = atom.GetIntProp("_chiralPermutation") if atom.HasProp("_chiralPermutation") else 0
    return BracketAtom(
        isotope=atom.GetIsotope(),
        element=atom.GetAtomicNum(),
        aromatic=atom.GetIsAromatic(),
        chirality=(atom.GetChiralTag(), permutation),
        hydrogens=atom.GetNumExplicitHs(),
        charge=atom.GetFormalCharge(),
        atom_class=atom.GetAtomMapNum(),
    )
