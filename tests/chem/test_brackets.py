"""Atoms in brackets: what is read of them, in which ranges, and that RDKit's reading is held against it."""

from collections.abc import Iterator

import pytest
from rdkit import Chem

from molattn.chem import brackets, molecule_graph, read_smiles
from molattn.chem.brackets import written
from molattn.chem.parse import read_for_codes
from molattn.errors import SmilesError
from tests.reliability.smiles_texts import second_reading

RIGHT = (
    *("[C]", "[CH4]", "[CH0]", "[13CH4]", "[0C]", "[65535CH4]", "[C-]", "[C+]", "[C--]", "[C++]", "[C+0]", "[C-0]"),
    *("[*H127]", "[C+127]", "[Fe-127]", "[U+127]", "[CH3:1]", "[C:0]", "[C:999999999]", "[12CH2-2:34]", "[*]", "[2*-]"),
    *("[#0]", "[#1]", "[#6H4]", "[13#6H4]", "[#118]", "[Og]", "[Uuo]", "[Uub]", "[H]", "[HH]", "[2H]", "[H+]", "[HH3]"),
    *(
        "[C@]",
        "[C@@]",
        "[C@TH1]",
        "[C@TH2]",
        "[C@TH]",
        "[C@AL1]",
        "[C@AL2]",
        "[C@SP1]",
        "[C@SP3]",
        "[C@TB1]",
    ),
    *(
        "[C@TB20]",
        "[C@OH1]",
        "[C@OH30]",
        "[C@OH]",
        "[C@OHH]",
        "[C@OH3H2]",
        "[C@H]",
        "[C@@H]",
        "[C@TH2H]",
        "[c]",
        "[nH]",
    ),
    *("[se]", "[te]", "[as]", "[si]", "[b]", "[pH+]", "[cH-:3]", "[Cn]", "[Sc]", "[Hf]", "[HoH]"),
)
WRONG = {
    "[#119]": "element 119, and the last is 118",
    "[#255]": "element 255",
    "[#262]": "element 262",
    "[*H128]": "128 hydrogens, over the limit of 127",
    "[CH200]": "200 hydrogens",
    "[CH260]": "260 hydrogens",
    "[C+128]": r"a charge of \+128, over the limit of 127",
    "[C-255]": "a charge of -255",
    "[C+257]": r"a charge of \+257",
    "[65536CH4]": "isotope 65,536, over the limit of 65,535",
    "[65549C]": "isotope 65,549",
    "[C:1000000000]": "the class 1,000,000,000, over the limit of 999,999,999",
    "[Xx]": "names no element: Xx",
    "[D]": "names no element: D",
    "[al]": "names no element: al",
    "[Uue]": "names no element: Uue",
    "[C@TH3]": "a chirality that is none: @TH3",
    "[C@AL3]": "a chirality that is none: @AL3",
    "[C@SP4]": "a chirality that is none: @SP4",
    "[C@TB21]": "a chirality that is none: @TB21",
    "[C@OH31]": "a chirality that is none: @OH31",
    "[C@TB0]": "a chirality that is none: @TB0",
    "[C@TB01]": "a chirality that is none: @TB01",
    "[]": "is not an isotope, an element",
    "[13]": "is not an isotope",
    "[+]": "is not an isotope",
    "[C@@@]": "is not an isotope",
    "[C+++]": "is not an isotope",
    "[C+-]": "is not an isotope",
    "[C+2+]": "is not an isotope",
    "[C+H]": "is not an isotope",
    "[CH@]": "is not an isotope",
    "[C:]": "is not an isotope",
    "[C:1H]": "is not an isotope",
    "[013C]": "is not an isotope",
    "[CH04]": "is not an isotope",
    "[C+01]": "is not an isotope",
    "[#06]": "is not an isotope",
    "[H2]": "is not an isotope",
    "[C": r"the bracket \[C at character \d+ has no end",
    "[[C]]": "has no end",
    "['Xe']": "is not an isotope",
    "[C;H1]": "is not an isotope",
    f"[{'9' * 900}C]": "is 903 characters long",
}


