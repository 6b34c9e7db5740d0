"""The compiled reader of RDKit's binaries against the getters, atom by atom; and when it falls back to them."""

import ctypes
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, RDConfig

from molattn.chem import ATOM_FEATURES, binary, molecule_graph, mutate_molecules, read_smiles, unpack_bond
from molattn.chem.binary import (
    CHECK_SMILES,
    PROPERTIES,
    SOURCE,
    agrees_with_reference,
    bind_tables,
    codes_without_stereo_perception,
    molecule_codes,
    reader,
    same_codes,
    unavailable_reason,
)
from molattn.chem.bonds import pair_codes
from molattn.chem.codes import Codes, reference_codes
from molattn.chem.parse import read_for_codes, read_without_stereo_perception
from molattn.chem.stereo import StereoLabels, stereo_labels
from molattn.data import dataset_names, load_card, read_table
from molattn.data.datasets.fetch import find_dataset
from molattn.errors import SmilesError

from .hostile import HOSTILE
from .molecules import BRIDGED, CAGES, DECIDED, DRUGLIKE, MIRRORED, ODD, PSEUDOASYMMETRIC, STEREO

pytestmark = pytest.mark.skipif(reader() is None, reason=f"no reader of binaries: {unavailable_reason()}")

NCI = [line.split()[0] for line in (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().splitlines() if line]
FEW = [*DRUGLIKE, *STEREO, *DECIDED, *PSEUDOASYMMETRIC, *MIRRORED, *CAGES, *ODD, *CHECK_SMILES]


def forms(smiles: Iterable[object], step: int = 1) -> Iterator[Chem.Mol]:
    """Each valid molecule as parsed; every `step`-th also with its hydrogens, and with its atoms in another order.

    `read_for_codes` must give the same codes and raise the same errors as `read_smiles`.
    """
    rng = random.Random(0)
    for k, text in enumerate(smiles):
        mol, fast = outcome(read_smiles, text), outcome(read_for_codes, text)
        if isinstance(mol, SmilesError) or isinstance(fast, SmilesError):
            assert (str(mol), vars(mol)["reason"]) == (str(fast), vars(fast)["reason"])
            continue
        if k % step:
            yield fast
            continue
        assert_same(reference_codes(fast), reference_codes(mol))
        yield mol
        if mol.GetNumAtoms() < 300:
            yield read_smiles(text, add_hs=True)
            order = list(range(mol.GetNumAtoms()))
            rng.shuffle(order)
            yield Chem.RenumberAtoms(mol, order)


def outcome(read: Callable[[object], Chem.Mol], text: object) -> Chem.Mol | SmilesError:
    try:
        return read(text)
    except SmilesError as error:
        return error


def assert_same(one: Codes, other: Codes) -> None:
    for a, b in zip(one[:3], other[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert one[3:] == other[3:]


def check(smiles: Iterable[object], step: int = 1) -> int:
    """Check that both ways return the same codes, paths, symbols and warnings; return how many molecules C read."""
    read, count = reader(), 0
    assert read is not None
    for mol in forms(smiles, step):
        assert agrees_with_reference(read, mol), Chem.MolToSmiles(mol)
        count += read(mol) is not None
    return count


def test_the_reader_supports_all_features():
    assert {feature.source for feature in ATOM_FEATURES} <= PROPERTIES.keys()
    assert unavailable_reason() == ""


def test_codes_are_those_of_the_getters():
    assert check(FEW) > 1.5 * len(FEW)
    assert check(NCI[::50]) > 280


def test_labels_of_cip_rule_1_and_of_mirror_images_are_assigned_without_rdkits_labeler(monkeypatch):
    expected = {text: reference_codes(read_smiles(text)) for text in [*DECIDED, *PSEUDOASYMMETRIC]}
    for text in PSEUDOASYMMETRIC:
        assert np.isin(expected[text].atom_codes[:, -1], [3, 4]).any(), text
    monkeypatch.setattr(binary, "stereo_labels", None)  # must not be called
    for text, codes in expected.items():
        found = molecule_codes(read_for_codes(text))
        assert found.atom_codes[:, -1].any() or (unpack_bond(found.bond_codes)[..., -1]).any(), text
        assert_same(found._replace(symbols=codes.symbols), codes)


@pytest.mark.parametrize(
    "text",
    [
        "C[C@H](F)C[C@H]1CC[C@@H](C)CC1",
        "O[C@H]1[C@H](O)[C@@H](O)[C@H](O)[C@H](O)[C@@H]1O",
        "C[C@H]1O[C@@H](C)O[C@H](C)O1",
        "C[C@]12CC[C@@](C)(CC1)CC2",
        "F/C=C/[C@H]1CC[C@@H](C)CC1",
        "F/C=C/C(/C=C\\F)=C/O",
        "Cl[Pt@SP1](Cl)(N)N",
        # Slow ones.
        "F" + "[C@@H](O)" * 420 + "Cl",
        f"F[C@H]({'C(C(C)C)' * 60}C){'C(C(C)C)' * 60}CC",
    ],
)
def test_other_labels_come_from_rdkits_labeler(monkeypatch, text):
    calls = []

    def labels(mol: Chem.Mol) -> StereoLabels:
        calls.append(mol)
        return stereo_labels(mol)

    monkeypatch.setattr(binary, "stereo_labels", labels)
    mol = read_for_codes(text)
    found, true = molecule_codes(mol), reference_codes(mol)
    assert_same(found._replace(symbols=true.symbols), true)
    assert calls == [mol]


def test_mirror_images_are_labelled_as_by_rdkit_whatever_their_substituents_and_spelling():
    rng = random.Random(0)
    rings = (
        "[C@{1}]1({0})CC[C@{2}]({3})CC1",
        "[C@{1}]1({0})C[C@{2}]({3})C1",
        "[C@{1}]1({0})COC[C@{2}]({3})OC1",
        "[C@{1}]1({0})CCC[C@{2}]({3})C1",
    )
    meso = (
        "CN1[C@H]2CC[C@@H]1C[C@{1}]({0})C2",
        "C[C@{1}]({0})[C@{2}]({3})[C@{1}]({0})C",
        "C[C@H]({0})[C@{2}]({3})[C@@H]({0})C",
    )
    groups = (
        "F",
        "C",
        "CC",
        "O",
        "N(C)C",
        "C(=O)O",
        "c6ccccc6",
        "c6ccncc6",
        "C(F)(F)F",
        "[N+](C)(C)C",
        "C#N",
        "S(C)(=O)=O",
    )

    def molecule() -> str:
        tags = rng.choices(("H", "@H"), k=2)
        return rng.choice((*rings, *meso)).format(rng.choice(groups), *tags, rng.choice(groups))

    texts = [molecule() for _ in range(150)]
    spelled = [Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), 1, randomSeed=k)[0] for k, text in enumerate(texts)]
    assert check([*texts, *spelled]) > 800
    of_mirror_images = [molecule_codes(read_smiles(text)).atom_codes[:, -1] for text in texts]
    assert sum(bool(np.isin(codes, [3, 4]).any()) for codes in of_mirror_images) > 50


def test_labels_of_bridged_rings_are_those_of_rdkit():
    rng = random.Random(0)

    def substituted() -> Iterator[str]:
        for _ in range(300):
            core, *groups = rng.choice(BRIDGED), *rng.choices(("F", "CO", "C(F)C", "c1ccccc1", "C1CCC(F)CC1"), k=2)
            mol = Chem.MolFromSmiles(core)
            for group in groups:
                at = rng.choice([atom.GetIdx() for atom in mol.GetAtoms() if atom.GetTotalNumHs()])
                joined = Chem.RWMol(Chem.CombineMols(mol, Chem.MolFromSmiles(group)))
                joined.AddBond(at, mol.GetNumAtoms(), Chem.BondType.SINGLE)
                Chem.SanitizeMol(joined)
                mol = joined.GetMol()
            yield Chem.MolToSmiles(mol)

    marked = list(marked_at_random(substituted(), rng))[::2]
    assert check(marked) == 3 * len(marked)
    labels = [molecule_codes(read_smiles(text)).atom_codes[:, -1] for text in marked]
    assert sum(bool(np.isin(codes, [3, 4]).any()) for codes in labels) > 30


def check_without_stereo_perception(smiles: Iterable[str]) -> int:
    """Check the codes from molecules without perceived stereochemistry; return how many did not need RDKit's."""
    count = 0
    for text in smiles:
        mol = read_without_stereo_perception(text)
        codes = None if mol is None else codes_without_stereo_perception(mol)
        if codes is not None:
            assert same_codes(codes, reference_codes(read_smiles(text))), text
            count += 1
    return count


def marked_at_random(smiles: Iterable[str], rng: random.Random) -> Iterator[str]:
    """Each molecule with chiral tags at random atoms and directions at random bonds, valid or not."""
    for text in smiles:
        mol = Chem.MolFromSmiles(text)
        for atom in mol.GetAtoms():
            if atom.GetDegree() + atom.GetTotalNumHs() == 4 and rng.random() < 0.5:
                atom.SetChiralTag(rng.choice((Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW)))
        yield Chem.MolToSmiles(mol, canonical=False, rootedAtAtom=rng.randrange(mol.GetNumAtoms()))
        # Between two letters of atoms the bond is single, so that it may be written with a direction.
        yield "".join(
            letter + (rng.choice("/\\") if letter in "CNO" and after in "CNO" and rng.random() < 0.5 else "")
            for letter, after in zip(text, text[1:] + " ", strict=True)
        )


def test_codes_without_perceived_stereochemistry_are_those_with_it():
    assert check_without_stereo_perception([*DECIDED, *STEREO, *DRUGLIKE]) > 0.9 * len(DECIDED)
    rng = random.Random(5)
    drugs = [text for text in [*DECIDED, *DRUGLIKE, *NCI[::25]] if Chem.MolFromSmiles(text)]
    assert check_without_stereo_perception(marked_at_random(drugs, rng)) > 0.3 * len(drugs)
    spelled = [Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), 3, randomSeed=1) for text in DECIDED]
    assert check_without_stereo_perception(text for texts in spelled for text in texts) > 2 * len(DECIDED)


