"""Bracket atoms: parsing, ranges, and the comparison with what RDKit parses."""

from collections.abc import Iterator

import pytest
from rdkit import Chem

from molattn.chem import brackets, molecule_graph, read_smiles
from molattn.chem.brackets import parse_bracket
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
    "[Xx]": "has an unknown element: Xx",
    "[D]": "has an unknown element: D",
    "[al]": "has an unknown element: al",
    "[Uue]": "has an unknown element: Uue",
    "[C@TH3]": "has an invalid chirality: @TH3",
    "[C@AL3]": "has an invalid chirality: @AL3",
    "[C@SP4]": "has an invalid chirality: @SP4",
    "[C@TB21]": "has an invalid chirality: @TB21",
    "[C@OH31]": "has an invalid chirality: @OH31",
    "[C@TB0]": "has an invalid chirality: @TB0",
    "[C@TB01]": "has an invalid chirality: @TB01",
    "[]": "must have an element, after an isotope",
    "[13]": "must have an element",
    "[+]": "must have an element",
    "[C@@@]": "must have an element",
    "[C+++]": "must have an element",
    "[C+-]": "must have an element",
    "[C+2+]": "must have an element",
    "[C+H]": "must have an element",
    "[CH@]": "must have an element",
    "[C:]": "must have an element",
    "[C:1H]": "must have an element",
    "[013C]": "must have an element",
    "[CH04]": "must have an element",
    "[C+01]": "must have an element",
    "[#06]": "must have an element",
    "[H2]": "must have an element",
    "[C": r"the bracket \[C at character \d+ has no end",
    "[[C]]": "has no end",
    "['Xe']": "must have an element",
    "[C;H1]": "must have an element",
    f"[{'9' * 900}C]": "is 903 characters long",
}


@pytest.fixture
def empty_cache() -> Iterator[None]:
    """Clear the cache of brackets before and after."""
    brackets._check_bracket.cache_clear()
    yield
    brackets._check_bracket.cache_clear()


@pytest.mark.parametrize("text", RIGHT)
def test_valid_brackets_are_parsed_as_they_are_written(text: str) -> None:
    assert brackets.bracket_error(text) == ""
    ours, second = parse_bracket(text), second_reading(text)
    assert not isinstance(ours, str)
    assert (ours.isotope, ours.element, ours.aromatic, ours.hydrogens, ours.charge, ours.atom_class) == second


@pytest.mark.parametrize(("text", "reason"), WRONG.items(), ids=[text[:20] for text in WRONG])
def test_invalid_brackets_are_rejected_with_a_reason(text: str, reason: str) -> None:
    for whole, place in ((text, 0), (f"C{text}", 1), (f"[CH3][CH2]{text}", 10)):
        for read in (read_smiles, read_for_codes, molecule_graph):
            with pytest.raises(SmilesError, match=reason) as caught:
                read(whole)
            assert f"at character {place} " in caught.value.reason and len(caught.value.reason) < 250
    assert second_reading(text) is None


def test_every_element_is_read_by_symbol_and_by_number() -> None:
    table = Chem.GetPeriodicTable()
    for number in range(1, 119):
        symbol = table.GetElementSymbol(number)
        for text in (f"[{symbol}]", f"[#{number}]"):
            atom = parse_bracket(text)
            assert not isinstance(atom, str) and atom.element == number
            assert brackets.bracket_error(text) == ""


@pytest.mark.parametrize(("length", "reason"), [(40, "has isotope"), (41, "is 43 characters long")])
def test_the_length_of_a_bracket_is_checked_before_it_is_parsed(length: int, reason: str) -> None:
    assert reason in brackets.bracket_error(f"[{'9' * (length - 1)}C]")


def test_a_long_bracket_is_truncated_in_the_error() -> None:
    for length, cut in ((40, ""), (41, "...")):
        assert brackets.bracket_error(f"[{'C' * length}") == f"the bracket [{'C' * 40}{cut} at character 0 has no end"


@pytest.mark.parametrize(
    ("text", "hydrogens", "charge"),
    [
        *(("", 0, 0), ("+", 0, 1), ("++", 0, 2), ("+1", 0, 1), ("+2", 0, 2), ("+13", 0, 13)),
        *(("-", 0, -1), ("--", 0, -2), ("-1", 0, -1), ("-2", 0, -2), ("H", 1, 0), ("H0", 0, 0), ("H12-", 12, -1)),
    ],
)
def test_hydrogens_and_charges(text: str, hydrogens: int, charge: int) -> None:
    atom = parse_bracket(f"[Fe{text}]")
    assert not isinstance(atom, str)
    assert (atom.hydrogens, atom.charge) == (hydrogens, charge)


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("name", brackets.BracketAtom._fields)
def test_a_part_that_rdkit_misreads_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = brackets._rdkit_atom
    monkeypatch.setattr(brackets, "_rdkit_atom", lambda atom: true(atom)._replace(**{name: 77}))
    with pytest.raises(SmilesError, match=rf"\[13CH3-\] at character 1 is misread by RDKit: its {name} as 77"):
        read_smiles("C[13CH3-]")


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("error", [RuntimeError, OverflowError, IndexError, ValueError, None])
def test_a_bracket_that_rdkit_fails_on_is_an_error(
    error: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        if error is not None:
            raise error("C++")

    monkeypatch.setattr(brackets.Chem, "MolFromSmiles", fails)
    assert brackets.bracket_error("[CH4]") == "the bracket [CH4] at character 0 cannot be read by RDKit"


@pytest.mark.usefixtures("empty_cache")
def test_each_bracket_is_checked_once() -> None:
    for text in ("[CH3][CH3]", "C[CH3]", "[CH3]O", "[OH]C"):
        read_smiles(text)
    assert brackets._check_bracket.cache_info().misses == 2
    with pytest.raises(SmilesError):
        read_smiles(f"[{'1' * 50}C]")
    assert brackets._check_bracket.cache_info().misses == 2


def test_a_text_without_brackets_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: str) -> str:
        raise AssertionError("it was")

    monkeypatch.setattr("molattn.chem.parse.bracket_error", never)
    assert read_smiles("CCO").GetNumAtoms() == read_for_codes("CCO").GetNumAtoms() == 3
    with pytest.raises(AssertionError):
        read_smiles("[CH4]")
