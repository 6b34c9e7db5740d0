"""Random SMILES-like texts, from a grammar and by mutation, and a slow reference parser of bracket atoms.

The reference parser is independent of that of molattn: it reads one character at a time, and takes the elements from
the periodic table of RDKit.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from rdkit import Chem

from tests.chem.hostile import HOSTILE
from tests.molecules import SPECIAL, esol

_TABLE = Chem.GetPeriodicTable()
ELEMENTS = [_TABLE.GetElementSymbol(number) for number in range(1, 119)]
ALPHABET = "CNOPSFIBHclnobrseita0123456789[]()=#$:/\\@+-.%*~<>"

_ORGANIC = ("C",) * 30 + ("N", "N", "O", "O", "S", "S", "P", "P", "B", "*", "*", "Cl", "Br", "F", "I")
_PIECES = ("c1ccccc1", "c1cc[nH]c1", "c1ccncc1", "C1CC1", "N(=O)=O", "S(=O)(=O)", "c", "n", "o", "s", "p", "b")
_COMMON = ("C", "N", "O", "S", "H", "c", "n", "Na", "Cl", "Si", "Fe", "se", "*", "#6", "#7")
_STRANGE = (
    "te",
    "as",
    "si",
    "Uut",
    "Uuo",
    "Xx",
    "D",
    "T",
    "R",
    "A",
    "al",
    "ge",
    "cl",
    "CL",
    "Uue",
    "#0",
    "'C'",
    "",
    "Q",
)
_CHIRAL = ("@", "@@", "@TH1", "@TH2", "@AL1", "@SP3", "@TB20", "@OH30", "@TH", "@OH7", "@TB1")
_NO_CHIRAL = ("@@@", "@TH3", "@AL3", "@SP4", "@SP0", "@TB21", "@OH31", "@TH01", "@XX", "@1", "@T")
# Around the ends of 7, 8, 15, 16, 31 and 32 bits, and what wraps to something small.
_NUMBERS = (0, 1, 2, 3, 4, 5, 9, 10, 13, 99, 100, 118, 119, 126, 127, 128, 129, 254, 255, 256, 257, 258, 260, 262, 511)
_NUMBERS += (512, 999, 1000, 32767, 32768, 65535, 65536, 65537, 65549, 131076, 2**31 - 1, 2**31, 2**32 - 1, 2**32 + 4)


class Bracket(NamedTuple):
    """The properties of a bracket atom that the reference parser compares with RDKit."""

    isotope: int
    number: int
    aromatic: bool
    hydrogens: int
    charge: int
    label: int


def _digits(rng: Random) -> str:
    found = str(rng.choice(_NUMBERS) if rng.random() < 0.8 else rng.randrange(10 ** rng.randrange(1, 12)))
    return "0" + found if rng.random() < 0.02 else found


def bracket(rng: Random) -> str:
    """A bracket atom, with properties in and out of range."""
    likely = rng.random()
    element = rng.choice(_COMMON if likely < 0.75 else ELEMENTS if likely < 0.93 else _STRANGE)
    if rng.random() < 0.05:
        element = "#" + _digits(rng)
    few = rng.random() < 0.8  # what a chemist would write

    def number() -> str:
        return str(rng.randrange(1, 5)) if few else _digits(rng)

    isotope = (str(rng.choice((1, 2, 3, 13, 14, 15, 18))) if few else _digits(rng)) if rng.random() < 0.2 else ""
    chirality = rng.choice(_CHIRAL if rng.random() < 0.9 else _NO_CHIRAL) if rng.random() < 0.2 else ""
    hydrogens = "H" + (number() if rng.random() < 0.6 else "") if rng.random() < 0.45 else ""
    charge = rng.choice("+-") if rng.random() < 0.35 else ""
    if charge and rng.random() < 0.5:
        charge += number() if rng.random() < 0.8 else charge
    label = ":" + number() if rng.random() < 0.1 else ""
    parts = [isotope, element, chirality, hydrogens, charge, label]
    if rng.random() < 0.02:
        rng.shuffle(parts)
    return f"[{''.join(parts)}]"


def of_grammar(rng: Random) -> str:
    """A text of the grammar of SMILES: chains, branches, rings, bonds and dots."""
    made: list[str] = []
    depth, closing = 0, {}
    for place in range(rng.choice((1, 1, 2, 3, 5, 8, 13, 25))):
        if place:
            drawn = rng.random()
            if drawn < 0.15:
                made.append("(")
                depth += 1
            elif drawn < 0.3 and depth:
                made.append(")")
                depth -= 1
            if rng.random() < 0.25:
                made.append(rng.choice("==#-/\\:~$......") if rng.random() < 0.97 else "->")
        drawn = rng.random()
        made.append(bracket(rng) if drawn < 0.35 else rng.choice(_PIECES if drawn < 0.4 else _ORGANIC))
        if rng.random() < 0.1:
            ring = rng.choice(("1", "2", "3", "%10", "%(100)", "0"))
            closing[ring] = not closing.get(ring, False)
            made.append(ring)
    for ring, still_open in closing.items():
        if still_open and rng.random() < 0.9:
            made += ["C", ring]
    return "".join(made) + ")" * (depth if rng.random() < 0.9 else 0)


def mutated(rng: Random, text: str, other: str) -> str:
    """The text after one to three small changes, which may insert a part of `other`."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randrange(1, 5))
        drawn = rng.randrange(8)
        if drawn == 0:
            text = text[:at] + text[end:]
        elif drawn == 1:
            text = text[:at] + rng.choice(ALPHABET) + text[at:]
        elif drawn == 2:
            text = text[:at] + rng.choice(ALPHABET) + text[at + 1 :]
        elif drawn == 3:
            text = text[:at] + text[at:end] * 2 + text[end:]
        elif drawn == 4:
            start = rng.randrange(len(other) + 1)
            text = text[:at] + other[start : start + rng.randrange(1, 9)] + text[at:]
        elif drawn == 5:
            text = text[:at] + bracket(rng) + text[at:]
        elif drawn == 6:
            text = text[:at] + _digits(rng) + text[at:]
        else:
            # An atom of one letter becomes one in brackets.
            places = [i for i, letter in enumerate(text) if letter in "CNOS"] or [0]
            at = rng.choice(places)
            text = text[:at] + bracket(rng) + text[at + 1 :]
    return text