@pytest.mark.parametrize(
    "text",
    [
        "C[C@H](C)O",  # not a stereocentre
        "C[S@](=O)CC",
        "C[C@H]1CC[C@@H](C)CC1",  # decided by the stereochemistry of the branches
        "C1CCCCCCCC/C=C/1",
        "C(/C)(/F)=C/F",  # contradictory
        "CC(/C)=C/F",
        "C/C=[P](/C)(C)C",
    ],
)
def test_stereochemistry_with_exceptions_is_perceived_by_rdkit(text):
    mol = read_without_stereo_perception(text)
    assert mol is not None and codes_without_stereo_perception(mol) is None
    assert_same(
        molecule_codes(read_smiles(text))._replace(symbols=None),
        reference_codes(read_smiles(text))._replace(symbols=None),
    )
    assert (molecule_graph(text).atom_codes == reference_codes(read_smiles(text)).atom_codes).all()


def test_codes_are_those_of_the_getters_for_hostile_text():
    assert check(text for text, _ in HOSTILE) > 10


def test_codes_are_those_of_the_getters_for_random_molecules():
    new = mutate_molecules([*DRUGLIKE, *STEREO], 150, seed=1, max_length=100)
    assert check(new) > 250


@pytest.mark.slow
@pytest.mark.parametrize("name", dataset_names())
def test_codes_are_those_of_the_getters_for_all_available_data(name):
    card = find_dataset(load_card(name))
    if card is not None:  # packaged, or in MOLATTN_DATA
        table = read_table(card.path)
        place = table.columns.index(card.smiles_column)
        assert check((row[place] for row in table.rows), step=10) > 0.9 * len(table.rows)


