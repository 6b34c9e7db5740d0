"""Tokenization of molecules: the canonical SMILES, split into atoms, bonds and parts of brackets.

The vocabulary is closed: brackets are split into isotope, element, chirality, hydrogens, charge and map number, so that
every SMILES that RDKit writes consists of the tokens listed here.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.features import ELEMENT_SYMBOLS
from molattn.chem.molecule import Progress, map_rows
from molattn.chem.parse import MAX_ATOMS, add_hydrogens, canonical_smiles, read_smiles
from molattn.chem.standardize import standardized_smiles
from molattn.errors import SmilesError

_ORGANIC = ("B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I", "b", "c", "n", "o", "p", "s", "*")
_AROMATIC = ("se", "as", "te", "si")
# Besides @ and @@. The digits of the number that follows are tokens of their own.
_CHIRALITY_CLASSES = ("@TH", "@AL", "@SP", "@TB", "@OH")
_SYMBOLS = (*"[]().-=#$:/\\%@", "@@", *_CHIRALITY_CLASSES, "+", "->", "<-", "~")
_DIGITS = tuple("0123456789")

TOKENS: tuple[str, ...] = ("", *dict.fromkeys((*_ORGANIC, *ELEMENT_SYMBOLS[1:], *_AROMATIC, *_SYMBOLS, *_DIGITS)))
"""The vocabulary: `TOKENS[code]` is the token of a code, and code 0 is padding."""

_CODES = {token: code for code, token in enumerate(TOKENS)}
# A whole bracket, or a token outside of brackets.
_BRACKET_OR_TOKEN = re.compile(r"\[[^\]]*\]|Cl|Br|->|<-|.")
_BRACKET = re.compile(
    r"(?P<isotope>\d*)(?P<element>[A-Z][a-z]?|[a-z][a-z]?|\*)(?P<chirality>@TH|@AL|@SP|@TB|@OH|@@|@)?(?P<rest>.*)"
)


@dataclass(frozen=True, eq=False)
class SmilesTokens:
    """One molecule as the n tokens of its canonical SMILES.

    Attributes:
        smiles: the input SMILES.
        encoded_smiles: the canonical SMILES, which is the concatenation of the tokens.
        labels: n tokens.
        codes: (n,) uint8: the codes of the tokens, as in `TOKENS`.
        warnings: one sentence for each thing that the codes do not represent; `smiles_tokens` sets none.

    >>> from molattn.chem import TOKENS, smiles_tokens
    >>> tokens = smiles_tokens("OCC")
    >>> tokens.size, tokens.labels, [TOKENS[code] for code in tokens.codes]
    (3, ('C', 'C', 'O'), ['C', 'C', 'O'])
    """

    smiles: str
    encoded_smiles: str
    labels: tuple[str, ...]
    codes: npt.NDArray[np.uint8]
    warnings: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """n, the number of tokens."""
        return len(self.labels)


def tokenize(smiles: str) -> tuple[str, ...]:
    """The tokens of a SMILES: atoms, bonds, branches, ring closures and the parts of brackets.

    Their concatenation is the SMILES.

    Args:
        smiles: SMILES; it is not validated.

    >>> from molattn.chem import tokenize
    >>> tokenize("C[C@@H](Cl)[O-]")
    ('C', '[', 'C', '@@', 'H', ']', '(', 'Cl', ')', '[', 'O', '-', ']')
    """
    tokens: list[str] = []
    for token in _BRACKET_OR_TOKEN.findall(smiles):
        tokens += _tokenize_bracket(token) if token.startswith("[") and len(token) > 1 else [token]
    return tuple(tokens)


def smiles_tokens(
    smiles: object,
    *,
    add_hs: bool = False,
    max_atoms: int = MAX_ATOMS,
    standardize: str = "",
    on_molecule: Callable[[Chem.Mol], None] | None = None,
) -> SmilesTokens:
    """The tokens of one molecule.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        add_hs: whether hydrogens are written as atoms.
        max_atoms: largest number of atoms.
        standardize: a key of `STANDARDIZE`: the tokens are those of the standard form, and `smiles` is its SMILES.
        on_molecule: as for `molecule_graph`.

    Raises:
        SmilesError: text that is not a molecule within the limits, or a molecule that RDKit fails to standardize.
        InputError: RDKit fails to write the molecule as SMILES.
        UsageError: there is no such `standardize`.

    >>> from molattn.chem import smiles_tokens
    >>> tokens = smiles_tokens("C(Cl)C")
    >>> tokens.encoded_smiles, tokens.labels
    ('CCCl', ('C', 'C', 'Cl'))
    """
    if standardize:
        smiles = standardized_smiles(smiles, standardize, max_atoms)
    mol = read_smiles(smiles, max_atoms=max_atoms)
    if on_molecule is not None:
        on_molecule(mol)
    if add_hs:
        mol = add_hydrogens(mol, smiles, max_atoms)
    canonical = canonical_smiles(mol, max_atoms=max_atoms)
    labels = tokenize(canonical)
    unknown = [token for token in labels if token not in _CODES]
    if unknown:
        raise SmilesError(smiles, f"its canonical form contains {unknown[0]!r}, which is not in the vocabulary")
    return SmilesTokens(str(smiles), canonical, labels, np.array([_CODES[t] for t in labels], dtype=np.uint8))


def tokenize_all(
    smiles: Iterable[object],
    *,
    add_hs: bool = False,
    max_atoms: int = MAX_ATOMS,
    num_workers: int = 0,
    progress: Progress | None = None,
    standardize: str = "",
) -> list[SmilesTokens | SmilesError]:
    """The tokens of many SMILES, in order; for a row that is not a molecule, its error.

    Args:
        smiles: any number of rows, of any type.
        add_hs: as for `smiles_tokens`.
        max_atoms: as for `smiles_tokens`.
        num_workers: as for `featurize`.
        progress: as for `featurize`.
        standardize: as for `smiles_tokens`.

    Returns:
        A `SmilesTokens` or a `SmilesError`, which is not raised, for each row.

    Raises:
        UsageError: there is no such `standardize`; or worker processes die as they start.
        TypeError: `smiles` is a single string.

    >>> from molattn.chem import tokenize_all
    >>> ethanol, error = tokenize_all(["OCC", ""])
    >>> ethanol.labels, error.reason
    (('C', 'C', 'O'), 'it is empty')
    """
    function = partial(smiles_tokens, add_hs=add_hs, max_atoms=max_atoms, standardize=standardize)
    return map_rows(smiles, function, num_workers, progress=progress)


def _tokenize_bracket(bracket: str) -> list[str]:
    """The tokens of a bracket: the isotope by digits, the element, the chirality, and the rest by characters."""
    parts = _BRACKET.fullmatch(bracket[1:-1])
    if parts is None:
        return [bracket]
    chirality = [parts["chirality"]] if parts["chirality"] else []
    return ["[", *parts["isotope"], parts["element"], *chirality, *parts["rest"], "]"]
