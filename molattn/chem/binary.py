"""The codes of a molecule from RDKit's binary of it: one call into RDKit and one into `binary.c`.

`codes_by_getters` asks RDKit some ten times for every atom, and each question costs as much as all that C does for
that atom. `Mol.ToBinary` holds the same facts. What its bytes mean is RDKit's own business and may change with its
version: a header that is not in `VERSIONS` is refused, and before its first use the reader must agree with the getters
on `AWKWARD` molecules, once for each build of it and each RDKit. Where it does not, where there is no C compiler, and
for each molecule with something that the tables do not cover (and that somebody must be warned of), the getters are
asked.
"""

import ctypes
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import rdkit
from rdkit import Chem, rdBase

from molattn.chem.atoms import ATOM_FEATURES, SYMBOLS, symbols_of
from molattn.chem.bonds import KINDS, SELF, pair_codes, with_stereo
from molattn.chem.codes import Codes, codes_by_getters
from molattn.chem.stereo import stereo_labels
from molattn.kernels import loader

SOURCE = loader.SOURCE_FOLDER / "binary.c"

VERSIONS = ((16, 4, 0),)
"""Of the binary, as its header says them: those that the reader was made for."""

_RING_SIZES = range(3, 9)
_HYBRIDISATIONS = {int(value): value.name for value in Chem.HybridizationType.values.values()}

FACTS: dict[str, Callable[[int], Any]] = {
    "symbol": lambda byte: SYMBOLS[byte],
    "degree": int,
    "hydrogens": int,
    "charge": lambda byte: byte - 256 if byte > 127 else byte,
    "hybridisation": lambda byte: _HYBRIDISATIONS[byte],
    "aromatic": bool,
    "rings": lambda byte: frozenset(size for bit, size in enumerate(_RING_SIZES) if byte >> bit & 1),
    "radicals": int,
    "cip": lambda byte: ("none", "R", "S")[byte],
}
"""The facts of an atom that `binary.c` finds, in its order, each as `AtomFacts` has it by the byte that it becomes.

Labels of stereochemistry are not among what a binary holds. `cip.h` finds those that the first of the CIP rules
decides; RDKit is asked for all labels of a molecule with any other."""

_MAKE_CODES = ("atoms.py", "binary.py", "bonds.py", "codes.py", "features.py", "paths.py", "stereo.py")
_LABELS = ("none", "E", "Z")
_NONE = 255
_UINT8 = np.dtype(np.uint8)
_DONE, _HAS_STEREO = 0, 1
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_CIP = next((k for k, feature in enumerate(ATOM_FEATURES) if feature.name == "cip"), None)