@pytest.mark.slow
def test_codes_are_those_of_the_getters_for_the_nci_molecules_and_mutants_of_them():
    assert check(NCI, step=10) > 1.1 * len(NCI)
    assert check(mutate_molecules([*DRUGLIKE, *STEREO, *NCI[:500:2]], 2000, seed=2, max_length=200), step=10) > 1800


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 253, 254, 255, 256, 257, 400])
def test_paths_of_every_size(size):
    chain = "C" * size
    star = "C" + "(C)" * min(size - 1, 3)
    mols = [Chem.MolFromSmiles(text) for text in (chain, f"{chain}.{star}", "C1" + chain + "C1" if size > 2 else "C")]
    rng = random.Random(size)
    for mol in mols:
        order = list(range(mol.GetNumAtoms()))
        rng.shuffle(order)
        for one in (mol, Chem.RenumberAtoms(mol, order)):
            np.testing.assert_array_equal(molecule_codes(one).path_lengths, reference_codes(one).path_lengths)


def test_molecules_outside_the_tables_are_left_to_the_getters():
    read = reader()
    assert read is not None
    for smiles in ("C*", "[2H]C", "C~C", "[C+7]", "C.[1*]"):
        mol = read_smiles(smiles)
        assert read(mol) is None
        assert molecule_codes(mol).warnings == reference_codes(mol).warnings != ()
    assert read(Chem.Mol()) is None


def test_a_molecule_that_was_not_parsed_from_smiles():
    mol = Chem.MolFromSmiles("CCO")
    mol.GetAtomWithIdx(0).SetMonomerInfo(Chem.AtomPDBResidueInfo("CA"))  # not supported by the reader
    assert molecule_codes(mol).atom_codes.tolist() == reference_codes(mol).atom_codes.tolist()
    dummy = Chem.MolFromSmarts("C[#6]")
    dummy.UpdatePropertyCache()
    Chem.FastFindRings(dummy)
    assert molecule_codes(dummy).atom_codes.tolist() == reference_codes(dummy).atom_codes.tolist()


