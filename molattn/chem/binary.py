"""The codes of a molecule from its RDKit pickle (`Mol.ToBinary`): one call of RDKit and one of `binary.c`.

`reference_codes` makes about ten calls of RDKit per atom, and one such call takes as long as `binary.c` needs for a
whole atom. `Mol.ToBinary` contains the same properties. Its format is internal to RDKit and may change with the
version, so a header that is not in `VERSIONS` is rejected. Before its first use, the compiled reader must return the
same codes as the reference for `CHECK_SMILES`, once for each build of it and each version of RDKit. The reference is
used if that check fails, if there is no C compiler, and for molecules with a property that is not in the tables and
needs a warning.
"""

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import rdkit
from rdkit import Chem, rdBase

from molattn.chem.atoms import ATOM_FEATURES, symbols_from_codes
from molattn.chem.bonds import BOND_TYPES, SELF, pair_codes, with_stereo
from molattn.chem.brackets import UNSANITIZED
from molattn.chem.codes import Codes, reference_codes
from molattn.chem.features import ELEMENT_SYMBOLS
from molattn.chem.stereo import stereo_labels
from molattn.kernels import loader

SOURCE = loader.SOURCE_FOLDER / "binary.c"

VERSIONS = ((16, 4, 0),)
"""Versions of the binary format, as in its header, that the reader supports."""

_RING_SIZES = range(3, 9)

PROPERTIES: dict[str, Callable[[int], Any]] = {
    "symbol": lambda byte: ELEMENT_SYMBOLS[byte],
    "degree": int,
    "hydrogens": int,
    "charge": lambda byte: byte - 256 if byte > 127 else byte,
    "hybridization": lambda byte: Chem.HybridizationType.values[byte].name,
    "aromatic": bool,
    "rings": lambda byte: frozenset(size for bit, size in enumerate(_RING_SIZES) if byte >> bit & 1),
    "radicals": int,
    "cip": lambda byte: ("none", "R", "S", "r", "s")[byte],
}
"""The atom properties that `binary.c` reads, in its order: functions from a byte to the value in `AtomProperties`.

The binary format has no CIP labels. `cip.h` assigns those that CIP rule 1 decides, or rule 5 for mirror images; if a
molecule has any others, all its labels come from RDKit."""

_CODE_MODULES = ("atoms.py", "binary.py", "bonds.py", "codes.py", "features.py", "stereo.py")
_LABELS = ("none", "E", "Z")
_NONE = 255
_UINT8 = np.dtype(np.uint8)
_DONE, _HAS_STEREO = 0, 1
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_CIP = next((k for k, feature in enumerate(ATOM_FEATURES) if feature.name == "cip"), None)

_SMILES = r"""
C [H][H] [2H]C [H+] [H-].[Na+] [He] O=[U]=O [Og] *C [1*:3]O [CH3:1][CH3:200] [CH3] [CH2] [C] C[N+](C)(C)C
[O-][n+]1ccccc1 [Fe+2].[Cl-].[Cl-] [C-4] [C+5] N#N [NH3]->[Pt](Cl)(Cl)<-[NH3] [Re]$[Re] C~C F[U](F)(F)(F)(F)(F)F
FS(F)(F)(F)(F)F FP(F)(F)(F)F C1CC1 C1CCC1 C1CC2CCC1C2 C12C3C4C1C5C2C3C45 C1CCCCCCCCC1 C1CC2(C1)CCC2
c1cc2ccc3cccc4ccc(c1)c2c34 c1cc[nH]c1 c1ccsc1 Cn1cnc2c1c(=O)n(C)c(=O)n2C c1ccc2ccccc2c1 c1cc2ccc3cccc4ccc(c1)c2c34
[bH]1cccc1 C=CC=O C#CC#N CC(=O)[O-].[NH4+] C=C=C B1OB1 [SiH4] C[Si](C)(C)C [Al](C)(C)C I(=O)(=O)O C[C@H](N)C(=O)O
C[C@@H](N)C(=O)O F/C=C/F F/C=C\F C/C(F)=C(/Cl)C [H]/N=C(/F)Cl C/C=C/C=C\C C[C@H]1CC[C@@H](C)CC1 C[S@](=O)CC
Cl[Pt@SP1](Cl)(N)N C[C@](C)(N)O CC=[C@]=CC
"""
# CIP labels that depend on duplicate atoms: rings with heteroatoms, equivalent rings, rings closed at the centre; then
# mirror images.
_CIP_SMILES = r"""
C[C@H](c1cccnc1)c1ccccc1 C[C@@H](c1ncccn1)c1cnccn1 O[C@H](c1ccc2[nH]cnc2c1)c1ccc2ncccc2c1
N[C@@H](Cc1c[nH]cn1)C(=O)N1CCC[C@H]1C(N)=O C[C@H]1CC(=O)C=C2CC[C@@H]3C[C@H](O)CC[C@]3(C)[C@]12N C[C@H](C=C)C#N
C[P@](=O)(O)c1ccccc1 C/C(=N\O)c1cc[n+](C)cc1 CC/C(C#N)=C(/c1ccccc1)c1ccncc1 Cn1c(=O)c2c(ncn2C[C@@H](O)CO)n(C)c1=O
CN1C[C@@H]2[C@@H](N)[C@@H]2C1 N[C@@H]1[C@@H]2CC3C[C@H]1C[C@@](O)(C3)C2 C[C@@H]1CC[C@H](CN2[C@@H]3CC[C@H]2C[C@H](C3)O)CC1
"""
_LARGE_SMILES = ("C" * 255, "C1" + "C" * 254 + "=C1", "C" * 150 + "C(=O)O." + "C" * 150 + "C1CC1")
CHECK_SMILES = (*_SMILES.split(), *_CIP_SMILES.split(), *_LARGE_SMILES)
"""Molecules for which the reader must return the same codes as the reference before it is used."""


