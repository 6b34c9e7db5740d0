"""Parsing of SMILES: what is accepted, what is rejected and why, and that rejection is cheap."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from molattn.chem import (
    MAX_ATOMS,
    MAX_LENGTH,
    MoleculeGraph,
    canonical_smiles,
    conformer,
    inchi_key,
    inchikey_skeletons,
    molecule_graph,
    morgan_bits,
    murcko_scaffold,
    parse,
    read_smiles,
)
from molattn.chem.parse import read_for_codes, smiles_from_mol
from molattn.chem.standardize import standardized_smiles
from molattn.errors import ConformerError, InputError, SmilesError

from .hostile import HOSTILE


@pytest.mark.parametrize(("text", "good"), HOSTILE, ids=[ascii(text)[:40] for text, _ in HOSTILE])
def test_hostile_text_is_a_molecule_or_an_error_with_a_reason(text, good, capfd):
    if good:
        graph = molecule_graph(text)
        assert graph.num_atoms > 0
    else:
        with pytest.raises(SmilesError) as caught:
            molecule_graph(text)
        assert len(caught.value.reason) > 8
        assert caught.value.reason.isascii()
        assert len(str(caught.value)) < 300
    assert capfd.readouterr().err == ""


def test_the_hostile_corpus_is_large():
    assert len(HOSTILE) >= 60
    assert len({repr(text) for text, _ in HOSTILE}) == len(HOSTILE)


def test_invalid_text_is_rejected_before_rdkit_parses_it(monkeypatch):
    def never(*_args, **_kwargs):
        raise AssertionError("RDKit was called")

    monkeypatch.setattr(parse.Chem, "MolFromSmiles", never)
    too_much = ["C" * (MAX_ATOMS + 1), "[nH]" * 1_001, "Cl" * 1_001, "C" * (MAX_LENGTH + 1), "C12" * 900]
    for text in [None, 3, "", "C\tC", "C\x00", "\u0421", *too_much]:
        with pytest.raises(SmilesError):
            read_smiles(text)


@pytest.mark.parametrize(
    "text",
    [
        "ClCCl",
        "BrC(Br)I",
        "c1cc[nH]c1",
        "[H]C([H])([H])[H]",
        "[H:1]C",
        "C%10CCC%10",
        "C1CC1",
        "[SiH4]",
        "C[Si](C)C",
        "Sc1ccccc1",
        "N#C[Cn]",
        "*C",
        "[Na+].[Cl-]",
        "[13CH4]",
        "B1NB1",
    ],
)
def test_the_estimate_of_atoms_never_rejects_a_molecule_within_the_limit(text):
    atoms = Chem.MolFromSmiles(text).GetNumAtoms()
    assert read_smiles(text, max_atoms=atoms).GetNumAtoms() == atoms
    with pytest.raises(SmilesError, match="over the limit"):
        read_smiles(text, max_atoms=atoms - 1)


def test_each_limit_is_itself_allowed():
    long = "C" + " " * (MAX_LENGTH - 1)
    assert read_smiles(long).GetNumAtoms() == 1
    with pytest.raises(SmilesError, match=f"{MAX_LENGTH + 1:,} characters"):
        read_smiles(long + " ")
    rings = "C" + "C11" * 500  # RDKit refuses a bond of an atom to itself
    with pytest.raises(SmilesError, match="RDKit cannot read it"):
        read_smiles(rings)
    for one_more in (rings + "C1", "C" + "C11" * 501):
        with pytest.raises(SmilesError, match="it closes 501 rings, over the limit of 500"):
            read_smiles(one_more)
    with pytest.raises(SmilesError, match="it closes 600 rings"):  # in a text that is no longer than its atoms may be
        read_smiles("C" + "11" * 600, max_atoms=2_000)


@pytest.mark.parametrize("read", [read_smiles, read_for_codes])
@pytest.mark.parametrize("text", ["C[N](C)(C)(C)(C)C", "C1CC", "[CH9]", "[CH260]"])
def test_rdkit_logs_again_while_an_error_is_still_referenced(read, text, capfd):
    with pytest.raises(SmilesError) as kept:
        read(text)
    assert capfd.readouterr().err == ""
    Chem.MolFromSmiles("C1CC")
    assert "unclosed ring" in capfd.readouterr().err
    assert kept.value.reason


def test_explicit_hydrogens_count_only_if_they_stay_explicit():
    text = "[H]C([H])([H])" + "C([H])([H])" * 98 + "C"
    assert read_smiles(text, max_atoms=100).GetNumAtoms() == 100
    with pytest.raises(SmilesError, match="2 atoms, over the limit of 1"):
        read_smiles("[H][H]", max_atoms=1)


def test_the_limit_holds_for_added_hydrogens():
    assert read_smiles("CC", add_hs=True, max_atoms=8).GetNumAtoms() == 8
    with pytest.raises(SmilesError, match="8 atoms, over the limit of 7"):
        read_smiles("CC", add_hs=True, max_atoms=7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("OC(C)(C)(C)C", r"atom 1 \(C\) has a valence of 5"),
        ("[CH5]", r"atom 0 \(C\) has a valence of 5"),
        ("c1ccccc1c", r"atom 6 \(C\) is written as aromatic"),
        ("c1ccc1c2cccc2", "aromatic atoms 4, 5, 6, 7, 8$"),
        ("[nH]1c[nH]ccccccc1", "aromatic atoms 1, 3, 4, 5, 6, 7, 8, 9$"),
        ("c1cccccccc1", r"aromatic atoms 0, 1, 2, 3, 4, 5, 6, 7, \.\.\.$"),
        ("C1CC", "cannot read it as SMILES"),
        ("C\u0421", r"character 1 is U\+0421 \(CYRILLIC CAPITAL LETTER ES\)"),
        (" C\u0421", "character 2 is"),
        ("CC O", "white space at character 2"),
        ("C\nC", "white space at character 1"),
        ("C\x07", "a control character"),
        (None, "missing"),
        (float("nan"), "missing"),
        (7, "of type int"),
        ("", "empty"),
        ("C" * 20_000, "20,000 characters"),
    ],
)
def test_reasons_name_the_position(text, reason):
    with pytest.raises(SmilesError, match=reason):
        read_smiles(text)


@pytest.mark.parametrize("text", [" CCO", "CCO ", "CCO\n", "CCO\r\n", "\tCCO\t", "\u00a0CCO"])
def test_white_space_at_both_ends_is_dropped(text):
    assert (molecule_graph(text).atom_codes == molecule_graph("CCO").atom_codes).all()
    assert read_smiles(text).GetNumAtoms() == 3


def test_atoms_keep_the_order_of_the_text():
    assert [atom.GetSymbol() for atom in read_smiles("OC(F)(Cl)CBr").GetAtoms()] == ["O", "C", "F", "Cl", "C", "Br"]
    with_hydrogens = read_smiles("OCN", add_hs=True)
    assert [atom.GetSymbol() for atom in with_hydrogens.GetAtoms()] == ["O", "C", "N", *"HHHHH"]


def test_a_hydrogen_molecule_is_one_graph_however_written():
    one, other = molecule_graph("[HH]"), molecule_graph("[H][H]")
    assert (one.atom_codes == other.atom_codes).all()
    assert (one.bond_codes == other.bond_codes).all()


def test_the_hydrogens_of_a_hydrogen_molecule_count():
    with pytest.raises(SmilesError, match="2 atoms, over the limit of 1"):
        read_smiles("[HH]", max_atoms=1)
    assert read_smiles("[HH].CC", max_atoms=4).GetNumAtoms() == 4  # those of the carbons stay implicit


SEARCHED = "_StereochemDone"  # the property that RDKit sets after perceiving stereochemistry


@pytest.mark.parametrize("text", ["C", "CC(C)O", "[NH4+]", "[CH3]C[13CH3]", "c1ccccc1[N+](=O)[O-]", "C#C"])
def test_stereochemistry_is_not_perceived_in_a_text_without_it(text):
    plain, read = read_smiles(text), read_for_codes(text, max_atoms=Chem.MolFromSmiles(text).GetNumAtoms())
    assert (plain.HasProp(SEARCHED), read.HasProp(SEARCHED)) == (1, 0)
    assert Chem.MolToSmiles(read) == Chem.MolToSmiles(plain)


@pytest.mark.parametrize("text", ["C[C@](N)(O)F", "C[C@H](C)O", "C/C=C/C", "C\\C=C\\C", "[H]N=CC", "[2H]C", "[#1]C"])
def test_stereochemistry_is_perceived_in_a_text_with_it(text):
    assert read_for_codes(text).HasProp(SEARCHED)


def test_a_smiles_that_rdkit_rejects_without_a_problem_is_rejected(monkeypatch):
    monkeypatch.setattr(parse.Chem, "DetectChemistryProblems", lambda _mol: ())
    with pytest.raises(SmilesError, match="RDKit cannot make a molecule of it"):
        read_smiles("[CH5]")


def test_parsed_and_added_hydrogens_have_the_same_codes():
    added = molecule_graph("[H][H]", add_hs=True).atom_codes
    assert (molecule_graph("[HH]", add_hs=True).atom_codes == added).all()
    deuterium, hydrogen = molecule_graph("[2H]C", add_hs=True).atom_codes[[0, -1]]
    assert (deuterium == hydrogen).all()


def test_canonical_smiles():
    assert canonical_smiles(read_smiles("OCC")) == "CCO"
    assert canonical_smiles(Chem.MolFromSmiles("OCC"), max_atoms=3) == "CCO"
    with pytest.raises(InputError, match="1,001 atoms"):
        canonical_smiles(Chem.MolFromSmiles("C" * 1_001))


@pytest.mark.parametrize("error", [RuntimeError, ValueError, OverflowError, IndexError])
@pytest.mark.parametrize(
    ("name", "call", "kind"),
    [
        ("Chem.MolFromSmiles", lambda: read_smiles("CCO"), SmilesError),
        ("Chem.DetectChemistryProblems", lambda: read_smiles("C[CH9]"), SmilesError),
        ("Chem.AddHs", lambda: read_smiles("CCO", add_hs=True), SmilesError),
        ("Chem.AddHs", lambda: read_smiles("[HH]"), SmilesError),
        ("Chem.AddHs", lambda: conformer("CCO"), ConformerError),
        ("Chem.MolToSmiles", lambda: canonical_smiles(Chem.MolFromSmiles("CCO")), InputError),
        ("Chem.MolToInchiKey", lambda: inchi_key("CCO"), SmilesError),
        ("Chem.MolToInchiKey", lambda: inchikey_skeletons("CCO"), SmilesError),
        ("Chem.RemoveStereochemistry", lambda: murcko_scaffold("CCO"), SmilesError),
        ("Chem.rdFingerprintGenerator.GetMorganGenerator", lambda: morgan_bits(["CCO"]), SmilesError),
        ("Chem.MolStandardize.rdMolStandardize.Normalizer", lambda: standardized_smiles("CCO", "parent"), SmilesError),
    ],
)
def test_exceptions_of_rdkit_become_errors_of_molattn(name, call, kind, error, monkeypatch):
    class Fails:
        def __init__(self, *_args, **_kwargs):
            if "Generator" not in name:
                raise error("C++")

        def GetFingerprintAsNumPy(self, _mol):
            raise error("C++")

    monkeypatch.setattr(f"rdkit.{name}", Fails)
    with pytest.raises(kind, match="RDKit fails"):
        call()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="CNOPSclnobrFI[]()=#$:/\\@+-.%*~<>H0123456789 \t\u0421", max_size=30) | st.text(max_size=20))
def test_any_text_is_a_graph_or_a_smiles_error(text):
    try:
        outcome = molecule_graph(text)
    except SmilesError as error:
        outcome = error.reason
    assert outcome
    assert isinstance(outcome, MoleculeGraph | str)


@pytest.mark.parametrize(
    "smiles", ["CCO", "c1ccccc1C(=O)[O-]", "C[C@H](N)C(=O)O", "F/C=C/Cl", "[2H]C", "[H][H]", "[13CH3]N"]
)
def test_a_molecule_is_written_as_a_smiles_of_itself(smiles: str) -> None:
    mol = Chem.MolFromSmiles(smiles)
    for one in (mol, Chem.AddHs(mol), Chem.Mol(Chem.AddHs(mol).ToBinary())):
        written, in_order = smiles_from_mol(one)
        assert canonical_smiles(read_smiles(written)) == Chem.CanonSmiles(smiles)
        if in_order:
            read = read_smiles(written)
            first = [a.GetSymbol() for a in one.GetAtoms()][: read.GetNumAtoms()]
            assert [a.GetSymbol() for a in read.GetAtoms()] == first
    assert smiles_from_mol(mol)[1]


def test_a_molecule_whose_order_no_smiles_has_is_reported() -> None:
    ether = Chem.MolFromSmiles("CCOC")
    assert smiles_from_mol(Chem.RenumberAtoms(ether, [0, 2, 1, 3])) == ("CCOC", False)
    hydrogens_first = Chem.AddHs(Chem.MolFromSmiles("CO"))
    n = hydrogens_first.GetNumAtoms()
    assert smiles_from_mol(Chem.RenumberAtoms(hydrogens_first, [*range(2, n), 0, 1])) == ("CO", False)
    assert smiles_from_mol(hydrogens_first) == ("CO", True)


def test_a_molecule_that_was_not_sanitized_is_written_as_it_is() -> None:
    assert smiles_from_mol(Chem.MolFromSmiles("CN(=O)=O", sanitize=False)) == ("CN(=O)=O", True)  # a valence of 5


def test_a_molecule_with_more_atoms_than_a_smiles_has_characters_is_not_written(monkeypatch) -> None:
    """Of fragments of one atom, because RDKit crashes on a chain of that length."""
    mol = Chem.RWMol()
    for _ in range(MAX_LENGTH + 1):
        mol.AddAtom(Chem.Atom("C"))
    with pytest.raises(SmilesError, match=f"it has {MAX_LENGTH + 1:,} atoms, and a SMILES has at most {MAX_LENGTH:,}"):
        smiles_from_mol(mol)
    monkeypatch.setattr(parse, "MAX_LENGTH", 3)  # to write ten thousand takes a second
    assert smiles_from_mol(Chem.MolFromSmiles("CCO")) == ("CCO", True)
    with pytest.raises(SmilesError, match="it has 4 atoms, and a SMILES has at most 3 characters"):
        smiles_from_mol(Chem.MolFromSmiles("CCCO"))


def test_a_molecule_in_place_of_a_smiles_raises() -> None:
    with pytest.raises(SmilesError, match="it is an RDKit molecule where a SMILES is needed"):
        read_smiles(Chem.MolFromSmiles("CCO"))