def test_damaged_bytes_are_rejected_or_read_within_bounds():
    library = binary.loader.load_library(SOURCE).library
    assert library is not None
    call, rng = bind_tables(library), random.Random(3)
    outcomes = set()
    for smiles in FEW[:80]:
        mol = Chem.MolFromSmiles(smiles)
        whole, n = mol.ToBinary(0), mol.GetNumAtoms()
        size = n * len(ATOM_FEATURES) + 2 * n * n
        room = np.full(size + 64, 77, np.uint8)
        for _ in range(200):
            changed = bytearray(whole)
            changed[rng.randrange(len(changed))] = rng.randrange(256)
            text = bytes(changed[: rng.choice([len(changed), rng.randrange(len(changed))])])
            outcomes.add(call(text, len(text), n, ctypes.c_uint8.from_buffer(room)))
            assert (room[size:] == 77).all()
        assert call(whole, len(whole), n + 1, ctypes.c_uint8.from_buffer(room)) == 3
    assert outcomes == {0, 1, 2, 3}


@pytest.mark.slow
def test_the_address_sanitizer_finds_no_access_out_of_bounds(tmp_path):
    here = Path(__file__).parent
    compiler = shutil.which(os.environ.get("CC") or "cc") or "gcc"
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCE.parent}"]
    program, data = tmp_path / "sanitized", tmp_path / "data"
    subprocess.run([compiler, *flags, "-o", str(program), str(here / "binary_sanitized.c")], check=True)
    tables = binary._tables()
    with data.open("wb") as file:
        file.write(struct.pack("=qq", len(ATOM_FEATURES), binary.SELF))
        file.write(b"".join(tables[name].tobytes() for name in ("property", "atoms", "pairs", "start")))
        for mol in forms([*FEW, *(text for text, _ in HOSTILE), *NCI[::10]]):
            whole = mol.ToBinary(0)
            file.write(struct.pack("=qq", mol.GetNumAtoms(), len(whole)) + whole)
    done = subprocess.run([str(program), str(data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert all(int(count) > 100 for count in done.stdout.split())


@pytest.fixture
def reloaded():
    """Load the reader as at its first use; the state is restored afterwards."""

    def clear() -> None:
        binary._load_reader.cache_clear()
        reader.cache_clear()

    clear()
    yield
    clear()


@pytest.mark.usefixtures("reloaded")
def test_another_version_of_rdkit_is_left_to_the_getters(monkeypatch):
    monkeypatch.setattr(binary, "VERSIONS", ((15, 0, 0),))
    assert reader() is None and unavailable_reason().endswith("are not supported")
    assert molecule_graph("CCO").symbols == ("C", "C", "O")


@pytest.mark.usefixtures("reloaded")
def test_an_unsupported_feature_is_left_to_the_getters(monkeypatch):
    # A new dict: deleting and restoring an item would change the order, in which the C file knows the properties.
    monkeypatch.setattr(binary, "PROPERTIES", {k: v for k, v in PROPERTIES.items() if k != "radicals"})
    assert reader() is None and unavailable_reason() == "the reader does not support the feature radicals"


@pytest.mark.usefixtures("reloaded")
@pytest.mark.parametrize(
    ("table", "code"), [("atoms", 3), ("pairs", pair_codes(Chem.BondType.SINGLE, False, False, "none")[0])]
)
def test_a_wrong_reader_is_detected(monkeypatch, table, code):
    true = binary._tables

    def wrong() -> dict[str, np.ndarray]:
        tables = true()
        assert code in tables[table]
        tables[table] = np.where(tables[table] == code, code + 1, tables[table])
        return tables

    monkeypatch.setattr(binary, "_tables", wrong)
    assert reader() is None and "does not agree with RDKit on" in unavailable_reason()


def test_without_the_reader_the_codes_are_the_same():
    code = (
        "import hashlib; from molattn.chem import molecule_graph, binary;"
        "graphs = [molecule_graph(s) for s in ('C[C@H](N)C(=O)O', 'C*', '[2H]C', 'F/C=C/F', *binary.CHECK_SMILES)];"
        "whole = [(g.atom_codes.tolist(), g.bond_codes.tolist(), g.path_lengths.tolist(), g.symbols, g.warnings)"
        " for g in graphs];"
        "print(hashlib.sha256(repr(whole).encode()).hexdigest(), binary.unavailable_reason())"
    )

    def run(**environment: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
        )
        return done.stdout.split(maxsplit=1)

    with_it, without = run(), run(MOLATTN_COMPILE="0")
    assert with_it[0] == without[0]
    assert with_it[1:] == [] and without[1].strip() == "MOLATTN_COMPILE is 0"