Reader = Callable[[Chem.Mol], Codes | None]


class Tables(ctypes.Structure):
    """`Tables` of `binary.c`."""

    _fields_ = (
        ("features", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("property", "atoms", "pairs", "start")),
        ("self", ctypes.c_uint8),
    )


def molecule_codes(mol: Chem.Mol) -> Codes:
    """The codes of a sanitized molecule: see `MoleculeGraph`."""
    read = reader()
    return (read is not None and read(mol)) or reference_codes(mol)


def codes_without_stereo_perception(mol: Chem.Mol) -> Codes | None:
    """The codes of a molecule from `parse.read_without_stereo_perception`; None if they need that perception."""
    read = _load_reader()[1]
    return None if read is None else read(mol)


@cache
def reader() -> Reader | None:
    """The compiled reader, loaded at the first call of a process; None if there is none: see `unavailable_reason`."""
    return _load_reader()[0]


def unavailable_reason() -> str:
    """Why `reader()` is None; empty if it is not."""
    return _load_reader()[2]


@cache
def _load_reader() -> tuple[Reader | None, Reader | None, str]:
    """The reader, the reader of molecules without stereo perception, and the reason if they are None."""
    unknown = [feature.name for feature in ATOM_FEATURES if feature.source not in PROPERTIES]
    if unknown:
        return None, None, f"the reader does not support the feature {unknown[0]}"
    version = _version(Chem.MolFromSmiles("C").ToBinary(0))
    if version not in VERSIONS:
        return None, None, f"binaries of version {'.'.join(map(str, version))} are not supported"
    loaded = load()
    if loaded.library is None:
        return None, None, loaded.unavailable_reason
    return _make_reader(loaded.library), _make_reader(loaded.library, perceived=False), ""


def load() -> loader.LoadResult:
    """The library of `binary.c`, which returns the codes of the reference for `CHECK_SMILES`.

    The check, a fifth of the start-up time, is repeated for another version of RDKit, and for other tables or modules
    that compute codes by either method.
    """
    digest = hashlib.sha256(rdkit.__version__.encode())
    for name in _CODE_MODULES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    for array in _tables().values():
        digest.update(array.tobytes())
    return loader.load_library(SOURCE, (Tables,), _self_test, digest.hexdigest())


def _self_test(library: ctypes.CDLL) -> str:
    """The first of `CHECK_SMILES` for which a library does not return the codes of the reference; empty if none."""
    read, read_without_stereo = _make_reader(library), _make_reader(library, perceived=False)

    def agrees(text: str) -> bool:
        mol, without_stereo = Chem.MolFromSmiles(text), Chem.MolFromSmiles(text, UNSANITIZED)
        Chem.SanitizeMol(without_stereo)
        if not agrees_with_reference(read, mol):
            return False
        # `MolFromSmiles` removes explicit hydrogens by default, but not with UNSANITIZED.
        codes = read_without_stereo(without_stereo) if mol.GetNumAtoms() == without_stereo.GetNumAtoms() else None
        return codes is None or same_codes(codes, reference_codes(mol))

    with rdBase.BlockLogs():
        wrong = next((text for text in CHECK_SMILES if not agrees(text)), None)
    return "" if wrong is None else f"the reader does not agree with RDKit on {wrong}"