@pytest.fixture
def anew() -> Iterator[None]:
    """Nothing is remembered, before or after."""
    brackets._why_not.cache_clear()
    yield
    brackets._why_not.cache_clear()


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_in_range_is_read_as_it_is_written(text: str) -> None:
    assert brackets.what_is_wrong(text) == ""
    ours, second = written(text), second_reading(text)
    assert not isinstance(ours, str)
    assert (ours.isotope, ours.element, ours.aromatic, ours.hydrogens, ours.charge, ours.label) == second


@pytest.mark.parametrize(("text", "reason"), WRONG.items(), ids=[text[:20] for text in WRONG])
def test_what_is_not_is_refused_with_its_reason(text: str, reason: str) -> None:
    for whole, place in ((text, 0), (f"C{text}", 1), (f"[CH3][CH2]{text}", 10)):
        for read in (read_smiles, read_for_codes, molecule_graph):
            with pytest.raises(SmilesError, match=reason) as caught:
                read(whole)
            assert f"at character {place} " in caught.value.reason and len(caught.value.reason) < 250
    assert second_reading(text) is None


def test_every_element_is_known_by_its_symbol_and_its_number() -> None:
    table = Chem.GetPeriodicTable()
    for number in range(1, 119):
        symbol = table.GetElementSymbol(number)
        for text in (f"[{symbol}]", f"[#{number}]"):
            atom = written(text)
            assert not isinstance(atom, str) and atom.element == number
            assert brackets.what_is_wrong(text) == ""


@pytest.mark.parametrize(("length", "reason"), [(40, "asks for isotope"), (41, "is 43 characters long")])
def test_a_bracket_is_measured_before_it_is_read(length: int, reason: str) -> None:
    assert reason in brackets.what_is_wrong(f"[{'9' * (length - 1)}C]")


def test_a_long_bracket_is_said_in_part() -> None:
    for length, cut in ((40, ""), (41, "...")):
        assert brackets.what_is_wrong(f"[{'C' * length}") == f"the bracket [{'C' * 40}{cut} at character 0 has no end"


@pytest.mark.parametrize(
    ("text", "hydrogens", "charge"),
    [
        *(("", 0, 0), ("+", 0, 1), ("++", 0, 2), ("+1", 0, 1), ("+2", 0, 2), ("+13", 0, 13)),
        *(("-", 0, -1), ("--", 0, -2), ("-1", 0, -1), ("-2", 0, -2), ("H", 1, 0), ("H0", 0, 0), ("H12-", 12, -1)),
    ],
)
def test_hydrogens_and_charges(text: str, hydrogens: int, charge: int) -> None:
    atom = written(f"[Fe{text}]")
    assert not isinstance(atom, str)
    assert (atom.hydrogens, atom.charge) == (hydrogens, charge)


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("name", brackets.BracketAtom._fields)
def test_a_part_that_rdkit_reads_otherwise_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = brackets._read
    monkeypatch.setattr(brackets, "_read", lambda atom: true(atom)._replace(**{name: 77}))
    with pytest.raises(SmilesError, match=rf"\[13CH3-\] at character 1 is read otherwise than .* its {name} as 77"):
        read_smiles("C[13CH3-]")


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("error", [RuntimeError, OverflowError, IndexError, ValueError, None])
def test_a_bracket_that_rdkit_fails_on_is_an_error(
    error: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        if error is not None:
            raise error("C++")

    monkeypatch.setattr(brackets.Chem, "MolFromSmiles", fails)
    assert brackets.what_is_wrong("[CH4]") == "the bracket [CH4] at character 0 is none that RDKit can read"


@pytest.mark.usefixtures("anew")
def test_each_bracket_is_looked_at_once() -> None:
    for text in ("[CH3][CH3]", "C[CH3]", "[CH3]O", "[OH]C"):
        read_smiles(text)
    assert brackets._why_not.cache_info().misses == 2
    with pytest.raises(SmilesError):
        read_smiles(f"[{'1' * 50}C]")
    assert brackets._why_not.cache_info().misses == 2


def test_a_text_without_brackets_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: str) -> str:
        raise AssertionError("it was")

    monkeypatch.setattr("molattn.chem.parse.what_is_wrong", never)
    assert read_smiles("CCO").GetNumAtoms() == read_for_codes("CCO").GetNumAtoms() == 3
    with pytest.raises(AssertionError):
        read_smiles("[CH4]")