def texts(count: int, seed: int = 0) -> Iterator[str]:
    """`count` distinct texts, half of them from the grammar."""
    rng, seen = Random(seed), set()
    real = [
        *esol(1128)[0],
        *SPECIAL,
        *(t for t, _ in HOSTILE if isinstance(t, str) and 0 < len(t) < 60 and t.isascii()),
    ]
    while len(seen) < count:
        grown = len(seen) % 2
        text = of_grammar(rng) if grown else mutated(rng, rng.choice(real), rng.choice(real))
        if text not in seen:
            seen.add(text)
            yield text


def second_reading(text: str) -> Bracket | None:
    """The properties of a bracket atom, given with its brackets; None if it is invalid or out of range."""
    if len(text) < 3 or text[0] != "[" or text[-1] != "]":
        return None
    rest = list(text[1:-1])

    def digits() -> int | None:
        found = ""
        while rest and rest[0] in "0123456789":
            found += rest.pop(0)
        if not found:
            return None
        return 10**30 if found[0] == "0" and len(found) > 1 else int(found)

    def taken(*words: str) -> str:
        for word in words:
            if rest[: len(word)] == list(word):
                del rest[: len(word)]
                return word
        return ""

    isotope = digits() or 0
    aromatic = False
    if taken("#"):
        number = digits()
    elif taken("*"):
        number = 0
    elif rest and rest[0].islower():
        symbol = taken("se", "as", "te", "si", "b", "c", "n", "o", "p", "s")
        number = _TABLE.GetAtomicNumber(symbol.capitalize()) if symbol else None
        aromatic = True
    else:
        old = ("Uun", "Uuu", "Uub", "Uut", "Uuq", "Uup", "Uuh", "Uus", "Uuo")
        symbol = taken(*old, *sorted(ELEMENTS, key=len, reverse=True))
        number = None if not symbol else 110 + old.index(symbol) if symbol in old else ELEMENTS.index(symbol) + 1
    if number is None:
        return None
    if taken("@") and not taken("@"):
        for shape, last in (("TH", 2), ("AL", 2), ("SP", 3), ("TB", 20), ("OH", 30)):
            if taken(shape):
                arrangement = digits()
                if arrangement is not None and not 1 <= arrangement <= last:
                    return None
                break
    hydrogens = 0
    if taken("H"):
        found = digits()
        hydrogens = 1 if found is None else found
    charge = 0
    if sign := taken("++", "--", "+", "-"):
        found = digits() if len(sign) == 1 else None
        charge = (len(sign) if found is None else found) * (1 if sign[0] == "+" else -1)
    label = 0
    if taken(":"):
        found = digits()
        if found is None:
            return None
        label = found
    if rest or isotope > 65_535 or number > 118 or hydrogens > 127 or abs(charge) > 127 or label > 999_999_999:
        return None
    return Bracket(isotope, number, aromatic, hydrogens, charge, label)


def brackets_of(text: str) -> list[tuple[int, str]]:
    """The bracket atoms of a text, each with the index of its atom."""
    found, atom, at = [], 0, 0
    while at < len(text):
        if text[at] == "[":
            end = text.find("]", at)
            end = len(text) if end < 0 else end + 1
            found.append((atom, text[at:end]))
            atom, at = atom + 1, end
            continue
        if text[at] == "%":
            at += 2 if text[at + 1 : at + 2] != "(" else text.find(")", at) - at
        elif text[at : at + 2] in ("Cl", "Br"):
            atom, at = atom + 1, at + 1
        elif text[at] in "BCNOPSFIbcnops*":
            atom += 1
        at += 1
    return found


def _as_it_stands() -> Chem.SmilesParserParams:
    parameters = Chem.SmilesParserParams()
    parameters.sanitize = parameters.removeHs = parameters.parseName = parameters.allowCXSMILES = False
    return parameters


_AS_IT_STANDS = _as_it_stands()


def misread(text: str, mol: Chem.Mol) -> str:
    """What differs between an accepted text and its molecule; empty if nothing does."""
    whole = Chem.MolFromSmiles(text, _AS_IT_STANDS)
    for place, spelled in brackets_of(text):
        atom = whole.GetAtomWithIdx(place)
        found = Bracket(
            atom.GetIsotope(),
            atom.GetAtomicNum(),
            atom.GetIsAromatic(),
            atom.GetNumExplicitHs(),
            atom.GetFormalCharge(),
            atom.GetAtomMapNum(),
        )
        if second_reading(spelled) != found:
            return f"{text}: {spelled} is read as {found}"
    # Charges, hydrogens and aromaticity may be set right later; elements, isotopes and classes never are.
    kept = [[(a.GetAtomicNum(), a.GetIsotope(), a.GetAtomMapNum()) for a in m.GetAtoms()] for m in (whole, mol)]
    before, after = ([each for each in atoms if each[0] != 1] for atoms in kept)
    return "" if before == after else f"{text}: its atoms become {after}"