def _version(binary: bytes) -> tuple[int, ...]:
    """The format version: three integers, after four magic bytes and four zeros."""
    return tuple(int.from_bytes(binary[at : at + 4], "little") for at in (8, 12, 16))


def agrees_with_reference(read: Reader, mol: Chem.Mol) -> bool:
    """Whether the reader returns the codes of the reference, or None for a molecule with warnings in the reference."""
    codes, expected = read(mol), reference_codes(mol)
    return bool(expected.warnings) if codes is None else same_codes(codes, expected)


def same_codes(codes: Codes, expected: Codes) -> bool:
    """Whether the codes of the reader are those of the reference."""
    same = all(np.array_equal(a, b) for a, b in zip(codes[:3], expected[:3], strict=True))
    return same and codes.warnings == expected.warnings and symbols_from_codes(codes.atom_codes) == expected.symbols


def bind_tables(library: ctypes.CDLL, function: str = "molattn_read") -> Callable[..., int]:
    """A function of `binary.c` with its tables bound; its arguments are a binary, its length, n and a buffer."""
    arrays = _tables()
    tables = Tables(
        features=len(ATOM_FEATURES), self=SELF, **{name: array.ctypes.data for name, array in arrays.items()}
    )
    tables.arrays = arrays  # a reference, since the struct has only their addresses
    # PyDLL keeps the GIL: a call takes microseconds.
    call = getattr(ctypes.PyDLL(None, handle=library._handle), function)
    call.argtypes = (ctypes.POINTER(Tables), ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, _BYTES)
    call.restype = ctypes.c_int
    return partial(call, tables)


def _make_reader(library: ctypes.CDLL, *, perceived: bool = True) -> Reader:
    """A function from a molecule to its codes, or to None if they need the reference.

    With `perceived=False`, it takes molecules without stereo perception, and returns None if the codes need it.
    """
    call = bind_tables(library, "molattn_read" if perceived else "molattn_read_unperceived")
    features, address, empty = len(ATOM_FEATURES), ctypes.c_uint8.from_buffer, np.empty
    last_complete = _HAS_STEREO if perceived else _DONE

    def read(mol: Chem.Mol) -> Codes | None:
        binary, n = mol.ToBinary(0), mol.GetNumAtoms()
        if not n:
            return None
        start, pairs = n * features, n * n
        buffer: Any = empty(start + 2 * pairs, _UINT8)
        status = call(binary, len(binary), n, address(buffer))
        if status > last_complete:
            return None
        codes = Codes(
            buffer[:start].reshape(n, features),
            buffer[start : start + pairs].reshape(n, n),
            buffer[start + pairs :].reshape(n, n),
            None,
            (),
        )
        return codes if status == _DONE else _with_stereo(codes, mol)

    return read


def _with_stereo(codes: Codes, mol: Chem.Mol) -> Codes | None:
    """The codes with RDKit's CIP labels added; None if the table lacks one of them."""
    stereo = stereo_labels(mol)
    if _CIP is not None:
        index = ATOM_FEATURES[_CIP].index
        if not index.keys() >= set(stereo.atoms.values()):
            return None
        for i, label in stereo.atoms.items():
            codes.atom_codes[i, _CIP] = index[label]
    for k, label in stereo.bonds.items():
        bond = mol.GetBondWithIdx(k)
        ends = [bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]
        codes.bond_codes[ends, ends[::-1]] = with_stereo(codes.bond_codes[ends, ends[::-1]], label)
    return codes._replace(warnings=stereo.warnings)


def _tables() -> dict[str, np.ndarray]:
    """The lookup tables of `binary.c`: see its `Tables`."""
    names = list(PROPERTIES)
    atoms = np.full((len(ATOM_FEATURES), 256), _NONE, np.uint8)
    for codes, feature in zip(atoms, ATOM_FEATURES, strict=True):
        for byte in range(256):
            try:
                value = PROPERTIES[feature.source](byte)
            except LookupError:  # no such element, no such hybridization
                continue
            codes[byte] = feature.index.get(feature.to_label(value), _NONE)
    pairs = np.full((256, 2, 2, len(_LABELS), 2), _NONE, np.uint8)
    for bond_type in BOND_TYPES:
        for in_ring in (False, True):
            for conjugated in (False, True):
                pairs[int(bond_type), int(in_ring), int(conjugated)] = [
                    pair_codes(bond_type, in_ring, conjugated, label) for label in _LABELS
                ]
    return {
        "property": np.array([names.index(feature.source) for feature in ATOM_FEATURES], np.uint8),
        "atoms": atoms,
        "pairs": pairs,
        "start": np.frombuffer(Chem.MolFromSmiles("C").ToBinary(0)[:20], np.uint8).copy(),
    }