AWKWARD = (
    *("C", "[H][H]", "[2H]C", "[H+]", "[H-].[Na+]", "[He]", "O=[U]=O", "[Og]", "*C", "[1*:3]O", "[CH3:1][CH3:200]"),
    *("[CH3]", "[CH2]", "[C]", "C[N+](C)(C)C", "[O-][n+]1ccccc1", "[Fe+2].[Cl-].[Cl-]", "[C-4]", "[C+5]", "N#N"),
    *("[NH3]->[Pt](Cl)(Cl)<-[NH3]", "[Re]$[Re]", "C~C", "F[U](F)(F)(F)(F)(F)F", "FS(F)(F)(F)(F)F", "FP(F)(F)(F)F"),
    *(
        "C1CC1",
        "C1CCC1",
        "C1CC2CCC1C2",
        "C12C3C4C1C5C2C3C45",
        "C1CCCCCCCCC1",
        "C1CC2(C1)CCC2",
        "c1cc2ccc3cccc4ccc(c1)c2c34",
    ),
    *(
        "c1cc[nH]c1",
        "c1ccsc1",
        "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
        "c1ccc2ccccc2c1",
        "c1cc2ccc3cccc4ccc(c1)c2c34",
        "[bH]1cccc1",
    ),
    *("C=CC=O", "C#CC#N", "CC(=O)[O-].[NH4+]", "C=C=C", "B1OB1", "[SiH4]", "C[Si](C)(C)C", "[Al](C)(C)C", "I(=O)(=O)O"),
    *("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "F/C=C/F", "F/C=C\\F", "C/C(F)=C(/Cl)C", "[H]/N=C(/F)Cl", "C/C=C/C=C\\C"),
    *("C[C@H]1CC[C@@H](C)CC1", "C[S@](=O)CC", "Cl[Pt@SP1](Cl)(N)N", "C[C@](C)(N)O", "CC=[C@]=CC"),
    # Labels that ask what a duplicate is: rings with hetero atoms, rings of choice, rings that close at the centre.
    *(
        "C[C@H](c1cccnc1)c1ccccc1",
        "C[C@@H](c1ncccn1)c1cnccn1",
        "O[C@H](c1ccc2[nH]cnc2c1)c1ccc2ncccc2c1",
        "N[C@@H](Cc1c[nH]cn1)C(=O)N1CCC[C@H]1C(N)=O",
        "C[C@H]1CC(=O)C=C2CC[C@@H]3C[C@H](O)CC[C@]3(C)[C@]12N",
        "C[C@H](C=C)C#N",
        "C[P@](=O)(O)c1ccccc1",
        "C/C(=N\\O)c1cc[n+](C)cc1",
        "CC/C(C#N)=C(/c1ccccc1)c1ccncc1",
        "Cn1c(=O)c2c(ncn2C[C@@H](O)CO)n(C)c1=O",
    ),
    *("C" * 255, "C1" + "C" * 254 + "=C1", "C" * 150 + "C(=O)O." + "C" * 150 + "C1CC1"),
)
"""What the reader must read as the getters do before it is used."""


class Tables(ctypes.Structure):
    """`Tables` of the C source."""

    _fields_ = (
        ("features", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("fact", "atoms", "pairs", "start")),
        ("self", ctypes.c_uint8),
    )


def codes_of(mol: Chem.Mol) -> Codes:
    """The codes of a sanitised molecule: see `MoleculeGraph`."""
    read = reader()
    return (read is not None and read(mol)) or codes_by_getters(mol)


@cache
def reader() -> Callable[[Chem.Mol], Codes | None] | None:
    """What reads binaries, at the first call of a process; None where nothing does: see `why_not`."""
    return _found()[0]


def why_not() -> str:
    """Why `reader` is None, in words; empty where it is not."""
    return _found()[1]


@cache
def _found() -> tuple[Callable[[Chem.Mol], Codes | None] | None, str]:
    unknown = [feature.name for feature in ATOM_FEATURES if feature.fact not in FACTS]
    if unknown:
        return None, f"the reader does not know what {unknown[0]} looks at"
    version = _version(Chem.MolFromSmiles("C").ToBinary(0))
    if version not in VERSIONS:
        return None, f"binaries of version {'.'.join(map(str, version))} are not known"
    library = loader.load_library(SOURCE, (Tables,))
    if library is None:
        return None, loader.unavailable_reason(SOURCE)
    read, agreed = _reader(library), _agreed(library)
    if not agreed.exists():
        with rdBase.BlockLogs():
            for smiles in AWKWARD:
                if not agree(read, Chem.MolFromSmiles(smiles)):
                    return None, f"the reader does not agree with RDKit on {smiles}"
        with suppress(OSError):
            agreed.touch()
    return read, ""


def _agreed(library: ctypes.CDLL) -> Path:
    """The empty file beside the library that says that it agreed: asked anew at every start, it takes a fifth of one.

    Its name says with what: with this RDKit, these tables, and the modules that make codes of either kind.
    """
    made_of = hashlib.sha256(rdkit.__version__.encode())
    for name in _MAKE_CODES:
        made_of.update(Path(__file__).with_name(name).read_bytes())
    for array in _tables().values():
        made_of.update(array.tobytes())
    path = Path(library._name)
    return path.with_name(f"{path.stem}-{made_of.hexdigest()[:16]}.agrees")


def _version(binary: bytes) -> tuple[int, ...]:
    """Of the binary: three numbers after four bytes that mark it and four of zeros."""
    return tuple(int.from_bytes(binary[at : at + 4], "little") for at in (8, 12, 16))


def agree(read: Callable[[Chem.Mol], Codes | None], mol: Chem.Mol) -> bool:
    """Whether both ways say the same of a molecule. One that the reader leaves to the getters is no disagreement."""
    ours, true = read(mol), codes_by_getters(mol)
    if ours is None:
        return bool(true.warnings)
    same = all(np.array_equal(a, b) for a, b in zip(ours[:3], true[:3], strict=True))
    return same and ours.warnings == true.warnings and symbols_of(ours.atom_codes) == true.symbols


def bound(library: ctypes.CDLL) -> Callable[..., int]:
    """`molattn_read` of the C source with its tables: of a binary, its length, n, and where the codes go."""
    arrays = _tables()
    tables = Tables(
        features=len(ATOM_FEATURES), self=SELF, **{name: array.ctypes.data for name, array in arrays.items()}
    )
    tables.arrays = arrays  # they live as long
    # Without letting go of the interpreter: it takes microseconds.
    call = ctypes.PyDLL(None, handle=library._handle).molattn_read
    call.argtypes = (ctypes.POINTER(Tables), ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, _BYTES)
    call.restype = ctypes.c_int
    return partial(call, tables)


def _reader(library: ctypes.CDLL) -> Callable[[Chem.Mol], Codes | None]:
    """From a molecule to its codes by the library, None where it leaves them to the getters."""
    call, features, address, empty = bound(library), len(ATOM_FEATURES), ctypes.c_uint8.from_buffer, np.empty

    def read(mol: Chem.Mol) -> Codes | None:
        binary, n = mol.ToBinary(0), mol.GetNumAtoms()
        if not n:
            return None
        start, pairs = n * features, n * n
        room: Any = empty(start + 2 * pairs, _UINT8)
        found = call(binary, len(binary), n, address(room))
        if found > _HAS_STEREO:
            return None
        codes = Codes(
            room[:start].reshape(n, features),
            room[start : start + pairs].reshape(n, n),
            room[start + pairs :].reshape(n, n),
            None,
            (),
        )
        return codes if found == _DONE else _with_labels(codes, mol)

    return read


def _with_labels(codes: Codes, mol: Chem.Mol) -> Codes | None:
    """The same, with the labels of stereochemistry."""
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
    """What the C source looks up: see its `Tables`."""
    names = list(FACTS)
    atoms = np.full((len(ATOM_FEATURES), 256), _NONE, np.uint8)
    for codes, feature in zip(atoms, ATOM_FEATURES, strict=True):
        for byte in range(256):
            try:
                fact = FACTS[feature.fact](byte)
            except LookupError:  # no such element, no such hybridisation
                continue
            codes[byte] = feature.index.get(feature.read(fact), _NONE)
    pairs = np.full((256, 2, 2, len(_LABELS), 2), _NONE, np.uint8)
    for kind in KINDS:
        for in_ring in (False, True):
            for conjugated in (False, True):
                pairs[int(kind), int(in_ring), int(conjugated)] = [
                    pair_codes(kind, in_ring, conjugated, label) for label in _LABELS
                ]
    return {
        "fact": np.array([names.index(feature.fact) for feature in ATOM_FEATURES], np.uint8),
        "atoms": atoms,
        "pairs": pairs,
        "start": np.frombuffer(Chem.MolFromSmiles("C").ToBinary(0)[:20], np.uint8).copy(),
    }
