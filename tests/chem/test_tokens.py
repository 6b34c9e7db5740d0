"""Tokens: a closed vocabulary for all canonical SMILES."""

from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, RDConfig

from molattn.chem import TOKENS, SmilesTokens, smiles_tokens, tokenize, tokenize_all
from molattn.data import load_card, read_table
from molattn.errors import SmilesError

ODD = (
    "[13CH4]",
    "[nH]1cccc1",
    "[se]1cccc1",
    "[te]1cccc1",
    "C[C@@H](N)C(=O)[O-].[NH4+]",
    "F[Fe@OH3](Cl)(Br)(I)(N)O",
    "F/C=C/Cl",
    "*C",
    "[CH3:12]C",
    "[Pt]<-N",
    "C%11CCCCCCCC%11",
    "[2H]C",
    "[cH-]1cccc1",
    "[C+7]",
    "[Og]",
)


def _is_tokenized(row: SmilesTokens | SmilesError) -> bool:
    assert isinstance(row, SmilesTokens), row
    return "".join(row.labels) == row.encoded_smiles and [TOKENS[c] for c in row.codes] == list(row.labels)


def test_every_molecule_of_esol_and_of_rdkits_data_is_tokenized() -> None:
    rows = [r[0] for r in read_table(load_card("esol").path).rows]
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().splitlines()
    made = tokenize_all([*rows, *(line.split()[0] for line in lines[::10])])
    molecules = [m for m in made if isinstance(m, SmilesTokens)]
    assert len(molecules) >= len(made) - 5
    assert all(map(_is_tokenized, molecules))


@pytest.mark.parametrize("smiles", ODD)
def test_unusual_molecules_are_tokenized(smiles: str) -> None:
    assert _is_tokenized(smiles_tokens(smiles))


def test_every_element_has_a_token() -> None:
    table = Chem.GetPeriodicTable()
    assert all(_is_tokenized(smiles_tokens(f"[{table.GetElementSymbol(z)}]")) for z in range(2, 119))


def test_brackets_are_split_into_their_parts() -> None:
    assert tokenize("[13C@@H2-]") == ("[", "1", "3", "C", "@@", "H", "2", "-", "]")
    assert tokenize("[nH]") == ("[", "n", "H", "]")
    assert tokenize("ClCBr") == ("Cl", "C", "Br")
    assert tokenize("Sc") == ("S", "c")
    assert tokenize("[Sc+3]") == ("[", "Sc", "+", "3", "]")


def test_all_smiles_of_a_molecule_have_the_same_tokens() -> None:
    one, other = smiles_tokens("OCC"), smiles_tokens("C(O)C")
    assert one.labels == other.labels
    assert np.array_equal(one.codes, other.codes)
    assert (one.smiles, other.smiles) == ("OCC", "C(O)C")


def test_codes_are_distinct_and_code_0_is_padding() -> None:
    assert len(set(TOKENS)) == len(TOKENS) <= 256
    assert TOKENS[0] == ""


def test_hydrogens_are_written_on_request() -> None:
    assert smiles_tokens("C", add_hs=True).labels.count("H") == 4


def test_invalid_rows_keep_their_position() -> None:
    made = tokenize_all(["C", "C1CC", "CC"])
    assert [isinstance(m, SmilesError) for m in made] == [False, True, False]
